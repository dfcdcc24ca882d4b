"""One cell: translate, run, normalise, and what is left on disk.

A cell that is done is recognised by the hash of its job and not run again; a cell that was cut off is run anew.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro import adapters, benchmarks
from safetyrepro.adapters.base import Absent, Cell, Job, Setting
from safetyrepro.atomic import write_json
from safetyrepro.config import Arm, Config, ModelSpec, canonical_sha256, cell_id
from safetyrepro.crosspkg.folder import CellFacts, State, read_cell, write_cell
from safetyrepro.crosspkg.judging import judge_of
from safetyrepro.crosspkg.schedule import Halt
from safetyrepro.errors import SuiteFailure
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.records import Record, write_records

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Data
    from safetyrepro.canonical import Canonical
    from safetyrepro.engine.api import ModelInfo
    from safetyrepro.gateway import Gateway
    from safetyrepro.progress import Progress
    from safetyrepro.suites import Environment


@dataclass(frozen=True)
class Prepared:
    """A config with its id and its items."""

    config: Config
    config_id: str
    data: Data


@dataclass(frozen=True)
class Site:
    """One cell's place in an experiment."""

    prepared: Prepared
    model: ModelSpec
    suite: str
    arm: Arm
    folder: Path
    memo: bool
    suite_timeout: float | None


def suite_version(environment: Environment | None) -> str:
    """The suite's version; our own where it needs no environment."""
    return environment.version if environment is not None else version("safetyrepro")


def lock_sha256(environment: Environment | None) -> str | None:
    """The hash of the lock that the environment was built from."""
    return environment.lock_sha256 if environment is not None else None


def run_cell(
    site: Site,
    model: ModelInfo,
    gateway: Gateway,
    canonical: Canonical,
    environment: Environment | None,
    progress: Progress,
    halt: Halt,
) -> None:
    """Run one cell unless it is done, and leave its outcome in its folder; a suite that dies fails this cell alone."""
    folder = site.folder
    adapter = adapters.get(site.suite)
    entry = site.prepared
    cell = Cell(
        run_id=f"{cell_id(entry.config, site.model, site.suite, site.arm)[:12]}-{time.time_ns():x}",
        suite=site.suite,
        suite_version=suite_version(environment),
        arm=site.arm,
        config=entry.config,
        config_id=entry.config_id,
        cell_id=cell_id(entry.config, site.model, site.suite, site.arm),
        model=model,
        benchmark=benchmarks.get(entry.config.benchmark.name),
        data=entry.data,
        canonical=canonical,
    )
    job = adapter.translate(cell)
    if isinstance(job, Absent):
        _settle(folder, _facts(cell, site, "absent", job.reason, (), None, None, site.memo), [])
        progress.say(f"{site.folder.name}: absent: {job.reason}")
        return
    job_sha256 = _job_hash(cell, job, environment, site.memo)
    before = read_cell(folder)
    if before is not None and before.state == "done" and before.job_sha256 == job_sha256:
        progress.say(f"{site.folder.name}: done before, kept")
        return
    if folder.exists():
        shutil.rmtree(folder)
    task = progress.task(site.folder.name, job.expected_requests)
    started = time.monotonic()
    try:
        records = _execute(site, cell, job, folder, gateway, environment, task.update, halt)
    except SuiteFailure as failure:
        reason = str(failure)
        _settle(
            folder,
            _facts(cell, site, "failed", reason, job.settings, time.monotonic() - started, job_sha256, site.memo),
            [],
        )
        task.finish("FAILED\n" + reason)
        return
    seconds = time.monotonic() - started
    _settle(folder, _facts(cell, site, "done", None, job.settings, seconds, job_sha256, site.memo), records)
    task.finish(f"{len(records)} items")


def _job_hash(cell: Cell, job: Job, environment: Environment | None, memo: bool) -> str:
    """The hash of all that a cell's result depends on; a done cell with the same hash is kept."""
    return canonical_sha256(
        {
            "payload": json.loads(json.dumps(job.payload)),
            "cell": cell.cell_id,
            "data": cell.data.sha256,
            "suite": [cell.suite, cell.suite_version, lock_sha256(environment)],
            "adapter": {
                source.name: source.read_text(encoding="utf-8")
                for source in adapters.get(cell.suite).runner.parent.glob("*.py")
            },
            "weights": cell.model.weights_sha256,
            "numerics": [cell.model.numerics, dict(cell.model.details)],
            "memo": memo,
        }
    )


def _execute(
    site: Site,
    cell: Cell,
    job: Job,
    folder: Path,
    gateway: Gateway,
    environment: Environment | None,
    on_requests: Callable[[int], None],
    halt: Halt,
) -> list[Record]:
    from safetyrepro.suites.jobs import run as run_job

    native = folder / "native"
    native.mkdir(parents=True)
    write_json(folder / "job.json", job.payload)
    adapter = adapters.get(cell.suite)
    run = gateway.open_run(cell.run_id, folder / "wire.jsonl", memo=site.memo)

    def tick() -> None:
        halt.check()
        on_requests(run.requests)

    try:
        with judge_of(cell, job, folder) as judge:
            run_job(
                Path(sys.executable) if environment is None else environment.python,
                adapter.runner,
                (folder / "job.json").resolve(),
                native.resolve(),
                log=folder / "runner.log",
                env={
                    "SAFETYREPRO_BASE_URL": run.base_url,
                    "SAFETYREPRO_TOKEN": run.token,
                    "SAFETYREPRO_TOKENIZER": str(cell.model.tokenizer_dir),
                    **judge,
                },
                timeout=site.suite_timeout,
                on_tick=tick,
            )
    finally:
        gateway.close_run(cell.run_id)
    wire = list(read_wire(folder / "wire.jsonl")) if (folder / "wire.jsonl").is_file() else []
    records = adapter.normalise(cell, native, wire)
    _check_records(cell, records, wire, folder)
    return records


def _check_records(cell: Cell, records: Sequence[Record], wire: Sequence[WireRow], folder: Path) -> None:
    """Hold a cell to its promise: a record for every item, and no request that belongs to none."""
    got = [record.item_id for record in records]
    if got != [item.item_id for item in cell.data.items]:
        raise SuiteFailure(
            f"{cell.suite}: normalise gave {len(got)} records for {len(cell.data.items)} items, or in another order."
        )
    claimed = {wire_id for record in records for wire_id in record.wire_ids}
    stray = [row for row in wire if row.wire_id not in claimed]
    if stray:
        raise SuiteFailure(
            f"{cell.suite}: {len(stray)} of {len(wire)} requests in {folder / 'wire.jsonl'} belong to no item; the "
            f"first is {stray[0].wire_id} ({stray[0].path}, status {stray[0].status})."
        )


def _facts(
    cell: Cell,
    site: Site,
    state: State,
    reason: str | None,
    settings: tuple[Setting, ...],
    seconds: float | None,
    job_sha256: str | None,
    memo: bool,
) -> CellFacts:
    return CellFacts(
        cell_id=cell.cell_id,
        name=site.folder.name,
        config_id=cell.config_id,
        model=cell.model.name,
        suite=cell.suite,
        suite_version=cell.suite_version,
        arm=cell.arm.value,
        state=state,
        reason=reason,
        settings=settings,
        seconds=seconds,
        job_sha256=job_sha256,
        memo=memo,
    )


def _settle(folder: Path, facts: CellFacts, records: list[Record]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if facts.state == "done":
        write_records(folder / "records.parquet", records)
    write_cell(folder, facts)
