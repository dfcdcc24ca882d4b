"""Grids with known truth: right-or-wrong items of models that answer alike from one configuration to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """How simulated answers vary.

    An answer is right where `threshold + difficulty + habit + cluster + noise > 0`: difficulty belongs to the item,
    habit to model and item (which is what keeps a model's answers alike over configurations), noise to the one
    answer.
    """

    items: int = 250
    configurations: int = 48
    habit: float = 0.7
    """Share of what is not difficulty that a model keeps from one configuration to the next."""
    difficulty: float = 0.3
    """Share of the variance that both models share."""
    cluster_size: int = 1
    icc: float = 0.0
    """Intraclass correlation of habit within clusters of items."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """The cluster of each item."""
        return tuple(f"k{i // self.cluster_size:05}" for i in range(self.items))

    def draw(self, rng: np.random.Generator, shares: Floats) -> Floats:
        """One grid of models with the given true scores.

        Args:
            rng: source of randomness.
            shares: shape (models, configurations), true share of right answers.

        Returns:
            Item scores 0 and 1, shape (models, configurations, items).
        """
        models, configurations = shares.shape
        groups = -(-self.items // self.cluster_size)
        index = np.arange(self.items) // self.cluster_size
        own = rng.standard_normal((models, self.items))
        common = rng.standard_normal((models, groups))[:, index]
        habit = np.sqrt(1 - self.icc) * own + np.sqrt(self.icc) * common
        noise = rng.standard_normal((models, configurations, self.items))
        rest = np.sqrt(self.habit) * habit[:, np.newaxis] + np.sqrt(1 - self.habit) * noise
        latent = np.sqrt(self.difficulty) * rng.standard_normal(self.items) + np.sqrt(1 - self.difficulty) * rest
        threshold = stats.norm.ppf(shares)[:, :, np.newaxis]
        scores: Floats = (latent + threshold > 0).astype(np.float64)
        return scores
