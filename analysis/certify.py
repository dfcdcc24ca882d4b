"""In which configurations one model is ahead of another beyond item noise, and whether that reverses.

Point scores of two equal models change order in about a quarter of 48 configurations; what is certified here does so in
at most 5% of grids (`bench/certify.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.cells import CHUNK
from safetyrepro.analysis.paritytest import ParityDraws
from safetyrepro.analysis.resampling import DRAWS, LEVEL, SEED, TOLERANCE, Floats, alike_slack, expansion

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class PairSums:
    """Two models over the configurations, summed by cluster of items; a dropped configuration is all zeros."""

    difference: Floats
    """Shape (clusters, configurations): A's minus B's item scores, summed over the items that both scored."""
    sizes: Floats
    """Shape (clusters, configurations): how many such items."""
    kept: Bools
    """Shape (configurations,): which are compared at all."""
    at_chance: Bools
    """Where both models' intervals hold the score of a guess: no order is claimed there."""
    centred_total: Floats | None = None
    """Only for parity: sums of A's plus B's item scores minus 1; its presence makes parity the ranked score."""


@dataclass(frozen=True)
class Certification:
    """One pair over the configurations (arrays of shape (configurations,), NaN where one is dropped)."""

    p_a: Floats
    """One-sided for "A ahead", adjusted over the configurations."""
    p_b: Floats
    p: Floats
    """Two-sided, adjusted."""
    low: Floats
    """Lower end of the band, which holds for all configurations at once, in score units."""
    high: Floats
    verdict: NDArray[np.int8]
    """1 where A is certified ahead, -1 where B is, 0 elsewhere."""
    attainable: Floats
    """The adjusted one-sided p if all clusters that differ pointed the same way: over alpha, nothing can be shown."""
    eligible: Bools
    """Compared, and not at chance for both models."""
    critical: float
    """1 - alpha quantile of the largest |T| over the configurations: what an unadjusted test compares with 1.96."""
    equal_mean: float
    """Mean of rho_flip over the selected configurations if the two models were equal; descriptive."""
    equal_q95: float
    alpha: float
    draws: int
    seed: int

    def reversal_p(self, selected: Bools) -> float:
        """The p of a certified reversal among `selected` (shape (configurations,)), before Holm over pairs.

        Intersection-union: the larger of the two directions' smallest adjusted p. The adjustment is over all
        configurations, whatever is selected.
        """
        among = selected & self.eligible
        if not among.any():
            return 1.0
        return float(max(self.p_a[among].min(), self.p_b[among].min()))

    def testable(self, selected: Bools) -> bool:
        """Whether enough clusters differ among `selected` for a reversal to be certified at all."""
        among = selected & self.eligible
        able = int((self.attainable[among] <= self.alpha + TOLERANCE).sum())
        return able >= min(2, max(1, int((selected & ~np.isnan(self.p)).sum())))

    def counts(self, selected: Bools) -> tuple[int, int, int]:
        """Configurations certified for A, for B, and for neither among the compared ones of `selected`."""
        compared = selected & ~np.isnan(self.p)
        a, b = int((self.verdict[compared] == 1).sum()), int((self.verdict[compared] == -1).sum())
        return a, b, int(compared.sum()) - a - b

    def rho_bounds(self, selected: Bools) -> tuple[float, float] | None:
        """Bounds on the rho_flip of the true scores: they hold together with the bands.

        `min(#A, #B) / C <= rho <= min(1/2, (C - #A) / C, (C - #B) / C)`.
        """
        a, b, neither = self.counts(selected)
        total = a + b + neither
        if not total:
            return None
        return min(a, b) / total, min(0.5, (total - a) / total, (total - b) / total)


def certify(
    pairs: Sequence[PairSums],
    selected: Bools,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = SEED,
    tick: Callable[[int], None] | None = None,
) -> tuple[Certification, ...]:
    """Test every pair in both directions, jointly over configurations.

    Formula: with D[g, c] the sum over cluster g of A's minus B's item scores under configuration c,
    `T_c = sum_g D[g, c] / sqrt(sum_g D[g, c]^2)`. Where the models are equal a cluster's differences could as well have
    had the other sign, in all configurations at once: signs are flipped by whole clusters jointly over configurations.
    The adjusted p of c is the share of draws whose largest T over the configurations reaches T_c (single-step max-T),
    `(1 + b) / (B + 1)`.

    The bands are `d_c +/- q f se_c`: se_c from cluster residuals, q the `level` quantile over the same draws of the
    largest `|sum_g sign_g (D[g, c] - n[g, c] d_c)| / (n_c se_c)` (a multiplier bootstrap), f the widening for few
    clusters. A configuration is certified for a model where both the two-sided p and the band say so.

    Parity is not a mean of items: `paritytest` reduces it to two means and bootstraps those.

    Args:
        pairs: the pairs of models of one benchmark, on the same clusters and configurations.
        selected: shape (configurations,): over which rho_flip of equal models is described (a tier); the tests' family
            is always all configurations.
        level: 1 - alpha.
        draws: sign flips.
        seed: their seed.
        tick: told after each block how many draws are done.

    References:
        R. Berger (1982), Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24, 295-300.
        P. Westfall and S. Young (1993), Resampling-Based Multiple Testing, chapter 2.
        V. Chernozhukov, D. Chetverikov, K. Kato (2013), Gaussian Approximations and Multiplier Bootstrap for Maxima of
        Sums of High-Dimensional Random Vectors, Annals of Statistics 41, 2786-2819.
    """
    if not pairs:
        return ()
    states = [_draws_of(pair, selected, draws) for pair in pairs]
    for start, signs in sign_blocks(len(pairs[0].difference), draws, seed):
        for state in states:
            state.add(start, signs)
        if tick is not None:
            tick(start + len(signs))
    return tuple(state.result(level, seed) for state in states)


def sign_blocks(clusters: int, draws: int, seed: int) -> Iterator[tuple[int, Floats]]:
    """Blocks of signs, (first draw, shape (block, clusters)): the same draws as one array, in bounded memory."""
    generator = np.random.default_rng(seed)
    # The generator hands out small integers four at a time: whole fours leave none over at the end of a block.
    rows = max(4, CHUNK // max(1, clusters) // 4 * 4)
    for start in range(0, draws, rows):
        block = min(rows, draws - start)
        yield start, generator.integers(0, 2, size=(block, clusters), dtype=np.int8).astype(np.float64) * 2 - 1


def _draws_of(pair: PairSums, selected: Bools, draws: int) -> _MeanState | _ParityState:
    kind = _MeanState if pair.centred_total is None else _ParityState
    return kind(pair, selected, draws)


class _State:
    """What one pair keeps of every draw."""

    def __init__(self, pair: PairSums, selected: Bools, draws: int) -> None:
        self.pair, self.draws = pair, draws
        self.columns = np.flatnonzero(pair.kept)
        self.sums = np.ascontiguousarray(pair.difference[:, self.columns])
        self.sizes = np.ascontiguousarray(pair.sizes[:, self.columns])
        self.selected = selected[self.columns]
        self.rho = np.zeros(draws)

    def add(self, start: int, signs: Floats) -> None:
        raise NotImplementedError

    def keep_rho(self, rows: slice, difference: Floats) -> None:
        among = difference[:, self.selected]
        if among.shape[1]:
            plus, minus = (among > TOLERANCE).sum(axis=1), (among < -TOLERANCE).sum(axis=1)
            self.rho[rows] = np.minimum(plus, minus) / among.shape[1]

    def spread_out(self, values: Floats, fill: float = np.nan) -> Floats:
        whole = np.full(len(self.pair.kept), fill)
        whole[self.columns] = values
        return whole

    def certification(
        self,
        tails: tuple[Floats, Floats, Floats],
        band: tuple[Floats, Floats],
        attainable: Floats,
        critical: float,
        level: float,
        seed: int,
    ) -> Certification:
        p_a, p_b, p = tails
        low, high = band
        alpha = 1 - level
        sure = (p <= alpha + TOLERANCE) & ~self.pair.at_chance[self.columns]
        verdict = np.where(sure & (low > TOLERANCE), 1, np.where(sure & (high < -TOLERANCE), -1, 0))
        return Certification(
            p_a=self.spread_out(p_a),
            p_b=self.spread_out(p_b),
            p=self.spread_out(p),
            low=self.spread_out(low),
            high=self.spread_out(high),
            verdict=self.spread_out(verdict.astype(np.float64), 0.0).astype(np.int8),
            attainable=self.spread_out(attainable),
            eligible=self.pair.kept & ~self.pair.at_chance,
            critical=critical,
            equal_mean=float(self.rho.mean()),
            equal_q95=float(np.quantile(self.rho, 0.95)),
            alpha=alpha,
            draws=self.draws,
            seed=seed,
        )


class _MeanState(_State):
    def __init__(self, pair: PairSums, selected: Bools, draws: int) -> None:
        super().__init__(pair, selected, draws)
        norms = np.sqrt((self.sums**2).sum(axis=0))
        self.inverse_norms = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > TOLERANCE)
        self.n = self.sizes.sum(axis=0)
        self.centre = self.sums.sum(axis=0) / self.n
        residuals = self.sums - self.sizes * self.centre
        self.scale = np.sqrt((residuals**2).sum(axis=0))
        self.moving = self.scale > TOLERANCE
        self.inverse_scale = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.moving)
        one_size = bool(len(self.columns)) and bool((self.sizes == self.sizes[:, :1]).all())
        self.weights = self.sizes[:, :1] if one_size else self.sizes
        self.highest, self.lowest, self.farthest, self.band_draws = (np.zeros(draws) for _ in range(4))

    def add(self, start: int, signs: Floats) -> None:
        if not len(self.columns):
            return
        rows = slice(start, start + len(signs))
        raw = signs @ self.sums
        self.keep_rho(rows, raw)
        scaled = raw * self.inverse_norms
        self.highest[rows], self.lowest[rows] = scaled.max(axis=1), scaled.min(axis=1)
        self.farthest[rows] = np.maximum(self.highest[rows], -self.lowest[rows])
        deviation = (raw - (signs @ self.weights) * self.centre) * self.inverse_scale
        self.band_draws[rows] = np.abs(deviation).max(axis=1)

    def result(self, level: float, seed: int) -> Certification:
        observed = self.sums.sum(axis=0) * self.inverse_norms
        reach = np.abs(self.sums).sum(axis=0) * self.inverse_norms
        tails = (
            _upper_p(self.highest, observed),
            _upper_p(-self.lowest, -observed),
            _upper_p(self.farthest, np.abs(observed)),
        )
        critical = float(np.quantile(self.farthest, level)) if len(self.columns) else np.nan
        return self.certification(tails, self._band(level), _upper_p(self.highest, reach), critical, level, seed)

    def _band(self, level: float) -> tuple[Floats, Floats]:
        """The bands; a difference that is the same in every cluster allows for what could have stayed unseen.

        Such differences share their part of the error (1 / k each), the others keep the rest, as in `simultaneous`.
        """
        groups, count = len(self.sums), len(self.columns)
        if groups < 2 or not count:
            return np.full(count, np.nan), np.full(count, np.nan)
        each = (1 - level) / count
        moving = int(self.moving.sum())
        middle, half = self.centre.copy(), np.zeros(count)
        if moving:
            kept_level = 1 - each * moving
            quantile = float(np.quantile(self.band_draws, kept_level)) * expansion(groups, kept_level)
            half = np.where(self.moving, quantile * self.scale / self.n, half)
        if moving < count:
            slack = alike_slack(groups, 1 - each * (count - moving))
            middle = np.where(self.moving, middle, middle * (1 - slack))
            half = np.where(self.moving, half, slack)
        return middle - half, middle + half


class _ParityState(_State):
    def __init__(self, pair: PairSums, selected: Bools, draws: int) -> None:
        super().__init__(pair, selected, draws)
        assert pair.centred_total is not None
        self.test = ParityDraws(self.sums, pair.centred_total[:, self.columns], self.sizes, draws)

    def add(self, start: int, signs: Floats) -> None:
        if len(self.columns):
            rows = slice(start, start + len(signs))
            self.keep_rho(rows, self.test.add(rows, signs))

    def result(self, level: float, seed: int) -> Certification:
        outcome = self.test.outcome(level)
        p = np.minimum(outcome.p_a, outcome.p_b)
        return self.certification(
            (outcome.p_a, outcome.p_b, p),
            (outcome.low, outcome.high),
            outcome.attainable,
            outcome.critical,
            level,
            seed,
        )


def _upper_p(draws: Floats, observed: Floats) -> Floats:
    """`(1 + #{draws >= observed}) / (B + 1)` for each observed value."""
    ordered = np.sort(draws)
    reached: Floats = (1 + len(draws) - np.searchsorted(ordered, observed - TOLERANCE, side="left")) / (len(draws) + 1)
    return reached
