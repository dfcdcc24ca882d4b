"""Which of two models is nearer to parity, configuration by configuration, by bootstrap over items.

Parity `1 - |2p - 1|` has a corner at p = 1/2, which is where fair models are, and a bootstrap of it is wrong there. But
A is nearer to 1/2 than B if and only if `p_A - p_B` and `p_A + p_B - 1` have opposite signs, since
`(p_A - 1/2)^2 - (p_B - 1/2)^2 = (p_A - p_B) (p_A + p_B - 1)`. Both are means over items, which a bootstrap handles;
and parity A minus parity B is twice the smaller of the two in absolute value, with that sign. So "A ahead" is certified
where both means are told from 0 in opposite directions (intersection-union), simultaneously over all configurations. A
joint box for the two means gives the band.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.resampling import TOLERANCE, Floats, alike_slack, expansion


@dataclass(frozen=True)
class ParityOutcome:
    """One pair over the configurations, arrays of shape (configurations,)."""

    p_a: Floats
    p_b: Floats
    low: Floats
    """Band of parity A minus parity B."""
    high: Floats
    attainable: Floats
    critical: float


class ParityDraws:
    """Multiplier bootstrap of the two means of every configuration, block by block."""

    def __init__(self, difference: Floats, centred_total: Floats, sizes: Floats, draws: int) -> None:
        """Take sums by cluster.

        Args:
            difference: shape (clusters, configurations), sums of a - b.
            centred_total: the same shape, sums of a + b - 1.
            sizes: the same shape, items.
            draws: bootstrap draws.
        """
        self._difference, self._sizes = difference, sizes
        self._clusters, self._count = difference.shape
        self._n = sizes.sum(axis=0)
        sums = np.hstack([difference, centred_total])
        both_n = np.tile(self._n, 2)
        self._centre = sums.sum(axis=0) / both_n
        self._residuals = sums - np.tile(sizes, 2) * self._centre
        scale = np.sqrt((self._residuals**2).sum(axis=0))
        self._moving = scale > TOLERANCE
        self._inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=self._moving)
        self._error = scale / both_n
        self._largest = np.zeros(draws)

    def add(self, rows: slice, signs: Floats) -> Floats:
        """Take a block of signs, shape (block, clusters).

        Returns:
            Parity A minus parity B if the two models' labels were swapped where a sign is -1, shape (block,
            configurations).
        """
        if self._moving.any():
            self._largest[rows] = (np.abs(signs @ self._residuals) * self._inverse).max(axis=1)
        swapped = (signs @ self._difference) / self._n
        total = self._centre[self._count :]
        difference: Floats = np.abs(total - swapped) - np.abs(total + swapped)
        return difference

    def outcome(self, level: float) -> ParityOutcome:
        """Adjusted p values and the band."""
        count, draws = self._count, len(self._largest)
        if self._clusters < 2 or not count:
            one, none = np.ones(count), np.full(count, np.nan)
            return ParityOutcome(one, one, none, none, one, np.nan)
        widening = expansion(self._clusters, level)
        slack = alike_slack(self._clusters, 1 - (1 - level) / (2 * count))
        quantile = float(np.quantile(self._largest, level)) * widening
        middle = np.where(self._moving, self._centre, self._centre * (1 - slack))
        half = np.where(self._moving, quantile * self._error, slack)
        constant = np.where(np.abs(middle) > slack, np.inf, 0.0)
        score = np.divide(np.abs(self._centre), self._error, out=constant, where=self._moving)
        weaker = np.minimum(score[:count], score[count:])
        ordered = np.sort(self._largest * widening)
        p = (1 + draws - np.searchsorted(ordered, weaker - TOLERANCE, side="left")) / (draws + 1)
        sign = -np.sign(self._centre[:count]) * np.sign(self._centre[count:])
        low, high = middle - half, middle + half
        ahead = _farthest_opposite(low[:count], high[:count], low[count:], high[count:])
        behind = _farthest_opposite(-high[:count], -low[:count], low[count:], high[count:])
        differing = (np.abs(self._difference) > TOLERANCE).sum(axis=0)
        return ParityOutcome(
            p_a=np.where(sign > 0, p, 1.0),
            p_b=np.where(sign < 0, p, 1.0),
            low=-behind,
            high=ahead,
            attainable=np.maximum(0.5 ** (np.maximum(differing, 1) - 1), 1 / (draws + 1)),
            critical=quantile,
        )


def _farthest_opposite(low_u: Floats, high_u: Floats, low_v: Floats, high_v: Floats) -> Floats:
    """Largest of `-2 sign(u v) min(|u|, |v|)` over the box: A's parity minus B's at its highest."""
    down_up = np.minimum(np.maximum(-low_u, 0), np.maximum(high_v, 0))
    up_down = np.minimum(np.maximum(high_u, 0), np.maximum(-low_v, 0))
    opposite = np.maximum(down_up, up_down)
    nearest_u = np.maximum(np.maximum(low_u, -high_u), 0)
    nearest_v = np.maximum(np.maximum(low_v, -high_v), 0)
    highest: Floats = 2 * np.where(opposite > 0, opposite, -np.minimum(nearest_u, nearest_v))
    return highest
