"""The engine: one model, loaded once, that scores and generates for the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from safetyrepro.engine.api import (
    TOP,
    Decoding,
    Engine,
    Generated,
    GenerateRequest,
    ModelInfo,
    Scored,
    ScoreRequest,
    Tokenizer,
)

if TYPE_CHECKING:
    from safetyrepro.config import ModelSpec

__all__ = [
    "TOP",
    "Decoding",
    "Engine",
    "GenerateRequest",
    "Generated",
    "ModelInfo",
    "ScoreRequest",
    "Scored",
    "Tokenizer",
    "load",
    "load_tokenizer",
]


def load(spec: ModelSpec, *, progress: Callable[[str], None] | None = None) -> Engine:
    """Load the model that `spec` names and keep it ready behind a thread of its own.

    Args:
        spec: Model and numerics; `spec.id` is a pulled model's name, a folder, a GGUF file or a hub id.
        progress: Called with one short line before each slow step.

    Returns:
        An engine; call its `close()` when done.

    Raises:
        InputError: the model is not there, its weights' hash is another one, its files are broken, or its tokenizer
            is missing or does not give a text back that it was given.
    """
    from safetyrepro.engine.loading import load_engine

    return load_engine(spec, progress or (lambda _line: None))


def load_tokenizer(spec: ModelSpec) -> Tokenizer:
    """The tokenizer of the model that `spec` names, checked like a model's, without reading its weights into memory.

    Raises:
        InputError: as `load`, for all but broken weights.
    """
    from safetyrepro.engine.loading import load_tokenizer as read

    return read(spec)
