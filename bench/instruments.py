"""What measurements look through: tokens counted by a hook on the model, and the model without the engine's ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safetyrepro.engine import Engine


def counted(engine: Engine) -> list[int]:
    """A count, in its one element, of the tokens that go through the engine's model from now on, padding included."""
    from safetyrepro.engine.queued import QueuedEngine

    assert isinstance(engine, QueuedEngine)
    count = [0]

    def counting(_: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        count[0] += (positional[0] if positional else named["input_ids"]).numel()

    engine._model.model.base_model.register_forward_pre_hook(counting, with_kwargs=True)
    return count


def plain(engine: Engine) -> tuple[Any, Any]:
    """The engine's model as transformers has it, on the same weights, and its tokenizer; the engine is spent by it."""
    from safetyrepro.engine.queued import QueuedEngine

    assert isinstance(engine, QueuedEngine)
    model = engine._model.model
    model.set_attn_implementation("sdpa")
    for layer in model.modules():
        layer.__dict__.pop("forward", None)  # the engine's own way to multiply
    return model, engine._fast.hugging_face


def seconds(work: Callable[[], object]) -> float:
    """Wall time of `work`."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
