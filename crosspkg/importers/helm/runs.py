"""The runs of HELM below a path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.importers.base import Identity, Notes, Recorded, Row, config_id, unscored
from safetyrepro.crosspkg.importers.helm.disclosed import disclosed
from safetyrepro.crosspkg.importers.helm.files import (
    AGGREGATES,
    PREDICTIONS,
    STATES,
    STATISTICS,
    RunFolder,
    find_folders,
    without_model,
)
from safetyrepro.crosspkg.importers.helm.states import by_instance, facts, group
from safetyrepro.crosspkg.importers.helm.statistics import (
    NO_SCORES,
    InstanceKey,
    InstanceStatistics,
    label,
    read_instance_statistics,
    read_recorded,
    read_shown_statistics,
)
from safetyrepro.crosspkg.importers.reading import Advance
from safetyrepro.crosspkg.importers.values import mapping, short, text_of
from safetyrepro.errors import InputError

_MODEL_FIELDS = frozenset({"model", "model_deployment"})
_IN_FOLDER_NAME = re.compile(r"[:,-]model=([^,]+)")


class FolderRun:
    """One run folder."""

    headline: Sequence[str] = ()
    passed_over = NO_SCORES

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        spec, adapter = folder.spec(), folder.adapter()
        self._name = text_of(spec.get("name")) or folder.path.name
        model = text_of(adapter.get("model") or adapter.get("model_deployment"))
        if model is None and (found := _IN_FOLDER_NAME.search(self._name)):
            model = found[1].replace("_", "/", 1)
        self._configuration = {
            "adapter": {key: value for key, value in adapter.items() if key not in _MODEL_FIELDS},
            "scenario": mapping(spec.get("scenario_spec")),
            "data_augmenter": mapping(spec.get("data_augmenter_spec")),
        }
        self.source, self.size = folder.path, folder.size()
        self.identity = Identity(
            self._name, model or None, config_id("helm", {"task": self._task, **self._configuration})
        )
        self.suite_version: str | None = None
        self.when = ""
        self.disclosed = disclosed(spec, adapter)
        self._recorded = read_recorded(folder.files[AGGREGATES]) if AGGREGATES in folder.files else {}
        self._failures: Counter[str] = Counter()
        self._scored_failures = self._requests = self._trials = 0
        self._splits: Counter[str] = Counter()
        self._identities: dict[str, Identity] = {}
        self._statistics = InstanceStatistics()

    @property
    def _task(self) -> str:
        return without_model(self._name)

    def rows(self, notes: Notes, advance: Advance) -> Iterator[Row]:
        """An instance and trial each, in the order of the run's states."""
        files = self._folder.files
        if STATISTICS in files:
            self._statistics = read_instance_statistics(files[STATISTICS], advance)
        elif PREDICTIONS in files:
            self._statistics = read_shown_statistics(files[PREDICTIONS], lambda _: None)
        seen = 0
        for key, states in by_instance(self._folder.states(advance)):
            seen += 1
            values = self._statistics.of(key)
            known, failure = facts(states, values)
            where = self._statistics.group(key) if STATES not in files and STATISTICS in files else group(states[0])
            yield self._row(key, self._with_split(where), values, known, failure, len(states))
        if not seen and (STATES not in files and PREDICTIONS not in files):
            for key in self._statistics.keys:
                known = {"status": "ok", "extra": {}}
                yield self._row(key, self._statistics.group(key), self._statistics.of(key), known, None, 1)
        elif STATISTICS in files and seen != len(self._statistics):
            notes.say(
                f"{self.identity.task}: {STATISTICS} has statistics of {len(self._statistics)} instances and trials, "
                f"the requests are of {seen}."
            )

    def _row(
        self,
        key: InstanceKey,
        where: str,
        values: dict[str, float | None],
        known: Mapping[str, Any],
        failure: str | None,
        requests: int,
    ) -> Row:
        instance, _, trial = key
        self._splits[where] += 1
        if failure is not None:
            self._failures[short(failure)] += 1
            self._scored_failures += any(name not in NO_SCORES for name in values)
        fields = unscored(self._name, "helm", None, self._identity(where), instance, repeat=max(trial, 0), **known)
        return Row(fields, values, where, failure, requests, self._statistics.weights(key))

    def _with_split(self, where: str) -> str:
        """A group whose split the instances do not hold: that of the aggregates, where those have one alone."""
        split, _, perturbation = where.partition("|")
        splits = {name.split("|")[0] for name in self._recorded if name.count("|") == 1}
        return f"{splits.pop()}|{perturbation}" if not split and len(splits) == 1 else where

    def _identity(self, where: str) -> Identity:
        """A split, and a perturbed one, is a configuration of its own: HELM never averages over several."""
        known = self._identities.get(where)
        if known is None:
            facts = {"task": self._task, **self._configuration, "group": where}
            known = self._identities[where] = Identity(self._task, self.identity.model, config_id("helm", facts))
        return known

    def label(self, group: str, metric: str) -> str:
        """A statistic with its split, and its perturbation where there is one."""
        return label(group, metric)

    def recorded(self) -> Mapping[str, Recorded]:
        """The aggregates of `stats.json`."""
        return self._recorded

    def missing(self, items: int) -> int | None:
        """How many instances fewer the log holds than HELM counted."""
        counted = [one.value for name, one in self._recorded.items() if name.endswith("|num_instances")]
        return max(int(sum(value or 0 for value in counted)) - items, 0) if counted else None

    def check(self, notes: Notes, rows: int, items: int) -> None:
        """Say which requests failed, which splits and perturbations the run mixes, and what is missing."""
        task = self.identity.task
        if self._failures:
            total, reasons = (
                sum(self._failures.values()),
                ", ".join(f"{n} {what!r}" for what, n in self._failures.most_common(3)),
            )
            scored = (
                f"; {self._scored_failures} of them have scores all the same, which count in the means as they do in "
                "HELM's own; in the records a failed request is an error without a score, and a blocked one is refused"
                if self._scored_failures
                else ""
            )
            notes.say(f"{task}: the requests of {total} instances failed ({reasons}){scored}.")
        if len(self._splits) > 1:
            parts = ", ".join(
                f"{n} {label(where, '').strip('|') or 'without a split'}" for where, n in self._splits.items()
            )
            notes.say(f"{task}: the run mixes {parts}; each has means of its own, as in HELM.")
        if self._statistics.differing:
            names = ", ".join(self._statistics.differing)
            notes.say(f"{task}: {names} stand twice for an instance, with different values; the first counts.")
        if rows and self.missing(items):
            notes.say(f"{task}: HELM counted {items + (self.missing(items) or 0)} instances, the log holds {items}.")
        if not rows:
            notes.say(f"{task}: no instances were logged, so its recorded aggregates stand alone.")


def find_runs(path: Path, notes: Notes) -> list[FolderRun]:
    """Every run folder at or below `path`.

    Raises:
        InputError: none is there, or the one that is there is damaged.
    """
    folders = find_folders(path)
    runs: list[FolderRun] = []
    failures: list[str] = []
    for folder in folders:
        try:
            runs.append(FolderRun(folder))
        except InputError as error:
            failures.append(str(error))
    if not runs:
        raise InputError(failures[0])
    for failure in failures:
        notes.say(f"left out: {failure}")
    return runs
