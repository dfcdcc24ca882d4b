"""One side of a comparison: for every item what it sent, what the model saw, what came back and how it was read."""

from safetyrepro.crosspkg.sides.exchange import Exchange, ScoredText, Side
from safetyrepro.crosspkg.sides.opening import open_side

__all__ = ["Exchange", "ScoredText", "Side", "open_side"]
