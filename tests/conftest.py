"""Fixtures that every area's tests share."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import make_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from safetyrepro.config import ModelSpec
    from safetyrepro.engine.api import Engine


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random chat model (`llama` family), made once; leave it as it is."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_engine(tiny_model: Path) -> Iterator[Engine]:
    """The tiny model behind an engine at fp32, unquantised, exact, one row, two threads."""
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine import load

    engine = load(ModelSpec(id=str(tiny_model), quant="none", threads=2))
    yield engine
    engine.close()


@pytest.fixture
def held_at_loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At each load of a model from now on, how many of those loaded before it are still in memory."""
    from safetyrepro.engine import loading

    load, found = loading.load_engine, []
    models: list[weakref.ref[Any]] = []

    def watched(spec: ModelSpec, progress: Callable[[str], None]) -> Any:
        found.append(sum(model() is not None for model in models))
        engine = load(spec, progress)
        models.append(weakref.ref(engine._model.model))
        return engine

    monkeypatch.setattr(loading, "load_engine", watched)
    return found
