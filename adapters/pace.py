"""How many requests a suite has in flight, where it can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safetyrepro.engine.api import UPSTREAM

if TYPE_CHECKING:
    from safetyrepro.engine.api import ModelInfo

_LOCAL = 64
"""An engine queues them, and in shared mode answers all that wait in one pass. One answer that never ends would hold
up everything else behind a few."""
_UPSTREAM = 4
"""Another server may refuse more."""


def requests_at_once(model: ModelInfo) -> int:
    """Of one suite before this model."""
    return _UPSTREAM if model.numerics == UPSTREAM else _LOCAL
