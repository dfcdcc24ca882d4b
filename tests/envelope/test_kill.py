"""Killed at ten random moments, a run goes on: nothing lost, nothing doubled, at most the shard in flight run again."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import statistics
import time
from pathlib import Path

from safetyrepro.envelope.ledger import LEDGER
from safetyrepro.envelope.run import SHARDS, run_sealed
from safetyrepro.envelope.verify import verify
from tests.envelope.conftest import Ran
from tests.envelope.grids import QUIET, entries
from tests.envelope.test_run import records

KILLS = 10
MOST_STARTS = 60
PRELOAD = ("safetyrepro.envelope.run", "safetyrepro.engine.loading", "transformers.models.llama.modeling_llama")


def go_on(folder: str) -> None:
    run_sealed(Path(folder), None, QUIET)


def complete_lines(folder: Path) -> list[bytes]:
    path = folder / LEDGER
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def test_killed_at_ten_random_moments(ran: Ran, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    for name in ("plan.json", "SEAL"):
        shutil.copy(ran.folder / name, folder / name)
    rng = random.Random(20)
    # A child is forked off a process that has imported everything and run nothing, so that starts cost no import.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    shard = statistics.median(entry.facts["seconds"] for entry in entries(ran.folder))
    shards = len(ran.sealed.plan.shards)
    interrupted, unfinished, first_line = 0, 0, 0.0
    before: list[bytes] = []
    for start in range(MOST_STARTS):
        child = context.Process(target=go_on, args=(str(folder),))
        child.start()
        started = time.monotonic()
        if start % 2 == 0:
            # Somewhere behind a line: in the next shard's computing, in its file, in its line.
            while len(complete_lines(folder)) == len(before) and child.is_alive():
                time.sleep(0.002)
            first_line = first_line or time.monotonic() - started
            time.sleep(rng.uniform(0, shard))
        else:
            time.sleep(rng.uniform(0, first_line))
        child.kill()
        child.join()
        after = complete_lines(folder)
        # The ledger only grows, and at most one file has no line yet.
        assert after[: len(before)] == before
        assert len(list((folder / SHARDS).glob("*.parquet"))) <= len(after) + 1
        before = after
        interrupted += child.exitcode == -9
        unfinished += child.exitcode == -9 and len(after) < shards
        if interrupted >= KILLS and len(after) < shards:
            break
        if child.exitcode == 0:
            # It was done before it could be killed: the next one begins from nothing.
            shutil.rmtree(folder / SHARDS)
            (folder / LEDGER).unlink()
            before = []
    assert interrupted >= KILLS
    assert unfinished >= KILLS // 2
    finished = run_sealed(folder, None, QUIET)
    assert finished.kept == len(before)
    assert complete_lines(folder)[: len(before)] == before
    assert verify(folder, seal=ran.sealed.seal).holds
    assert records(folder) == records(ran.folder)
