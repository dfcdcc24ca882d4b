"""The runs of lm-evaluation-harness below a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from safetyrepro.crosspkg.importers.base import Identity, Notes, Recorded, Row, config_id
from safetyrepro.crosspkg.importers.lm_eval.disclosed import disclosed
from safetyrepro.crosspkg.importers.lm_eval.files import Samples, find_files, stamp_of, task_and_model
from safetyrepro.crosspkg.importers.lm_eval.results import Results, label
from safetyrepro.crosspkg.importers.lm_eval.samples import Context, RowReader
from safetyrepro.crosspkg.importers.reading import Advance, iterate_rows
from safetyrepro.crosspkg.importers.values import text_of


class TaskRun:
    """One task in one results file, one samples file, or both."""

    headline: Sequence[str] = ()
    passed_over: frozenset[str] = frozenset()

    def __init__(self, task: str, model: str | None, samples: Path | None, results: Results | None) -> None:
        self._task, self._samples, self._results = task, samples, results
        self._configuration = {} if results is None else results.configuration(task)
        self._recorded = {} if results is None else results.recorded(task)
        path = samples or (results.path if results else None)
        assert path is not None
        self.source = path
        self.identity = Identity(task, model, config_id("lm_eval", {"task": task, **self._configuration}))
        self.suite_version = None if results is None else results.version
        self.when = stamp_of(path) or (text_of(results.body.get("date")) or "" if results else "")
        self.size = 0 if samples is None else samples.stat().st_size
        self.disclosed = {} if results is None else disclosed(results, task)

    def rows(self, notes: Notes, advance: Advance) -> Iterator[Row]:
        """The samples, in the file's order."""
        if self._samples is None:
            return
        config = {} if self._results is None else self._results.task_config(self._task)
        delimiter = config.get("target_delimiter")
        context = Context(
            run_id=self.source.name,
            identity=self.identity,
            version=self.suite_version,
            shots=None if self._results is None else self._results.shots(self._task),
            delimiter=delimiter if isinstance(delimiter, str) else None,
            configuration=self._configuration,
            metrics=frozenset(name.split(",")[0] for name in self._recorded) or None,
        )
        reader = RowReader(context, notes)
        for place, (_, row) in enumerate(iterate_rows(self._samples, advance)):
            yield reader.read(row, place)

    def label(self, group: str, metric: str) -> str:
        """A metric with its filter, unless that is `none`."""
        return label(group, metric)

    def recorded(self) -> Mapping[str, Recorded]:
        """The results file's aggregates."""
        return self._recorded

    def missing(self, items: int) -> int | None:
        """How many items fewer the samples hold than the results say were run."""
        effective = None if self._results is None else self._results.samples(self._task)[1]
        return max(effective - items, 0) if effective is not None and items else None

    def check(self, notes: Notes, rows: int, items: int) -> None:
        """Say how many of the task's items there are."""
        if self._results is None:
            notes.say(
                f"{self._task}: {self.source.name} has no results file, so nothing recorded stands beside its rows."
            )
            return
        original, effective = self._results.samples(self._task)
        if not rows:
            notes.say(f"{self._task}: no samples were logged, so its recorded aggregates stand alone.")
        elif self.missing(items):
            notes.say(f"{self._task}: the samples hold {items} of the {effective} items that were run.")
        if original is not None and effective is not None and effective < original:
            notes.say(f"{self._task}: {effective} of the task's {original} items were run (a limit was set).")


def find_runs(path: Path, notes: Notes) -> list[TaskRun]:
    """Every task below `path`: of samples files, and of results files whose samples are not there.

    Raises:
        InputError: nothing there is of lm-evaluation-harness.
    """
    samples, results = find_files(path, notes)
    siblings = [one.path for one in samples]
    runs: list[TaskRun] = []
    for one in samples:
        runs.append(_of_samples(one, siblings, notes))
    covered = {(run.identity.task, run.identity.model) for run in runs}
    for found in results:
        for task in found.tasks:
            if (task, found.model) not in covered:
                runs.append(TaskRun(task, found.model, None, found))
    return runs


def _of_samples(one: Samples, siblings: Sequence[Path], notes: Notes) -> TaskRun:
    beside = [path for path in siblings if path.parent == one.path.parent]
    task, model, by_name = task_and_model(one.path, one.results, beside)
    if by_name:
        notes.say(f"{one.path.name}: task {task!r} and model {model!r} are read from the file's or folder's name.")
    return TaskRun(task, model, one.path, one.results)
