"""Fixtures that every area's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import make_tiny_model

if TYPE_CHECKING:
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
