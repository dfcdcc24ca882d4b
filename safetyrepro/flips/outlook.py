"""What one version made of an item, and the signals between two of them, each with the reason where it is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from safetyrepro.benchmarks.base import Score
from safetyrepro.flips.options import jensen_shannon, kl_divergence, option_probabilities
from safetyrepro.flips.task import Question
from safetyrepro.flips.trajectory import (
    likelihood_drift,
    nll_per_byte,
    nll_per_token,
    representation_drift,
    top_k_kl,
)

if TYPE_CHECKING:
    from safetyrepro.engine.observing.view import Ids, Logprobs

NO_ATTENTION = "the model's attention is not computed by a function that can be watched"
OTHER_VOCABULARY = "the versions have different vocabularies"
NO_LIKELIHOOD = "the other version does not have one of the writer's likeliest tokens"
CUT_WITHIN = "the answer was cut within a token"
NO_OPTIONS = "the task has no options to score"
NOTHING_WRITTEN = "nothing was written"


@dataclass(frozen=True)
class Trajectory:
    """What a version answered, token by token, as it saw it itself."""

    text: str
    ids: tuple[int, ...]
    logprobs: Logprobs
    """(n,), nats."""
    top_ids: Ids
    """(n, TOP)"""
    top_logprobs: Logprobs
    in_text: int | None
    """How many of the tokens spell the text (an end token does not); None where it ends within one."""


@dataclass(frozen=True)
class Crossing:
    """One version's answer as the other one sees it."""

    logprobs: Logprobs | None
    """Of the same text's tokens, nats; None where the text cannot be put to the other version."""
    support_logprobs: Logprobs | None
    """(n, TOP): of the writer's likeliest tokens; None with other vocabularies."""
    reason: str | None = None


@dataclass(frozen=True)
class Own:
    """An item as one version answered it."""

    question: Question
    score: Score
    answer: str
    option_values: tuple[float, ...]
    """Summed logprob of each option over its divisor, nats; empty where text was generated."""
    trajectory: Trajectory | None
    """The chosen option or the generated text; None where nothing was written."""
    state: Logprobs
    attention_entropy: float | None


@dataclass
class Signals:
    """The signals of one item."""

    values: dict[str, float] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)
    """Why, by signal."""

    def put(self, name: str, value: float | None, reason: str) -> None:
        """Keep a value, or the reason where there is none."""
        if value is None or not np.isfinite(value):
            self.undefined[name] = reason
        else:
            self.values[name] = value


def own_signals(own: Own) -> Signals:
    """Signals of one version alone: confidence, margin, attention entropy."""
    found = Signals()
    if own.option_values:
        values = sorted(own.option_values, reverse=True)
        found.put("confidence", float(option_probabilities(own.option_values).max()), "an option has no likelihood")
        found.put("margin", values[0] - values[1], "an option has no likelihood")
    else:
        written = own.trajectory
        likelihood = None if written is None else -nll_per_token(written.logprobs)
        found.put("confidence", likelihood, NOTHING_WRITTEN)
        found.put("margin", None, NO_OPTIONS)
    found.put("attention_entropy", own.attention_entropy, NO_ATTENTION)
    return found


def crossed_signals(
    old: Own, new: Own, old_by_new: Crossing, new_by_old: Crossing, *, same_vocabulary: bool
) -> Signals:
    """Signals between two versions.

    Args:
        old: the item as the old version answered it.
        new: as the new one did.
        old_by_new: the old answer as the new version sees it.
        new_by_old: the new answer as the old version sees it.
        same_vocabulary: whether token ids mean the same to both.
    """
    found = Signals()
    _over_options(found, old, new)
    for side, own, crossing in (("old", old, old_by_new), ("new", new, new_by_old)):
        drift, reason = _drift(own.trajectory, crossing, by_old=side == "new", same_vocabulary=same_vocabulary)
        found.put(f"drift_{side}_trajectory", drift, reason)
        divergence = None
        if own.trajectory is not None and crossing.support_logprobs is not None and same_vocabulary:
            divergence = top_k_kl(own.trajectory.top_logprobs, crossing.support_logprobs)
        why = NO_LIKELIHOOD if same_vocabulary else OTHER_VOCABULARY
        why = NOTHING_WRITTEN if own.trajectory is None else why
        found.put(f"topk_kl_{side}_trajectory", divergence, crossing.reason or why)
    same_width = old.state.shape == new.state.shape
    widths = f"the versions' states have different widths, {len(old.state)} and {len(new.state)}"
    change = representation_drift(old.state, new.state) if same_width else None
    found.put("representation_drift", change, "a state is zero" if same_width else widths)
    return found


def _over_options(found: Signals, old: Own, new: Own) -> None:
    reason = NO_OPTIONS
    if old.option_values and new.option_values:
        if [o.text.strip() for o in old.question.options] == [o.text.strip() for o in new.question.options]:
            before, after = (option_probabilities(own.option_values) for own in (old, new))
            found.put("kl", kl_divergence(after, before), "an option has no likelihood")
            found.put("jsd", jensen_shannon(after, before), "an option has no likelihood")
            return
        reason = "the versions were given different options"
    for name in ("kl", "jsd"):
        found.put(name, None, reason)


def _drift(
    written: Trajectory | None, crossing: Crossing, *, by_old: bool, same_vocabulary: bool
) -> tuple[float | None, str]:
    """NLL of the new version minus the old one's on one trajectory: per token, with other vocabularies per byte."""
    if written is None:
        return None, NOTHING_WRITTEN
    if crossing.logprobs is None:
        return None, crossing.reason or NOTHING_WRITTEN
    if same_vocabulary:
        own, other = nll_per_token(written.logprobs), nll_per_token(crossing.logprobs)
    elif written.in_text is None:
        return None, CUT_WITHIN
    else:
        own = nll_per_byte(written.logprobs[: written.in_text], written.text)
        other = nll_per_byte(crossing.logprobs, written.text)
    return (likelihood_drift(own, other) if by_old else likelihood_drift(other, own)), ""


def counted(reasons: Sequence[Signals]) -> list[dict[str, object]]:
    """How often each signal is undefined, by reason."""
    totals: dict[tuple[str, str], int] = {}
    for signals in reasons:
        for name, reason in signals.undefined.items():
            totals[name, reason] = totals.get((name, reason), 0) + 1
    return [{"signal": name, "reason": reason, "items": items} for (name, reason), items in sorted(totals.items())]
