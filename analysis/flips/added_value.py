"""Whether a signal tells more about flips than the new model's confidence already does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.flips.crossvalidation import (
    Corrected,
    Fold,
    auroc,
    corrected_mean,
    fold_aurocs,
    repeated_folds,
)
from safetyrepro.analysis.flips.pairing import Bools
from safetyrepro.analysis.flips.signals import CONFIDENCE_NEW, CONFIDENCE_OLD, SignalTable
from safetyrepro.analysis.resampling import TOLERANCE, Floats, holm

FEWEST_FLIPS, ENOUGH_FLIPS = 25, 100
"""Under the first nothing is computed; under the second figures are shown and no signal is called better."""
ALPHA = 0.05
FEWEST_DEFINED = 0.5
"""A signal defined on a smaller share of the items stays out of "all together"."""
Population = Literal["old_correct", "label_free"]
Verdict = Literal["adds value", "no added value shown", "too few to compare", "refused", "undefined", "baseline"]


@dataclass(frozen=True)
class SignalValue:
    """One signal in one population."""

    signal: str
    items: int
    """Items on which the signal and the confidence are defined."""
    undefined: int
    """Items of the population on which it is not."""
    flips: int
    auroc: float | None
    """Of the signal by itself, turned so that high values mean risk."""
    auroc_confidence: float | None
    """Cross-validated, of LR(confidence) on the same items and folds."""
    auroc_with: float | None
    """Cross-validated, of LR(confidence, signal)."""
    added: Corrected
    """`auroc_with - auroc_confidence`."""
    beyond_difficulty: Corrected
    """The same over LR(confidence, confidence of the old model): what is left once hard items are known."""
    p_adjusted: float | None
    """p of the added value, by Holm over the signals."""
    verdict: Verdict
    reason: str | None


@dataclass(frozen=True)
class Together:
    """All signals with the confidence against the best single one with it, best chosen inside each training fold."""

    signals: tuple[str, ...]
    left_out: tuple[str, ...]
    """Signals defined on too few items."""
    items: int
    flips: int
    auroc_all: float | None
    auroc_best_single: float | None
    gain: Corrected
    reason: str | None


@dataclass(frozen=True)
class PopulationStudy:
    """All signals on old-correct items, or label-free on all items."""

    population: Population
    items: int
    flips: int
    signals: tuple[SignalValue, ...]
    """Largest added value first; what is not computed last."""
    together: Together | None
    reason: str | None
    """Why no comparison is made at all, or only a provisional one."""

    @property
    def adding(self) -> tuple[str, ...]:
        """Signals shown to add value."""
        return tuple(row.signal for row in self.signals if row.verdict == "adds value")


_NOTHING = Corrected(None, None, None, 0, 0)


class _Comparisons:
    """Fits of one population, each computed once per set of items and features."""

    def __init__(self, table: SignalTable, members: Bools) -> None:
        self.target = table.negative[members]
        self.clusters = [cluster for cluster, kept in zip(table.clusters, members.tolist(), strict=True) if kept]
        self.columns: dict[str, Floats] = {name: table.risk(name)[members] for name in table.signals}
        self._folds: dict[bytes, list[Fold]] = {}
        self._fits: dict[tuple[bytes, tuple[str, ...]], NDArray[np.float64]] = {}

    def defined(self, names: Sequence[str]) -> Bools:
        mask = np.ones(len(self.target), dtype=np.bool_)
        for name in names:
            mask &= np.isfinite(self.columns[name])
        return mask

    def folds(self, mask: Bools) -> list[Fold]:
        key = mask.tobytes()
        if key not in self._folds:
            kept = [cluster for cluster, member in zip(self.clusters, mask.tolist(), strict=True) if member]
            self._folds[key] = repeated_folds(self.target[mask], kept)
        return self._folds[key]

    def fit(self, names: Sequence[str], mask: Bools) -> NDArray[np.float64]:
        key = (mask.tobytes(), tuple(names))
        if key not in self._fits:
            features = [self.columns[name][mask] for name in names]
            self._fits[key] = fold_aurocs(self.target[mask], features, self.folds(mask))
        return self._fits[key]

    def gain(self, base: Sequence[str], name: str, mask: Bools) -> Corrected:
        difference = self.fit([*base, name], mask)[:, 1] - self.fit(base, mask)[:, 1]
        return corrected_mean(difference, self.folds(mask))


def study_population(table: SignalTable, population: Population) -> PopulationStudy:
    """Standalone AUROC and added value of every signal in one population.

    `old_correct` asks among the items that the old model had right which are lost; `label_free` asks among all items,
    as it has to be asked where no right answers are known. The target is a negative flip either way.

    Fewer than 25 items of either class are refused. With fewer than 100 the figures are shown and the verdict is "too
    few to compare". From there on a signal adds value where its added AUROC is above 0 with p <= 0.05 by Holm over the
    signals.
    """
    members: Bools = table.old_right if population == "old_correct" else np.ones(len(table.items), dtype=np.bool_)
    work = _Comparisons(table, members)
    items, flips = len(work.target), int(work.target.sum())
    smaller = min(flips, items - flips)
    others = [name for name in table.signals if name != CONFIDENCE_NEW]
    reason = _too_few(items, flips)
    rows = [_signal_value(work, name) for name in table.signals]
    adjusted = iter(holm([row.added.p for row in rows if row.added.p is not None]))
    rows = [row if row.added.p is None else _judged(row, next(adjusted)) for row in rows]
    together = None
    if CONFIDENCE_NEW in table.signals and len(others) >= 2 and smaller >= FEWEST_FLIPS:
        together = _together(work, others)
    order = sorted(rows, key=lambda row: (row.added.mean is None, -(row.added.mean or 0.0), row.signal))
    return PopulationStudy(population, items, flips, tuple(order), together, reason)


def _too_few(items: int, flips: int) -> str | None:
    if not items:
        return "there is no such item"
    smaller, one, many = min(
        (flips, "negative flip", "negative flips"), (items - flips, "item that does not flip", "items that do not flip")
    )
    what = one if smaller == 1 else many
    if smaller < FEWEST_FLIPS:
        return f"{smaller} {what}: under {FEWEST_FLIPS} no signal is judged"
    if smaller < ENOUGH_FLIPS:
        return f"{smaller} {what}: under {ENOUGH_FLIPS} they are too few to compare signals"
    return None


def _signal_value(work: _Comparisons, name: str) -> SignalValue:
    known = CONFIDENCE_NEW in work.columns
    mask = work.defined([name, CONFIDENCE_NEW] if known else [name])
    items, flips = int(mask.sum()), int(work.target[mask].sum())
    smaller = min(flips, items - flips)
    row = SignalValue(
        signal=name,
        items=items,
        undefined=len(mask) - items,
        flips=flips,
        auroc=None,
        auroc_confidence=None,
        auroc_with=None,
        added=_NOTHING,
        beyond_difficulty=_NOTHING,
        p_adjusted=None,
        verdict="refused",
        reason=_too_few(items, flips),
    )
    if not items:
        return replace(row, verdict="undefined", reason="not a number on any item")
    if smaller < FEWEST_FLIPS:
        return row
    row = replace(row, auroc=auroc(work.target[mask], work.columns[name][mask]))
    if not known:
        reason = f"no {CONFIDENCE_NEW} to compare with"
        return replace(row, verdict="refused", reason=reason)
    base = work.fit([CONFIDENCE_NEW], mask)[:, 1]
    row = replace(row, auroc_confidence=_mean(base))
    if name == CONFIDENCE_NEW:
        return replace(row, verdict="baseline")
    row = replace(
        row,
        auroc_with=_mean(work.fit([CONFIDENCE_NEW, name], mask)[:, 1]),
        added=work.gain([CONFIDENCE_NEW], name, mask),
        verdict="too few to compare" if smaller < ENOUGH_FLIPS else "no added value shown",
    )
    if CONFIDENCE_OLD in work.columns and name != CONFIDENCE_OLD:
        both = mask & work.defined([CONFIDENCE_OLD])
        hits = int(work.target[both].sum())
        if min(hits, int(both.sum()) - hits) >= FEWEST_FLIPS:
            row = replace(row, beyond_difficulty=work.gain([CONFIDENCE_NEW, CONFIDENCE_OLD], name, both))
    return row


def _judged(row: SignalValue, p: float) -> SignalValue:
    adds = row.verdict == "no added value shown" and (row.added.mean or 0.0) > TOLERANCE and p <= ALPHA
    return replace(row, p_adjusted=p, verdict="adds value" if adds else row.verdict)


def _together(work: _Comparisons, others: Sequence[str]) -> Together:
    wanted = [name for name in others if work.defined([name]).mean() >= FEWEST_DEFINED]
    left_out = tuple(name for name in others if name not in wanted)
    mask = work.defined([CONFIDENCE_NEW, *wanted])
    items, flips = int(mask.sum()), int(work.target[mask].sum())
    reason = _too_few(items, flips)
    if len(wanted) < 2 or min(flips, items - flips) < FEWEST_FLIPS:
        reason = reason if len(wanted) >= 2 else "fewer than two signals are defined on half of the items"
        return Together(tuple(wanted), left_out, items, flips, None, None, _NOTHING, reason)
    everything = work.fit([CONFIDENCE_NEW, *wanted], mask)[:, 1]
    singles = np.stack([work.fit([CONFIDENCE_NEW, name], mask) for name in wanted])
    chosen = np.argmax(np.nan_to_num(singles[:, :, 0], nan=-1.0), axis=0)
    best: Floats = singles[chosen, np.arange(singles.shape[1]), 1]
    gain = corrected_mean(everything - best, work.folds(mask))
    return Together(tuple(wanted), left_out, items, flips, _mean(everything), _mean(best), gain, reason)


def _mean(values: Floats) -> float | None:
    usable = values[np.isfinite(values)]
    return float(usable.mean()) if len(usable) else None
