"""A disk that is full in the middle of a run: one sentence, and the run goes on when there is room."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from safetyrepro.envelope.ledger import LEDGER
from safetyrepro.envelope.run import SHARDS, run_sealed
from safetyrepro.envelope.verify import verify
from tests.envelope.conftest import Ran
from tests.envelope.grids import QUIET
from tests.envelope.test_run import records


@pytest.mark.parametrize("room", [2048, 0.9], ids=["for-no-tokenizer", "for-no-shard"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on(ran: Ran, room: float, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    for name in ("plan.json", "SEAL"):
        shutil.copy(ran.folder / name, folder / name)
    largest = max(path.stat().st_size for path in (ran.folder / SHARDS).glob("*.parquet"))
    most = int(room if room > 1 else room * largest)
    # No file may grow beyond `most` bytes: the system refuses the write as it does on a full disk.
    child = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}));"
        "from safetyrepro.cli import main; main(['envelope', 'run', sys.argv[1]])"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", child, str(folder)], capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    assert done.returncode == 2, done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("Error: ")
    assert last.endswith("make room and run the same command again.")
    assert "Traceback" not in done.stderr
    lines = (folder / LEDGER).read_bytes().count(b"\n") if (folder / LEDGER).exists() else 0
    assert len(list((folder / SHARDS).glob("*.parquet"))) == lines < len(ran.sealed.plan.shards)
    assert not list(folder.rglob(".*.parquet*"))

    assert run_sealed(folder, None, QUIET).kept == lines
    assert verify(folder, seal=ran.sealed.seal).holds
    assert records(folder) == records(ran.folder)
