"""Whether the order of two models survives the configuration: rho_flip, strict reversals and their witness.

SafetyRepro (arXiv 2605.25492), Rank stability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.cells import TIE
from safetyrepro.analysis.resampling import Floats


@dataclass(frozen=True)
class FlipRate:
    """Two models over a set of configurations."""

    n_plus: int
    """Configurations in which A scores higher."""
    n_minus: int
    n_ties: int
    witness: tuple[int, int] | None
    """A configuration in which A is ahead and one in which B is, each the one with the widest margin."""

    @property
    def n_configs(self) -> int:
        """Configurations in which both have a valid score; ties stay in."""
        return self.n_plus + self.n_minus + self.n_ties

    @property
    def rho(self) -> float | None:
        """`min(N+, N-) / |C|`; None without a configuration."""
        return min(self.n_plus, self.n_minus) / self.n_configs if self.n_configs else None

    @property
    def strict_reversal(self) -> bool:
        """Proposition 1: a strict reversal exists if and only if `min(N+, N-) >= 1`."""
        return min(self.n_plus, self.n_minus) >= 1


def flip_rate(difference: Floats) -> FlipRate:
    """Count the configurations in which either model is ahead.

    Args:
        difference: shape (configurations,): cell score of A minus that of B, NaN where one has no valid score. What is
            closer to 0 than 1e-12 is a tie: it counts in neither, and stays in the denominator.
    """
    plus, minus = np.nan_to_num(difference) > TIE, np.nan_to_num(difference) < -TIE
    valid = ~np.isnan(difference)
    witness = None
    if plus.any() and minus.any():
        witness = int(np.nanargmax(difference)), int(np.nanargmin(difference))
    n_plus, n_minus = int(plus.sum()), int(minus.sum())
    return FlipRate(n_plus, n_minus, int(valid.sum()) - n_plus - n_minus, witness)
