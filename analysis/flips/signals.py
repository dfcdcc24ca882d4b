"""The signals by name: what each needs, and which way it points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.resampling import Floats

Needs = Literal["new", "old", "both", "unknown"]


@dataclass(frozen=True)
class SignalKind:
    """A signal's title and nature."""

    title: str
    needs: Needs
    """Which models must have run before the signal is known."""
    lower_is_riskier: bool = False


CONFIDENCE_NEW, CONFIDENCE_OLD = "confidence_new", "confidence_old"
KINDS: Mapping[str, SignalKind] = {
    CONFIDENCE_NEW: SignalKind("confidence of the new model", "new", True),
    CONFIDENCE_OLD: SignalKind("confidence of the old model", "old", True),
    "margin_new": SignalKind("margin of the new model", "new", True),
    "margin_old": SignalKind("margin of the old model", "old", True),
    "attention_entropy_new": SignalKind("attention entropy of the new model", "new"),
    "attention_entropy_old": SignalKind("attention entropy of the old model", "old"),
    "kl": SignalKind("KL(new || old) over options", "both"),
    "jsd": SignalKind("Jensen-Shannon divergence over options", "both"),
    "drift_old_trajectory": SignalKind("likelihood drift on the old trajectory", "both"),
    "drift_new_trajectory": SignalKind("likelihood drift on the new trajectory", "both"),
    "topk_kl_old_trajectory": SignalKind("top-k token KL on the old trajectory", "both"),
    "topk_kl_new_trajectory": SignalKind("top-k token KL on the new trajectory", "both"),
    "representation_drift": SignalKind("representation drift", "both"),
}
"""Signals whose direction and cost are known; any other column is taken as it is, high values as risk."""


def kind_of(name: str) -> SignalKind:
    """The kind of a signal; one that nobody knows needs an unknown number of models and points upwards."""
    return KINDS.get(name, SignalKind(name, "unknown"))


@dataclass(frozen=True)
class SignalTable:
    """The signals of one task under one update."""

    update: str
    task: str
    items: tuple[str, ...]
    clusters: tuple[str, ...]
    old_right: Bools
    new_right: Bools
    signals: Mapping[str, Floats]
    """Shape (items,) each, NaN where undefined."""
    lower: frozenset[str] = frozenset()
    """Further signals of which low values mean risk."""

    @property
    def negative(self) -> Bools:
        """Negative flips."""
        return self.old_right & ~self.new_right

    def lower_is_riskier(self, name: str) -> bool:
        """Whether low values of a signal mean risk."""
        return kind_of(name).lower_is_riskier or name in self.lower

    def risk(self, name: str) -> Floats:
        """A signal turned so that high values mean risk, NaN where undefined."""
        values = self.signals[name]
        turned: Floats = -values if self.lower_is_riskier(name) else values
        return np.where(np.isfinite(turned), turned, np.nan)
