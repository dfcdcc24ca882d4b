"""Imports the runs below a path: records of all of them, and a summary that sets rows beside recorded aggregates."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.crosspkg.importers.base import Notes, Run
from safetyrepro.crosspkg.importers.run_import import NAMED, RunImport
from safetyrepro.crosspkg.importers.store import RecordFolder
from safetyrepro.crosspkg.importers.summary import AGGREGATES, CAN_BE_ABSENT, Summary, TaskSummary
from safetyrepro.crosspkg.importers.values import one_line
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted

if TYPE_CHECKING:
    from safetyrepro.progress import Progress

SUITES = ("lm_eval", "helm", "inspect_ai")


def import_logs(
    suite: str, path: Path, out: Path | None, watch: Progress, *, metric: str | None = None, model: str | None = None
) -> Summary:
    """Read every run of a suite below `path`.

    Args:
        suite: One of `SUITES`: the suite that wrote the logs.
        path: A log file, a run's folder, or a folder with several runs.
        out: Folder for `records.parquet` and `import.json`; None reads and checks only.
        watch: Told how far it is.
        metric: Metric whose value is the records' score; else the first that lies in [0, 1].
        model: The model's name, for logs that do not hold it.

    Raises:
        InputError: nothing of that suite there, a damaged or unreadable file, no rows to write, no such metric.
    """
    notes = Notes()
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    find: Callable[[Path, Notes], Sequence[Run]] = import_module(f"safetyrepro.crosspkg.importers.{suite}").find_runs
    runs = _latest(find(path, notes), notes)
    tasks: list[TaskSummary] = []
    with contextlib.ExitStack() as stack:
        writer = None if out is None else stack.enter_context(RecordFolder(out))
        for run in runs:
            bar = watch.task(one_line(f"{run.source.name} ({run.size // 1000} kB)"), run.size // 1000)
            done = 0

            def advance(size: int, bar: Any = bar) -> None:
                nonlocal done
                done += size
                bar.update(done // 1000)

            import_one = RunImport(run, notes, metric, model)
            for record in import_one.records(advance):
                if writer is not None:
                    writer.add(record)
            summary = import_one.summary()
            bar.finish(f"{counted(summary.rows, 'row')}, {counted(summary.items, 'item')}")
            tasks.append(summary)
            if writer is not None:
                writer.end_run()
        if writer is not None and not any(task.records for task in tasks):
            raise InputError(
                f"{path}: holds aggregates but no items, and records are made of items; import without --out to see "
                "the aggregates, or log the samples too."
            )
        absent = tuple(name for name in (*CAN_BE_ABSENT, AGGREGATES) if any(name in task.absent for task in tasks))
        result = Summary(suite, tuple(tasks), absent, tuple(notes.warnings))
        if writer is not None:
            writer.finish(result.as_json())
        return result


def _latest(runs: Sequence[Run], notes: Notes) -> list[Run]:
    """The runs, each thing once: of several runs of the same task, model and configuration the latest."""
    chosen: list[Run] = []
    for identity, alike in itertools.groupby(
        sorted(runs, key=lambda run: (run.identity.task, run.identity.model or "", run.identity.config_id)),
        key=lambda run: run.identity,
    ):
        *older, latest = sorted(alike, key=lambda run: (run.when, str(run.source)))
        chosen.append(latest)
        if older:
            names = ", ".join(str(run.source) for run in older[:NAMED])
            more = f" and {len(older) - NAMED} more" if len(older) > NAMED else ""
            notes.say(
                f"{identity.task}: {len(older) + 1} runs of the same model and configuration; imported the latest, "
                f"{latest.source}, and left out {names}{more}: name one of them to import it."
            )
    order = {id(run): place for place, run in enumerate(runs)}
    return sorted(chosen, key=lambda run: order[id(run)])
