"""How alike the configurations rank the models: mean Kendall tau-b over all pairs of configurations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.cells import TIE
from safetyrepro.analysis.resampling import Floats


@dataclass(frozen=True)
class RankAgreement:
    """Agreement of the configurations' rankings."""

    tau_r: float | None
    """Mean over unordered pairs of configurations; None where there is no defined one."""
    pairs: int
    undefined: int
    """Pairs in which one configuration ties all models, so that tau-b is 0 / 0."""
    identity: float | None
    """Without ties, the mean over model pairs of `1 - 4 N+ N- / (C (C - 1))`: equal to `tau_r`, a check."""
    most: int | None
    """The configuration that agrees most with the others on average."""
    least: int | None


def rank_agreement(cells: Floats) -> RankAgreement:
    """Mean Kendall tau-b between configurations.

    Formula: with s_c the signs of all model pairs' differences under configuration c and n_c the number of those that
    are not 0, `tau_b(c, d) = s_c . s_d / sqrt(n_c n_d)`.

    Args:
        cells: shape (models, configurations), higher is better; a configuration with a NaN is left out.

    References:
        M. Kendall (1945), The Treatment of Ties in Ranking Problems, Biometrika 33, 239-251.
    """
    columns = np.flatnonzero(~np.isnan(cells).any(axis=0))
    kept = cells[:, columns]
    first, second = np.triu_indices(len(kept), 1)
    difference = kept[first] - kept[second]
    signs = (np.sign(difference) * (np.abs(difference) > TIE)).T
    count, n_pairs = signs.shape
    pairs = count * (count - 1) // 2
    untied = np.abs(signs).sum(axis=1)
    norm = np.sqrt(np.outer(untied, untied))
    taus = np.divide(signs @ signs.T, norm, out=np.full((count, count), np.nan), where=norm > 0)
    np.fill_diagonal(taus, np.nan)
    upper = taus[np.triu_indices(count, 1)]
    defined = upper[~np.isnan(upper)]
    most = least = None
    if len(defined):
        means = np.nansum(taus, axis=1) / np.maximum(1, (~np.isnan(taus)).sum(axis=1))
        means[np.isnan(taus).all(axis=1)] = np.nan
        most, least = int(columns[np.nanargmax(means)]), int(columns[np.nanargmin(means)])
    identity = None
    if pairs and n_pairs and (untied == n_pairs).all():
        plus = (signs > 0).sum(axis=0)
        identity = float((1 - 4 * plus * (count - plus) / (count * (count - 1))).mean())
    return RankAgreement(
        float(defined.mean()) if len(defined) else None, pairs, pairs - len(defined), identity, most, least
    )
