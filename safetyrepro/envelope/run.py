"""Running a sealed plan: shard after shard, each file written before its line in the ledger, resumable at any moment.

```
OUT/plan.json, SEAL             what was sealed
OUT/shards/<shard>.parquet      records, one file a shard
OUT/ledger.jsonl                a line a finished shard, in the plan's order
```
A shard whose file is there without a line was cut off by a kill and is run again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from safetyrepro import facts
from safetyrepro.digest import file_sha256
from safetyrepro.engine import load
from safetyrepro.envelope.grid import GridCell, cells
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.ledger import LEDGER, Entry, append, drop_cut_line, next_entry, read_lines
from safetyrepro.envelope.plan import grouped
from safetyrepro.envelope.seal import Sealed, check_against_world, read_sealed
from safetyrepro.envelope.shard import Done, ShardJob, execute, job_of
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted
from safetyrepro.records import write_records

if TYPE_CHECKING:
    from safetyrepro.engine import Engine
    from safetyrepro.envelope.document import ShardFacts
    from safetyrepro.progress import Progress

SHARDS = "shards"
_LOCK = ".lock"


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    seal: str
    head: str
    shards: int
    kept: int
    """Shards that an earlier start had finished."""
    cells: int
    rows: int
    seconds: float
    """Of this start."""
    tokens: int
    """Of this start; common beginnings counted each time."""


def shard_path(folder: Path, shard: str) -> Path:
    """Where a shard's records are."""
    return folder / SHARDS / f"{shard}.parquet"


def run_sealed(folder: Path, data_dir: Path | None, watch: Progress) -> Finished:
    """Run what is left of a sealed plan.

    Args:
        folder: what `write_seal` wrote.
        data_dir: folder of official data.
        watch: progress.

    Raises:
        InputError: plan, seal, ledger, shards or what is on this machine do not belong together, or another process
            runs this folder.
    """
    sealed = read_sealed(folder)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            return _run(sealed, Items(data_dir), watch)
    except Timeout:
        raise InputError(f"{folder}: another process is running it; wait for it, or seal another folder.") from None


def jobs(sealed: Sealed, items: Items) -> list[ShardJob]:
    """Every shard's job, in the plan's order.

    Raises:
        InputError: items cannot be read.
    """
    groups = grouped(cells(sealed.plan.envelope))
    return [_job(sealed, shard, group, items) for shard, group in zip(sealed.plan.shards, groups, strict=True)]


def _job(sealed: Sealed, shard: ShardFacts, group: Sequence[GridCell], items: Items) -> ShardJob:
    planned = sealed.plan.benchmark(shard.benchmark)
    weights = sealed.plan.model(shard.model).weights_sha256
    data = items.of(group[0].config)
    return job_of(sealed.seal, shard.name, group, weights, data, known=bool(planned.items))


def _run(sealed: Sealed, items: Items, watch: Progress) -> Finished:
    watch.say("checking the plan against its seal")
    check_against_world(sealed, items, watch.say)
    entries = _finished(sealed)
    kept = len(entries)
    if kept:
        watch.say(f"{kept} of {len(sealed.plan.shards)} shards are finished and kept")
    _clear(sealed, kept)
    commit = facts.commit()
    started, tokens = time.monotonic(), 0
    total = sum(len(shard.cells) for shard in sealed.plan.shards[kept:])
    task = watch.task("cells", total)
    done_cells = 0
    todo = jobs(sealed, items)[kept:]
    engine: Engine | None = None
    loaded = None
    try:
        for job in todo:
            if engine is None or loaded != job.model.name:
                if engine is not None:
                    engine.close()
                # A model goes with the last name for it, and two at once are twice the memory that was planned.
                engine = None
                engine, loaded = load(job.model.model, progress=watch.say), job.model.name
            begun = time.monotonic()
            done = execute(job, engine, items)
            seconds = time.monotonic() - begun
            entries.append(_settle(sealed, job, done, _facts(engine, done, seconds, commit), entries))
            done_cells += len(job.cells)
            tokens += done.tokens
            rate = done.tokens / seconds if seconds else 0.0
            watch.say(f"  {job.name}: {counted(len(done.records), 'row')}, {rate:,.0f} tokens/s")
            task.update(done_cells)
    finally:
        if engine is not None:
            engine.close()
    spent = time.monotonic() - started
    task.finish(f"{counted(done_cells, 'cell')}, {tokens / spent if spent else 0:,.0f} tokens/s")
    return Finished(
        sealed.seal,
        entries[-1].hash if entries else sealed.seal,
        len(entries),
        kept,
        sum(len(shard.cells) for shard in sealed.plan.shards),
        sum(entry.rows for entry in entries),
        spent,
        tokens,
    )


def _settle(sealed: Sealed, job: ShardJob, done: Done, fact: dict[str, Any], entries: list[Entry]) -> Entry:
    path = shard_path(sealed.folder, job.name)
    write_records(path, done.records)
    _sync(path.parent)
    entry = next_entry(
        entries,
        sealed.seal,
        shard=job.name,
        sha256=file_sha256(path),
        rows=len(done.records),
        facts=fact,
    )
    append(sealed.folder / LEDGER, entry)
    return entry


def _facts(engine: Engine, done: Done, seconds: float, commit: tuple[str | None, bool | None]) -> dict[str, Any]:
    info = engine.info
    return {
        "model": info.name,
        "weights_sha256": info.weights_sha256,
        "weights_verified": info.weights_verified,
        "source_quant": info.source_quant,
        "numerics": info.numerics,
        "details": dict(info.details),
        "licence": info.licence,
        "code": {"commit": commit[0], "dirty": commit[1]},
        "machine": facts.machine().model_dump(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "requests": done.requests,
        "tokens": done.tokens,
    }


def _finished(sealed: Sealed) -> list[Entry]:
    """The ledger's entries, held to the plan and to the shards' files.

    Raises:
        InputError: naming the first line or file that is not what it should be.
    """
    path = sealed.folder / LEDGER
    drop_cut_line(path)
    lines, problems = read_lines(path)
    if problems:
        raise InputError(f"{path}, line {problems[0][0]}: {problems[0][1]}; {_ADVICE}")
    entries = [entry for _, entry in lines]
    previous = sealed.seal
    for number, entry in enumerate(entries):
        where = f"{path}, line {number + 1}"
        planned = sealed.plan.shards[number].name if number < len(sealed.plan.shards) else None
        if entry.seal != sealed.seal or entry.previous != previous or entry.number != number or not entry.holds():
            raise InputError(f"{where}: does not follow from the line before and the seal; {_ADVICE}")
        if entry.shard != planned:
            raise InputError(f"{where}: names shard {entry.shard!r}, the plan's next is {planned!r}; {_ADVICE}")
        file = shard_path(sealed.folder, entry.shard)
        if not file.is_file():
            raise InputError(f"{file}: is missing, and the ledger says that it is finished; {_ADVICE}")
        if file_sha256(file) != entry.sha256:
            raise InputError(f"{file}: was changed after it was finished; {_ADVICE}")
        previous = entry.hash
    return entries


_ADVICE = "`safetyrepro envelope verify` names everything; seal again into another folder and run that."


def _clear(sealed: Sealed, kept: int) -> None:
    """Remove what a kill left of a shard that was not finished."""
    folder = sealed.folder / SHARDS
    for shard in sealed.plan.shards[kept:]:
        shard_path(sealed.folder, shard.name).unlink(missing_ok=True)
        for left in folder.glob(f".{shard.name}.parquet.*"):
            left.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have a rename on the disk before the ledger speaks of it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
