"""A policy that sends risky items back to the old model: a small JSON file, and its decision on new rows."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from safetyrepro.analysis.flips.added_value import FEWEST_FLIPS
from safetyrepro.analysis.flips.routing import FEWEST_ITEMS, model_runs, out_of_fold, routing_folds, threshold_for
from safetyrepro.analysis.flips.signals import SignalTable, kind_of
from safetyrepro.errors import InputError
from safetyrepro.flips.item_signals import ALIASES
from safetyrepro.flips.signal_table import SignalRows

Route = Literal["old", "new"]


@dataclass(frozen=True)
class Routed:
    """One item's way."""

    item_id: str
    value: float | None
    """The signal; None where it is undefined."""
    route: Route

    def as_json(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


class Reached(BaseModel):
    """What the policy's threshold reached on items it was not chosen on."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    fraction: float = Field(ge=0, le=1)
    """Share of items that went to the old model."""
    nfr: float = Field(ge=0, le=1)
    """Negative flips left / items."""
    accuracy: float = Field(ge=0, le=1)


class Policy(BaseModel):
    """Which rows go to the old model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal["1"] = "1"
    update: str
    task: str
    signal: str = Field(min_length=1)
    lower_is_riskier: bool
    threshold: float | None
    """In the signal's own units; None sends only rows where the signal is undefined."""
    tie_share: float = Field(ge=0, le=1)
    """Share of the rows that stand exactly at the threshold; drawn by a hash of the item, so that it is repeatable."""
    target_nfr: float = Field(ge=0, le=1)
    items: int = Field(ge=0)
    flips: int = Field(ge=0)
    nfr_before: float = Field(ge=0, le=1)
    """Without any routing."""
    out_of_fold: Reached
    model_runs: tuple[float, float]
    """Fewest and most model runs per item."""

    @model_validator(mode="after")
    def _ties_need_a_threshold(self) -> Policy:
        if self.threshold is None and self.tie_share:
            raise ValueError("tie_share needs a threshold")
        return self

    def route(self, item_id: str, value: float) -> Route:
        """Where one item goes.

        Args:
            item_id: decides ties.
            value: the signal, NaN where it is undefined; such an item goes to the old model.
        """
        if not math.isfinite(value):
            return "old"
        if self.threshold is None:
            return "new"
        if value == self.threshold:
            return "old" if _share(item_id) < self.tie_share else "new"
        return "old" if (value < self.threshold) == self.lower_is_riskier else "new"

    def routes(self, rows: SignalRows) -> list[Routed]:
        """Where each of several items goes, in their order."""
        return [
            Routed(item, value if math.isfinite(value) else None, self.route(item, value))
            for item, value in zip(rows.items, rows.values, strict=True)
        ]


def choose_policy(
    tables: Sequence[SignalTable],
    path: Path,
    signal: str,
    target: float,
    *,
    update: str | None = None,
    task: str | None = None,
) -> Policy:
    """Choose the threshold that brings the NFR of one task and update to `target`.

    The threshold comes from all items; what it reaches is measured out of fold.

    Args:
        tables: of one file.
        path: that file, for errors.
        signal: the signal to route by.
        target: NFR of the system.
        update: which update, where there are several.
        task: which task, where there are several.

    Raises:
        InputError: no such update or task, several of them, or too few flips or items to choose on.
    """
    fitting = [t for t in tables if update in (None, t.update) and task in (None, t.task)]
    if len(fitting) != 1:
        known = "; ".join(f"update {t.update!r}, task {t.task!r}" for t in tables[:8])
        what = "none fits" if not fitting else f"{len(fitting)} fit"
        raise InputError(f"{path}: {what}; name one with --update and --task; found {known}.")
    table = fitting[0]
    name = ALIASES.get(signal, signal)
    name = "confidence_new" if name == "confidence" else name
    flips, items = int(table.negative.sum()), len(table.items)
    if flips < FEWEST_FLIPS:
        raise InputError(
            f"{path}: holds {flips} negative flips, at least {FEWEST_FLIPS} are needed to choose a threshold."
        )
    folds = routing_folds(table.old_right, table.new_right, table.clusters)
    if folds is None:
        raise InputError(
            f"{path}: holds {items} items in {len(set(table.clusters))} clusters; {FEWEST_ITEMS} items and 10 clusters "
            "are needed to try a threshold on items it was not chosen on."
        )
    risk = table.risk(name)
    if np.isnan(risk).all():
        raise InputError(f"{path}: {signal} is undefined on every item; choose another signal.")
    threshold = threshold_for(risk, table.negative, target)
    reached = out_of_fold(risk, table.old_right, table.new_right, folds, target)
    lower = table.lower_is_riskier(name)
    return Policy(
        update=table.update,
        task=table.task,
        signal=name,
        lower_is_riskier=lower,
        threshold=None if threshold.value is None else (-threshold.value if lower else threshold.value),
        tie_share=threshold.tie_share,
        target_nfr=target,
        items=items,
        flips=flips,
        nfr_before=flips / items,
        out_of_fold=Reached(fraction=reached.fraction, nfr=reached.nfr, accuracy=reached.accuracy),
        model_runs=model_runs(kind_of(name).needs, reached.fraction),
    )


def routes_csv(routes: Sequence[Routed]) -> str:
    """Routes as CSV with the columns item_id, value and route."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["item_id", "value", "route"])
    writer.writerows([entry.item_id, "" if entry.value is None else entry.value, entry.route] for entry in routes)
    return text.getvalue()


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        InputError: no such file, or not a policy; the message names the field.
    """
    try:
        return Policy.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); `flips policy` writes one.") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "file"
        raise InputError(f"{path}: not a policy: {field}: {first['msg']}; `flips policy` writes one.") from None


def _share(item_id: str) -> float:
    """A number in [0, 1) that depends on the item alone."""
    return int.from_bytes(hashlib.sha256(item_id.encode("utf-8", "surrogatepass")).digest()[:7]) / 2**56
