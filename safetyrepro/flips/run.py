"""Updates end to end: collect, keep, analyse, report.

```
OUT/<update>/<n>-<task>/outcomes.jsonl   a score table: both versions' rows with every signal
OUT/<update>/<n>-<task>/run.json         what was run, the models' facts, what is undefined and why
OUT/<update>/flips.json, flips.html      the update over its tasks
OUT/signals.json, signals.html           every task and update together
OUT/signals.csv                          their signals, for `flips signals`, `flips policy` and `flips route`
```
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.analysis.flips.signals import SignalTable
from safetyrepro.atomic import json_text, write_json, write_text, write_texts
from safetyrepro.config import canonical_sha256, model_key
from safetyrepro.errors import InputError
from safetyrepro.flips.collect import Collected, collect, versions_of
from safetyrepro.flips.report import Question, build_flips
from safetyrepro.flips.scores import read_outcomes
from safetyrepro.flips.selection import comparisons
from safetyrepro.flips.signal_report import build_signals
from safetyrepro.flips.signal_table import signals_csv
from safetyrepro.flips.task import Task
from safetyrepro.flips.update import Update

if TYPE_CHECKING:
    import pandas as pd

    from safetyrepro.progress import Progress


@dataclass(frozen=True)
class Finished:
    """One update over its tasks."""

    update: Update
    folder: Path
    body: dict[str, Any]
    """flips.json."""
    tables: tuple[SignalTable, ...]


def run_update(
    update: Update, tasks: Sequence[Task], out: Path, watch: Progress, *, one_at_a_time: bool, redact: bool
) -> Finished:
    """Run an update over its tasks and write its report; tasks that are finished are kept.

    Raises:
        InputError: a model or a task cannot be run, a task is named twice, or the folder holds another run.
    """
    asked = [(task.name, task.config_id) for task in tasks]
    if twice := next((name for name, key in asked if asked.count((name, key)) > 1), None):
        raise InputError(f"{twice}: the same items are asked twice; name each task once.")
    folder = out / update.name
    places = {
        folder / f"{number}-{''.join(c if c.isalnum() or c in '._-' else '_' for c in task.name)}": task
        for number, task in enumerate(tasks, 1)
    }
    open_tasks = {place: task for place, task in places.items() if not _kept(place, update, task)}
    if open_tasks:
        with versions_of(update, watch, one_at_a_time=one_at_a_time) as versions:
            # In turn, each version is loaded once for all tasks; both in memory, a task is kept as soon as it is done.
            together = list(open_tasks.items())
            for part in [together] if one_at_a_time else [[one] for one in together]:
                for (place, task), collected in zip(
                    part, collect(versions, [task for _, task in part], watch), strict=True
                ):
                    _write(place, update, task, collected)
    frame = read_outcomes([place / "outcomes.jsonl" for place in places]).frame
    names = _names(frame)
    compared = comparisons(frame, *names)
    question = Question(old=names[0], new=names[1], redact=redact)
    step = _counted(watch, update.name, len(compared))
    body, tables = build_flips(frame, question, compared, signals=True, step=step)
    body["undefined"] = [
        {"task": task.name, **row} for place, task in places.items() for row in _read(place / "run.json")["undefined"]
    ]
    from safetyrepro.reports.flips_page import render_flips

    write_texts({folder / "flips.json": json_text(body), folder / "flips.html": render_flips(body)})
    return Finished(update, folder, body, tuple(replace(table, update=update.name) for table in tables))


def write_together(finished: Sequence[Finished], out: Path, watch: Progress) -> dict[str, Any]:
    """Write signals.json, its page and signals.csv over all updates, and return the first."""
    from safetyrepro.reports.flips_page import render_flips

    tables = [table for one in finished for table in one.tables]
    body = build_signals(tables, None, step=_counted(watch, "signals", len(tables)))
    write_texts(
        {
            out / "signals.json": json_text(body),
            out / "signals.html": render_flips(body),
            out / "signals.csv": signals_csv(tables),
        }
    )
    return body


def _identity(update: Update, task: Task) -> str:
    return canonical_sha256(
        {
            "old": model_key(update.old),
            "new": model_key(update.new),
            "config_id": task.config_id,
            "version": version("safetyrepro"),
        }
    )


def _kept(place: Path, update: Update, task: Task) -> bool:
    """Whether a task is finished already.

    Raises:
        InputError: the place holds another task's or update's outcomes.
    """
    if not (place / "run.json").is_file():
        return False
    if _read(place / "run.json").get("identity") != _identity(update, task):
        raise InputError(f"{place}: holds another run (other models, numerics, items or version); name another --out.")
    return True


def _write(place: Path, update: Update, task: Task, collected: Collected) -> None:
    lines = [json.dumps(row, ensure_ascii=True, allow_nan=False) for row in collected.rows]
    write_text(place / "outcomes.jsonl", "\n".join(lines) + "\n")
    write_json(
        place / "run.json",
        {
            "identity": _identity(update, task),
            "update": update.model_dump(mode="json"),
            "task": task.name,
            "config_id": task.config_id,
            "versions": collected.versions,
            "undefined": list(collected.undefined),
        },
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete its folder and run again.") from None
    if not isinstance(body, dict) or not isinstance(body.get("undefined"), list):
        raise InputError(f"{path}: not a run of this version; delete its folder and run again.")
    return body


def _names(frame: pd.DataFrame) -> tuple[str, str]:
    """The versions, old first as the rows are written."""
    old, new = (str(name) for name in frame["model"].unique())
    return old, new


def _counted(watch: Progress, name: str, total: int) -> Callable[[int], None]:
    task = watch.task(f"{name}, statistics", total)

    def step(done: int) -> None:
        task.update(done)
        if done >= total - 1:
            task.finish(f"{total} tasks")

    return step
