"""Looking into an engine's model, in the way that the engine computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from safetyrepro.engine.api import Engine
from safetyrepro.engine.observing.alone import Alone
from safetyrepro.engine.observing.side_by_side import SideBySide
from safetyrepro.engine.observing.view import Ids, Look, View
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.queued import QueuedEngine
from safetyrepro.errors import InputError

AT_ONCE: Final = 32
"""Items that are looked at side by side in shared mode."""


class Observer:
    """Looks into an engine's model, in the thread that calls; do not let the engine compute meanwhile."""

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, QueuedEngine):
            raise InputError("Signals are read inside a model: an upstream server cannot give them.")
        shape = engine._model
        self._way = SideBySide(shape) if isinstance(shape, PackedShape) else Alone(shape)
        self._max_length = engine.info.max_length
        self.at_once = AT_ONCE if isinstance(shape, PackedShape) else 1
        """How many items are best looked at together: one where an item's numbers shall depend on the item alone."""

    def views(self, looks: Sequence[Look]) -> list[View]:
        """Observe items.

        In exact mode each is computed by itself, its continuations side by side behind a context that is computed once.
        In shared mode all of them go through the model together, whatever they begin with in common once, and what was
        looked at in the latest call is not computed again.

        Raises:
            InputError: a sequence is longer than the model takes, or log-probabilities are not finite.
        """
        longest = max((look.longest for look in looks), default=0)
        if longest > self._max_length:
            raise InputError(f"An item has {longest} tokens, the model takes {self._max_length}.")
        with torch.inference_mode():
            return self._way.views(looks)

    def view(
        self,
        context: Sequence[int],
        continuations: Sequence[Sequence[int]],
        supports: Sequence[Ids | None] | None = None,
    ) -> View:
        """Observe one item, given as in `Look`.

        Raises:
            InputError: as for `views`.
        """
        wanted = tuple(supports) if supports is not None else (None,) * len(continuations)
        return self.views([Look(tuple(context), tuple(map(tuple, continuations)), wanted)])[0]
