"""Several updates: does any signal win everywhere?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from safetyrepro.analysis.flips.added_value import Population, PopulationStudy, study_population
from safetyrepro.analysis.flips.signals import SignalTable


@dataclass(frozen=True)
class UpdateStudy:
    """The signals of one task under one update, in both populations."""

    update: str
    task: str
    items: int
    flips: int
    old_correct: PopulationStudy
    label_free: PopulationStudy

    def population(self, name: Population) -> PopulationStudy:
        """One of the two populations."""
        return self.old_correct if name == "old_correct" else self.label_free


@dataclass(frozen=True)
class SignalRecord:
    """How one signal fared over all tasks and updates."""

    signal: str
    compared: int
    """Tasks and updates with enough flips in which it was defined."""
    adds: int
    best: int
    """In how many of them its added value is the largest of those shown."""
    smallest: float | None
    """Smallest and largest added AUROC among them."""
    largest: float | None


@dataclass(frozen=True)
class Summary:
    """Signals over several updates, in one population."""

    population: Population
    updates: int
    comparable: int
    """Tasks and updates with enough flips to compare signals."""
    signals: tuple[SignalRecord, ...]
    everywhere: tuple[str, ...]
    """Signals shown to add value in every comparable one, at least two."""


def study_update(table: SignalTable) -> UpdateStudy:
    """Standalone and added value of every signal of one task and update."""
    return UpdateStudy(
        table.update,
        table.task,
        len(table.items),
        int(table.negative.sum()),
        study_population(table, "old_correct"),
        study_population(table, "label_free"),
    )


def summarise(studies: Sequence[UpdateStudy], population: Population) -> Summary:
    """Count where each signal adds value, over the tasks and updates that have enough flips to say.

    A signal wins everywhere only if it is shown to add value in every one of them; one comparison is no "everywhere".
    """
    comparable = [study.population(population) for study in studies if study.population(population).reason is None]
    names = sorted({row.signal for study in studies for row in study.population(population).signals})
    records = []
    for name in names:
        rows = [
            (part, row)
            for part in comparable
            for row in part.signals
            if row.signal == name and row.verdict in ("adds value", "no added value shown")
        ]
        gains = [row.added.mean for _, row in rows if row.added.mean is not None]
        if not gains:
            continue
        records.append(
            SignalRecord(
                name,
                len(rows),
                sum(row.verdict == "adds value" for _, row in rows),
                sum(bool(part.adding) and part.adding[0] == name for part, _ in rows),
                min(gains),
                max(gains),
            )
        )
    total = len(comparable)
    everywhere = tuple(row.signal for row in records if row.compared == row.adds == total and total >= 2)
    order = sorted(records, key=lambda row: (-row.adds, -row.best, row.signal))
    return Summary(population, len(studies), total, tuple(order), everywhere)
