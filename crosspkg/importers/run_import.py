"""One run on its way to records: its metric chosen, its rows counted, what is odd about them said."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from safetyrepro.crosspkg.importers.agreement import base_name, difference
from safetyrepro.crosspkg.importers.base import Notes, Recorded, Row, Run
from safetyrepro.crosspkg.importers.scoring import Outcome, choose_metric
from safetyrepro.crosspkg.importers.store import MOST_TEXT, text_size
from safetyrepro.crosspkg.importers.summary import AGGREGATES, CAN_BE_ABSENT, TaskSummary
from safetyrepro.crosspkg.importers.tally import Mean, Tally
from safetyrepro.crosspkg.importers.values import clean
from safetyrepro.errors import InputError
from safetyrepro.records import Record

LOOKED_AT = 2000
"""Rows of a run that are seen before its metric is chosen."""
NAMED = 5
"""Examples that a warning names at most."""
_NOTHING: tuple[Any, ...] = (None, ())


class RunImport:
    """One run on its way to records."""

    def __init__(self, run: Run, notes: Notes, metric: str | None, model: str | None) -> None:
        self._run, self._notes, self._wanted, self._model = run, notes, metric, model
        self._tally = Tally()
        self._rows = self._records = 0
        self._lacking = set(CAN_BE_ABSENT)
        self._metric: str | None = None
        self._seen: set[int] = set()
        self._configs: dict[str, int] = {}
        self._twice: dict[str, None] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._rows_of: Counter[str] = Counter()

    def records(self, advance: Callable[[int], None]) -> Iterator[Record]:
        """The run's records, scored by the metric chosen from its first rows.

        Raises:
            InputError: a file of the run is damaged, or nested too deeply to be read.
        """
        try:
            yield from self._records_of(advance)
        except RecursionError:
            raise InputError(f"{self._run.source}: holds values that are nested too deeply to be read.") from None

    def _records_of(self, advance: Callable[[int], None]) -> Iterator[Record]:
        rows = self._run.rows(self._notes, advance)
        first = list(_first(rows))
        self._metric = choose_metric(self._run, first, self._wanted)
        outcome = Outcome(self._run.identity.task, self._metric, self._run.passed_over)
        for row in itertools.chain(first, rows):
            self._add(row)
            facts = outcome.of(row)
            self._number(facts)
            if facts["model"] is None:
                facts["model"] = self._model
            self._lacking -= {name for name in self._lacking if facts[name] not in _NOTHING}
            yield Record(**facts)
        outcome.report(self._notes)

    def summary(self) -> TaskSummary:
        """What the rows came to, with what is odd about them said."""
        run, tally = self._run, self._tally
        means = {name: tally.mean(name) for name in tally.metrics}
        recorded = run.recorded()
        run.check(self._notes, self._rows, tally.items)
        self._report(means, recorded)
        identity = (
            run.identity if run.identity.model or self._model is None else replace(run.identity, model=self._model)
        )
        return TaskSummary(
            identity,
            clean(str(run.source)),
            run.suite_version,
            self._rows,
            self._records,
            tally.items,
            self._metric,
            means,
            recorded,
            frozenset(name for name in (*means, *recorded) if base_name(name) in run.passed_over),
            (*(name for name in CAN_BE_ABSENT if name in self._lacking), *(() if recorded else (AGGREGATES,))),
            run.disclosed,
        )

    def _add(self, row: Row) -> None:
        self._rows += row.requests
        self._records += 1
        item = self._tally.item(row.facts["item_id"])
        for name, value in row.values.items():
            label = self._labels.get((row.group, name))
            if label is None:
                label = self._labels[row.group, name] = self._run.label(row.group, name)
            self._tally.add(item, label, value, row.weights.get(name, 1))
        self._rows_of[row.group] += 1

    def _number(self, facts: dict[str, Any]) -> None:
        """Give a repeat of its own to an item that stands in the log a second time."""
        config = self._configs.setdefault(facts["config_id"], len(self._configs))
        place = (self._tally.item(facts["item_id"]) << 48) + (config << 24)
        repeat: int = facts["repeat"]
        while place + repeat in self._seen:
            repeat += 1
        self._seen.add(place + repeat)
        if repeat != facts["repeat"]:
            self._twice[facts["item_id"]] = None
            facts["repeat"] = repeat

    def _report(self, means: Mapping[str, Mean], recorded: Mapping[str, Recorded]) -> None:
        task, notes = self._run.identity.task, self._notes
        own = self._run.identity.model
        if own and self._model is not None and own != self._model:
            notes.say(f"{task}: --model {self._model!r} is not used, since the log names its model: {own!r}.")
        if self._twice:
            notes.say(
                f"{task}: {len(self._twice)} items stand in the log more than once, such as {_some(self._twice)}; each "
                "further row is a repeat."
            )
        for (group, metric), name in self._labels.items():
            mean, rows = means[name], self._rows_of[group]
            lacking = rows - mean.n - mean.not_finite - mean.not_numbers
            if lacking > 0 and metric == self._metric:
                notes.say(f"{task}: {lacking} of {rows} rows hold no {name}; its mean is over the others.")
        for name, mean in means.items():
            if mean.not_finite:
                notes.say(f"{task}: {name} is NaN or infinite in {mean.not_finite} rows; they hold no score.")
            if mean.not_numbers:
                what = "all" if not mean.n else "some"
                notes.say(f"{task}: {name} holds no number in {what} rows ({mean.not_numbers}); they hold no score.")
        missing = self._run.missing(self._tally.items)
        for name, value in recorded.items():
            found = means.get(name)
            if value.value is None:
                notes.say(f"{task}: the recorded {name} is no finite number.")
            elif found is not None:
                said = difference(name, found, value, means, missing)
                if said:
                    notes.say(f"{task}: {said}")


def _first(rows: Iterator[Row]) -> Iterator[Row]:
    """The first rows, until there are enough of them or of their text."""
    kept = 0
    for row in itertools.islice(rows, LOOKED_AT):
        yield row
        kept += text_size(row.facts)
        if kept > MOST_TEXT:
            return


def _some(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in itertools.islice(names, NAMED))
