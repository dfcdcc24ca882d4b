"""A small grid of two tiny models, sealed and run once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from safetyrepro.envelope.run import Finished, run_sealed
from safetyrepro.envelope.seal import Sealed
from tests.envelope.grids import QUIET, envelope, seal
from tests.tiny import make_tiny_model


@dataclass(frozen=True)
class Ran:
    sealed: Sealed
    finished: Finished

    @property
    def folder(self) -> Path:
        return self.sealed.folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("models")
    families = ("llama", "llama", "gemma3")
    return tuple(make_tiny_model(folder / f"m{at}", family=name, seed=at) for at, name in enumerate(families))


@pytest.fixture(scope="session")
def ran(models: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    sealed = seal(envelope(models[:2]), tmp_path_factory.mktemp("ran") / "sealed")
    return Ran(sealed, run_sealed(sealed.folder, None, QUIET))


@pytest.fixture
def copy(ran: Ran, tmp_path: Path) -> Callable[[], Path]:
    """A copy of the finished run, to be spoilt."""
    return lambda: Path(shutil.copytree(ran.folder, tmp_path / "copy"))
