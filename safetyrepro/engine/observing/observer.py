"""Looking into an engine's model, in the way that the engine computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from safetyrepro.engine.api import Engine
from safetyrepro.engine.observing.alone import Alone
from safetyrepro.engine.observing.side_by_side import SideBySide
from safetyrepro.engine.observing.view import Look, View
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.queued import QueuedEngine, check_ids
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
        self.max_length = engine.info.max_length
        self.vocabulary = engine.vocabulary
        self.at_once = AT_ONCE if isinstance(shape, PackedShape) else 1
        """How many items are best looked at together: one where an item's numbers shall depend on the item alone."""

    def views(self, looks: Sequence[Look]) -> list[View]:
        """Observe items.

        In exact mode each is computed by itself, its continuations side by side behind a context that is computed once.
        In shared mode all of them go through the model together, whatever they begin with in common once, and what was
        looked at in the latest call is not computed again.

        Raises:
            InputError: as for `check`, or log-probabilities are not finite.
        """
        for look in looks:
            self.check(look)
        with torch.inference_mode():
            return self._way.views(looks)

    def check(self, look: Look) -> None:
        """Refuse what the model cannot be given.

        Raises:
            InputError: a sequence is longer than the model takes, or holds an id outside its vocabulary.
        """
        if look.longest > self.max_length:
            raise InputError(f"An item has {look.longest} tokens, the model takes {self.max_length}.")
        for ids in (look.context, *look.continuations):
            check_ids(ids, self.vocabulary)
