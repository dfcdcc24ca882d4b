"""One cell: translate, run, normalise, and what is left on disk.

A cell that is done is recognised by the hash of its job and not run again; a cell that was cut off is run anew.

A repeat is the same job again, below the cell's folder: another process of the suite, another wire log, nothing from
the memo, and where text is sampled other draws, which the gateway derives from the seed and the repeat's number.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro import adapters, benchmarks
from safetyrepro.adapters.base import Absent, Cell, Job, Setting
from safetyrepro.atomic import write_json
from safetyrepro.config import Arm, Config, ModelSpec, canonical_sha256, cell_id
from safetyrepro.crosspkg.cell_folder import read_cell, repeat_folder, write_cell
from safetyrepro.crosspkg.facts import CellFacts, State
from safetyrepro.crosspkg.judging import judge_of
from safetyrepro.crosspkg.schedule import Halt
from safetyrepro.errors import SafetyReproError, SuiteFailure
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.plurals import counted
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
    repeats: int = 1
    """How often the cell is run in all."""
    start: str | None = None
    """Key of the start that runs it."""


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
    """Run one cell and its repeats unless they are done, and leave each outcome in its folder.

    A suite that dies fails this cell, or this repeat, alone.
    """
    entry = site.prepared
    cell = Cell(
        run_id=_run_id(site),
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
    try:
        with _as_failure(site.suite):
            job = adapters.get(site.suite).translate(cell)
    except SuiteFailure as failure:
        _clear(site.folder)
        _settle(site.folder, _facts(cell, site, 0, "failed", str(failure), (), None, None), [])
        progress.say(f"{site.folder.name}: FAILED\n{failure}")
        return
    if isinstance(job, Absent):
        _clear(site.folder)
        _settle(site.folder, _facts(cell, site, 0, "absent", job.reason, (), None, None), [])
        progress.say(f"{site.folder.name}: absent: {job.reason}")
        return
    job_sha256 = _job_hash(cell, job, environment, site.memo)
    for repeat in range(site.repeats):
        if not _run_once(site, repeat, cell, job, job_sha256, gateway, environment, progress, halt) and not repeat:
            return
        cell = replace(cell, run_id=_run_id(site))


@contextmanager
def _as_failure(suite: str) -> Iterator[None]:
    """A fault in an adapter's own code fails its cell, with the place, and not the run."""
    try:
        yield
    except (SafetyReproError, OSError):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise SuiteFailure(
            f"{suite}: its adapter failed ({type(error).__name__}: {error}; {Path(place.filename).name}, line "
            f"{place.lineno})."
        ) from error


def _run_id(site: Site) -> str:
    return f"{cell_id(site.prepared.config, site.model, site.suite, site.arm)[:12]}-{time.time_ns():x}"


def _run_once(
    site: Site,
    repeat: int,
    cell: Cell,
    job: Job,
    job_sha256: str,
    gateway: Gateway,
    environment: Environment | None,
    progress: Progress,
    halt: Halt,
) -> bool:
    """One run of the job, unless it was done before; whether it is done now."""
    folder = repeat_folder(site.folder, repeat) if repeat else site.folder
    name = f"{site.folder.name}, repeat {repeat}" if repeat else site.folder.name
    before = read_cell(folder)
    if before is not None and before.state == "done" and before.job_sha256 == job_sha256:
        progress.say(f"{name}: done before, kept")
        return True
    _clear(folder)
    task = progress.task(name, job.expected_requests)
    started = time.monotonic()
    try:
        records = _execute(site, repeat, cell, job, folder, gateway, environment, task.update, halt)
    except SuiteFailure as failure:
        reason, seconds = str(failure), time.monotonic() - started
        _settle(folder, _facts(cell, site, repeat, "failed", reason, job.settings, seconds, job_sha256), [])
        task.finish("FAILED\n" + reason)
        return False
    seconds = time.monotonic() - started
    _settle(folder, _facts(cell, site, repeat, "done", None, job.settings, seconds, job_sha256), records)
    errors = sum(record.status in {"error", "missing"} for record in records)
    task.finish(counted(len(records), "item") + (f", {errors} of them without a score" if errors else ""))
    return True


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
    repeat: int,
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
    run = gateway.open_run(cell.run_id, folder / "wire.jsonl", memo=site.memo, repeat=repeat)

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
    with _as_failure(site.suite):
        records = adapter.normalise(cell, native, wire)
    _check_records(cell, records, wire, folder)
    return [replace(record, repeat=repeat) for record in records]


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
    repeat: int,
    state: State,
    reason: str | None,
    settings: tuple[Setting, ...],
    seconds: float | None,
    job_sha256: str | None,
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
        # What a repeat is served is never taken from the memo.
        memo=site.memo and not repeat,
        repeat=repeat,
        start=site.start,
    )


def _clear(folder: Path) -> None:
    """Take away what an earlier run left, so that none of it is taken for this one's."""
    if folder.exists():
        shutil.rmtree(folder)


def _settle(folder: Path, facts: CellFacts, records: list[Record]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if facts.state == "done":
        write_records(folder / "records.parquet", records)
    write_cell(folder, facts)
