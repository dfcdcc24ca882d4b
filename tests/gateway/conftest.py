"""A gateway before the tiny engine, and a run of it for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from safetyrepro.gateway import Gateway, Run

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine


def client_of(run: Run) -> httpx.Client:
    return httpx.Client(base_url=run.base_url, headers={"Authorization": f"Bearer {run.token}"}, timeout=60)


@pytest.fixture(scope="package")
def gateway(tiny_engine: Engine) -> Iterator[Gateway]:
    with Gateway(tiny_engine) as gateway:
        yield gateway


@pytest.fixture
def run(gateway: Gateway, tmp_path: Path) -> Iterator[Run]:
    run = gateway.open_run("run-1", tmp_path / "wire.jsonl")
    yield run
    if not run.closing:
        gateway.close_run("run-1")


@pytest.fixture
def client(run: Run) -> Iterator[httpx.Client]:
    with client_of(run) as client:
        yield client
