"""The logs of Inspect AI below a path."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.importers.base import Identity, Notes, Recorded, Row, config_id
from safetyrepro.crosspkg.importers.inspect_ai.disclosed import disclosed
from safetyrepro.crosspkg.importers.inspect_ai.logs import Log, open_log
from safetyrepro.crosspkg.importers.inspect_ai.samples import read_sample
from safetyrepro.crosspkg.importers.reading import Advance
from safetyrepro.crosspkg.importers.values import finite, mapping, sequence, short, text_of, whole
from safetyrepro.errors import InputError

_MEANS = ("accuracy", "mean")
_LOG = re.compile(r"\.(eval|json)(\.gz)?$", re.IGNORECASE)
_NO_CONFIGURATION = frozenset(
    {"max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections", "cache", "batch"}
)
"""Generation options that change how requests are sent, not what is."""


class LoggedRun:
    """One log."""

    passed_over: frozenset[str] = frozenset()

    def __init__(self, log: Log) -> None:
        self._log = log
        self.source, self.size = log.path, log.size
        self._eval = mapping(log.header.get("eval"))
        task = text_of(self._eval.get("task")) or _LOG.sub("", log.path.name)
        self.identity = Identity(
            task, text_of(self._eval.get("model")) or None, config_id("inspect_ai", {"task": task, **self._facts()})
        )
        self.suite_version = text_of(mapping(self._eval.get("packages")).get("inspect_ai"))
        self.when = text_of(self._eval.get("created")) or ""
        self.disclosed = disclosed(log.header)
        self._errors = self._rows = 0
        self._sums: defaultdict[str, float] = defaultdict(float)

    def _facts(self) -> dict[str, Any]:
        """What sets this configuration apart from others, the model left out."""
        plan = mapping(self._log.header.get("plan"))
        options = {**mapping(self._eval.get("model_generate_config")), **mapping(plan.get("config"))}
        return {
            "version": self._eval.get("task_version"),
            "arguments": mapping(self._eval.get("task_args")),
            "dataset": mapping(self._eval.get("dataset")).get("location"),
            "solver": [
                [mapping(step).get("solver"), mapping(step).get("params")] for step in sequence(plan.get("steps"))
            ],
            "scorers": [mapping(one).get("name") for one in sequence(self._eval.get("scorers"))],
            "options": {key: value for key, value in options.items() if key not in _NO_CONFIGURATION},
        }

    @property
    def headline(self) -> tuple[str, ...]:
        """The recorded scores, in the log's order."""
        return tuple(self.recorded())

    def rows(self, notes: Notes, advance: Advance) -> Iterator[Row]:  # noqa: ARG002 - all is said at the end
        """The samples, in the log's order."""
        plan = mapping(mapping(self._log.header.get("plan")).get("config"))
        options = {**mapping(self._eval.get("model_generate_config")), **plan}
        run_id = text_of(self._eval.get("eval_id") or self._eval.get("run_id")) or self.source.name
        for sample in self._log.samples(advance):
            row = read_sample(
                sample,
                self.identity,
                run_id,
                self.suite_version,
                finite(options.get("temperature")),
                self._names,
            )
            self._rows += 1
            self._errors += row.facts["status"] == "error"
            for name, value in row.values.items():
                self._sums[name] += finite(value) or 0.0
            yield row

    def label(self, group: str, metric: str) -> str:  # noqa: ARG002 - a log has no groups of rows
        """The scorer's name."""
        return metric

    @cached_property
    def _names(self) -> dict[tuple[str, str | None], str]:
        """Names of scores by (scorer, key): a key's alone where no other scorer has it too."""
        entries = self._entries()
        counts = Counter(name for name, _, _ in entries)
        names: dict[tuple[str, str | None], str] = {}
        for name, scorer, _ in entries:
            single = counts[name] == len([one for one in entries if one[0] == name and one[1] == scorer])
            names[scorer, None if name == scorer else name] = name if single else f"{scorer}.{name}"
            names.setdefault((name, None), name)
        if entries:
            names["", None] = entries[0][0]
        return names

    def _entries(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """(name, scorer, entry) of the recorded scores; early logs hold one, beside its metrics."""
        results = mapping(self._log.header.get("results"))
        held = sequence(results.get("scores"))
        if not held and isinstance(results.get("scorer"), dict):
            held = [{**results["scorer"], "metrics": results.get("metrics")}]
        entries: list[tuple[str, str, Mapping[str, Any]]] = []
        for one in map(mapping, held):
            name = text_of(one.get("name")) or text_of(one.get("scorer")) or "score"
            entries.append((name, text_of(one.get("scorer")) or name, one))
        return entries

    def recorded(self) -> Mapping[str, Recorded]:
        """Accuracy or mean of every recorded score, further metrics beside it."""
        found: dict[str, Recorded] = {}
        for name, scorer, entry in self._entries():
            label = self._names.get((scorer, None if name == scorer else name), name)
            reducer = text_of(entry.get("reducer"))
            if label in found:
                label = f"{label},{reducer}"
            metrics = {
                key.rpartition("/")[2]: mapping(one).get("value") if isinstance(one, dict) else one
                for key, one in mapping(entry.get("metrics")).items()
            }
            mean = next((key for key in _MEANS if key in metrics), None)
            more = {key: value for key, one in metrics.items() if (value := finite(one)) is not None and key != mean}
            why = None
            if reducer not in (None, "mean") and self._epochs > 1:
                why = f"the log reduces {self._epochs} epochs by {short(reducer)!r}, the rows' mean is over all of them"
            if mean is not None or more:
                found[label] = Recorded(None if mean is None else finite(metrics[mean]), why, more)
        return found

    @property
    def _epochs(self) -> int:
        return max(whole(mapping(self._eval.get("config")).get("epochs")) or 1, 1)

    @property
    def _planned(self) -> int | None:
        """Items that were to be run."""
        ids = sequence(mapping(self._eval.get("dataset")).get("sample_ids"))
        total = whole(mapping(self._log.header.get("results")).get("total_samples"))
        return len(ids) or (None if total is None else total // self._epochs)

    def missing(self, items: int) -> int | None:
        """How many items fewer the log holds than were to be run."""
        return None if self._planned is None else max(self._planned - items, 0)

    def check(self, notes: Notes, rows: int, items: int) -> None:  # noqa: ARG002 - epochs are counted too
        """Say whether the run came to its end, and which samples its own mean leaves out."""
        task, status = self.identity.task, text_of(self._log.header.get("status"))
        planned = None if self._planned is None else self._planned * self._epochs
        if status != "success":
            error = text_of(mapping(self._log.header.get("error")).get("message"))
            why = f" ({short(error)})" if error else ""
            if planned is not None and rows >= planned:
                held = f"and yet the log holds all {planned} planned samples"
            else:
                held = f"incomplete, it holds {rows}{'' if planned is None else f' of {planned} planned'} samples"
            notes.say(f"{task}: the run's status is {status!r}{why}: {held}.")
        elif planned is not None and rows < planned:
            notes.say(f"{task}: the log holds {rows} of the {planned} samples that were to be run.")
        size = whole(mapping(self._eval.get("dataset")).get("samples"))
        if size is not None and self._planned is not None and self._planned < size:
            notes.say(f"{task}: {self._planned} of the data set's {size} items were to be run (a limit was set).")
        if self._log.header.get("invalidated"):
            notes.say(f"{task}: the log is marked as invalidated.")
        if self._errors:
            self._report_errors(notes, rows)
        if not rows:
            notes.say(f"{task}: no samples were logged, so its recorded aggregates stand alone.")

    def _report_errors(self, notes: Notes, rows: int) -> None:
        task = self.identity.task
        notes.say(f"{task}: {self._errors} of {rows} samples ended in an error; Inspect's own mean leaves them out.")
        for name, total in self._sums.items():
            notes.say(f"{task}: counted as wrong, the unscored samples would make {name} {total / rows:.6g} of {rows}.")


def find_runs(path: Path, notes: Notes) -> list[LoggedRun]:
    """Every log at or below `path`.

    Raises:
        InputError: none is there, or the one file is damaged.
    """
    if path.is_file():
        log = open_log(path)
        if log is None:
            raise InputError(
                f"{path}: no log of Inspect AI, which is a zip or an object with status, eval and samples."
            )
        return [LoggedRun(log)]
    runs: list[LoggedRun] = []
    failures: list[str] = []
    for one in sorted(path.rglob("*")):
        if not one.is_file() or not _LOG.search(one.name):
            continue
        try:
            log = open_log(one)
        except InputError as error:
            failures.append(str(error))
            continue
        if log is not None:
            runs.append(LoggedRun(log))
    if not runs:
        raise InputError(failures[0] if failures else f"{path}: holds no log of Inspect AI (*.eval or *.json).")
    for failure in failures:
        notes.say(f"left out: {failure}")
    return runs
