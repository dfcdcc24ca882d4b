"""Folds, ranks and AUROC: what every comparison of signals shares."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from safetyrepro.analysis.flips.pairing import Bools, Ints
from safetyrepro.analysis.resampling import LEVEL, TOLERANCE, Floats

FOLDS = 5
SEEDS = (0, 1, 2, 3, 4)
_SPREAD = math.sqrt(12.0)
"""Ranks in [0, 1] have standard deviation 1 / sqrt(12)."""

Fold = tuple[Ints, Ints]


@dataclass(frozen=True)
class Corrected:
    """A mean over folds with Nadeau and Bengio's correction."""

    mean: float | None
    ci: tuple[float, float] | None
    p: float | None
    """Two-sided, of "the mean is 0"."""
    folds: int
    """Usable ones."""
    undefined: int
    """Folds with one class alone, in training or in test."""


def auroc(target: Bools, values: Floats) -> float | None:
    """Probability that a positive item has the higher value, ties counted half; None with one class alone.

    The Mann-Whitney statistic from midranks, `(R+ - P (P + 1) / 2) / (P N)`.

    Args:
        target: shape (items,).
        values: shape (items,), every one a number.

    References:
        J. Hanley and B. McNeil (1982), The Meaning and Use of the Area under a ROC Curve, Radiology 143, 29-36.
    """
    positives = int(target.sum())
    negatives = len(target) - positives
    if not positives or not negatives:
        return None
    ranks = stats.rankdata(values)
    return float((ranks[target].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def repeated_folds(target: Bools, clusters: Sequence[str]) -> list[Fold]:
    """Train and test indices of stratified 5-fold cross-validation under 5 seeds.

    Where items are near copies whole clusters go to one fold, so that no model is tested on a copy of what it learned.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    grouped = len(set(clusters)) < len(clusters)
    classes = target.astype(np.int64)
    groups = np.unique(np.array(clusters, dtype=object).astype(str), return_inverse=True)[1] if grouped else None
    found: list[Fold] = []
    for seed in SEEDS:
        splitter = StratifiedGroupKFold if grouped else StratifiedKFold
        with warnings.catch_warnings():
            # Fewer members of a class than folds: the folds without one are counted as undefined below.
            warnings.simplefilter("ignore", UserWarning)
            split = splitter(FOLDS, shuffle=True, random_state=seed).split(classes, classes, groups)
            found += [(train.astype(np.int64), test.astype(np.int64)) for train, test in split]
    return found


def train_ranks(values: Floats, train: Ints) -> Floats:
    """Values as centred midranks among the training items, scaled to unit variance.

    Ranks make the comparison blind to a signal's scale; taking them from the training items alone keeps the test items
    out of what is fitted.
    """
    ordered = np.sort(values[train])
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    ranks: Floats = (below / (2 * len(ordered)) - 0.5) * _SPREAD
    return ranks


def fold_aurocs(target: Bools, features: Sequence[Floats], folds: Sequence[Fold]) -> NDArray[np.float64]:
    """AUROC of a logistic regression in every fold, shape (folds, 2): on its training items, and on its test items.

    Unweighted, L2 penalty with C = 1 on ranks of unit variance; NaN where train or test holds one class alone.
    """
    from sklearn.linear_model import LogisticRegression

    found = np.full((len(folds), 2), np.nan)
    for number, (train, test) in enumerate(folds):
        if target[train].all() or not target[train].any() or target[test].all() or not target[test].any():
            continue
        ranked = np.column_stack([train_ranks(values, train) for values in features])
        model = LogisticRegression(solver="newton-cholesky").fit(ranked[train], target[train])
        scores: Floats = model.decision_function(ranked)
        for column, part in enumerate((train, test)):
            area = auroc(target[part], scores[part])
            found[number, column] = np.nan if area is None else area
    return found


def corrected_mean(differences: Floats, folds: Sequence[Fold], *, level: float = LEVEL) -> Corrected:
    """Mean of a difference over folds, with an interval that allows for the overlap of their training sets.

    `t = mean / sqrt((1 / J + n_test / n_train) s^2)` with J - 1 degrees of freedom: folds share items, so that their
    plain variance over J is far too small.

    References:
        C. Nadeau and Y. Bengio (2003), Inference for the Generalization Error, Machine Learning 52, 239-281.
    """
    usable = np.isfinite(differences)
    count = int(usable.sum())
    undefined = len(differences) - count
    if not count:
        return Corrected(None, None, None, 0, undefined)
    mean = float(differences[usable].mean())
    if count < 2:
        return Corrected(mean, None, None, count, undefined)
    ratio = float(np.mean([len(test) / len(train) for (train, test), kept in zip(folds, usable, strict=True) if kept]))
    error = math.sqrt((1 / count + ratio) * float(differences[usable].var(ddof=1)))
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    if error <= TOLERANCE:
        p = 1.0 if abs(mean) <= TOLERANCE else 0.0
    else:
        p = float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return Corrected(mean, (mean - half, mean + half), p, count, undefined)
