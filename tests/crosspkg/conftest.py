"""A finished experiment, which several of this area's tests look at and none changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crosspkg.test_experiment import anchor, write_config


@pytest.fixture(scope="session")
def finished(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all suites and both arms."""
    folder = tmp_path_factory.mktemp("experiment")
    ended = anchor(write_config(folder, tiny_model), "--out", folder / "out")
    assert ended.returncode == 0, ended.stderr
    assert "Report:" in ended.stdout
    return folder / "out"
