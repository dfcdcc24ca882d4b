"""Cards of a small sealed run, of an anchor run made by code, and of imported logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.analysis.card.model import Card
from safetyrepro.card.file import write_card
from safetyrepro.card.source import derive
from safetyrepro.card.stability import Computation
from safetyrepro.cli import main
from safetyrepro.progress import Progress
from tests.crosspkg.report_experiment import Shape, make, start
from tests.envelope.conftest import Ran, models, ran

__all__ = ["models", "ran"]

Run = Callable[..., tuple[int, str, str]]
HOW = Computation("full", 9_999, 20260101)


def card_of(folder: Path) -> Card:
    return derive(folder, HOW, Progress(None))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["card", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture(scope="session")
def sealed_card(ran: Ran) -> Card:
    return card_of(ran.folder)


@pytest.fixture
def sealed_copy(ran: Ran, tmp_path: Path) -> Path:
    """A copy of the finished run, to be spoilt or written into."""
    return Path(shutil.copytree(ran.folder, tmp_path / "sealed"))


@pytest.fixture(scope="session")
def anchor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, two benchmarks, two arms, four runners; made by code."""
    return make(tmp_path_factory.mktemp("anchor") / "out", Shape(items=12, hostile=False, starts=(start(),)))


@pytest.fixture(scope="session")
def anchor_card(anchor: Path) -> Card:
    return card_of(anchor)


@pytest.fixture
def body(sealed_card: Card) -> dict[str, Any]:
    """The sealed run's card as JSON, to be spoilt."""
    body: dict[str, Any] = json.loads(sealed_card.model_dump_json())
    return body


@pytest.fixture
def written(sealed_card: Card, tmp_path: Path) -> Path:
    """The sealed run's card on the disk, far from its run."""
    return write_card(sealed_card, tmp_path / "card")[0]
