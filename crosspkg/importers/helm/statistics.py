"""HELM's statistics: per instance, merged over the metrics that appended them, and the recorded aggregates."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.importers.base import Recorded
from safetyrepro.crosspkg.importers.reading import Advance, iterate_array
from safetyrepro.crosspkg.importers.values import clean, finite, mapping, number, sequence, text_of, whole

NO_SCORES = frozenset(
    {
        "num_references",
        "num_train_trials",
        "num_prompt_tokens",
        "num_completion_tokens",
        "num_output_tokens",
        "training_co2_cost",
        "training_energy_cost",
        "inference_runtime",
        "inference_denoised_runtime",
        "inference_idealized_runtime",
        "inference_runtime_discrepancy",
        "batch_size",
        "finish_reason_length",
        "finish_reason_stop",
        "finish_reason_endoftext",
        "finish_reason_unknown",
        "num_train_instances",
        "prompt_truncated",
        "max_prob",
        "logprob",
        "num_perplexity_tokens",
        "num_bytes",
        "predicted_index",
        "num_instances",
        "num_tokens",
        "estimated_num_tokens_cost",
    }
)
"""What HELM records of a run beside its scores."""
_ON_THE_RUN = frozenset({"", "perturbed"})
"""`computed_on` of statistics over the instances as they were run; the others are worst cases and originals."""
_ABSENT = float("-inf")

InstanceKey = tuple[str, str, int]
"""Instance id, perturbation ("" where there is none), trial."""


def perturbation_of(body: Mapping[str, Any]) -> str:
    """The name of an instance's perturbation, "" where there is none."""
    held = body.get("perturbation")
    return (text_of(held.get("name")) or "perturbed") if isinstance(held, dict) else ""


def group_of(split: Any, sub_split: Any, perturbation: str) -> str:
    """What HELM averages apart: a split, its part, a perturbation."""
    part = f"/{text_of(sub_split)}" if sub_split else ""
    return f"{text_of(split) or ''}{part}|{perturbation}"


def label(group: str, metric: str) -> str:
    """`test|exact_match`, or `test|exact_match|typos` for a perturbation."""
    split, _, perturbation = group.partition("|")
    return "|".join(part for part in (split, metric, perturbation) if part)


class InstanceStatistics:
    """The statistics of all instances; eight bytes for each, whatever the file's size."""

    def __init__(self) -> None:
        self._places: dict[InstanceKey, int] = {}
        self._columns: dict[str, array[float]] = {}
        self._groups: dict[int, str] = {}
        self._counts: dict[tuple[int, str], float] = {}
        self.differing: dict[str, None] = {}
        """Statistics that stand twice for one instance, with different values."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def keys(self) -> tuple[InstanceKey, ...]:
        """The instances, in the file's order."""
        return tuple(self._places)

    def add(self, key: InstanceKey, name: str, value: float, count: float = 1) -> None:
        """One value, the mean of `count`; the first counts where a statistic stands twice."""
        place = self._places.setdefault(key, len(self._places))
        column = self._columns.setdefault(name, array("d"))
        if len(column) <= place:
            column.extend([_ABSENT] * (place + 1 - len(column)))
        if column[place] == _ABSENT:
            column[place] = value
            if count != 1:
                self._counts[place, name] = count
        elif column[place] != value:
            self.differing[name] = None

    def of(self, key: InstanceKey) -> dict[str, float | None]:
        """An instance's statistics."""
        place = self._places.get(key)
        if place is None:
            return {}
        held = ((name, column[place]) for name, column in self._columns.items() if place < len(column))
        return {name: value for name, value in held if value != _ABSENT}

    def weights(self, key: InstanceKey) -> dict[str, float]:
        """How many requests an instance's statistics are means of, where that is not one."""
        place = self._places.get(key)
        if place is None or not self._counts:
            return {}
        return {name: self._counts[place, name] for name in self._columns if (place, name) in self._counts}

    def set_group(self, key: InstanceKey, group: str) -> None:
        """Keep the split that the statistics name, for runs whose instances are not logged."""
        place = self._places.get(key)
        if place is not None:
            self._groups.setdefault(place, group)

    def group(self, key: InstanceKey) -> str:
        """The split that the statistics name."""
        place = self._places.get(key)
        return "|" if place is None else self._groups.get(place, "|")


def read_instance_statistics(path: Path, advance: Advance) -> InstanceStatistics:
    """`per_instance_stats.json`, whose entries HELM appends per metric and instance.

    Raises:
        InputError: it is damaged or no JSON array.
    """
    found = InstanceStatistics()
    for _, entry in iterate_array(path, advance):
        key = (
            text_of(entry.get("instance_id")) or "",
            perturbation_of(entry),
            whole(entry.get("train_trial_index")) or 0,
        )
        for stat in map(mapping, sequence(entry.get("stats"))):
            name = mapping(stat.get("name"))
            value = _mean(stat)
            if name.get("name") and value is not None:
                found.add(key, clean(str(name["name"])), value, finite(stat.get("count")) or 1)
                found.set_group(key, group_of(name.get("split"), name.get("sub_split"), perturbation_of(name)))
    return found


def read_shown_statistics(path: Path, advance: Advance) -> InstanceStatistics:
    """`display_predictions.json`: the statistics that HELM's web pages show, for runs that kept no others.

    Raises:
        InputError: it is damaged or no JSON array.
    """
    found = InstanceStatistics()
    for _, shown in iterate_array(path, advance):
        trial = whole(shown.get("train_trial_index")) or 0
        key = (text_of(shown.get("instance_id")) or "", perturbation_of(shown), trial)
        for name, value in mapping(shown.get("stats")).items():
            mean = number(value)
            if mean is not None:
                found.add(key, clean(name), mean)
    return found


def read_recorded(path: Path) -> dict[str, Recorded]:
    """`stats.json`: the recorded aggregates by `split|metric`, worst cases over perturbations left out.

    Raises:
        InputError: it is damaged or no JSON array.
    """
    found: dict[str, Recorded] = {}
    for _, stat in iterate_array(path):
        name = mapping(stat.get("name"))
        computed_on = text_of(mapping(name.get("perturbation")).get("computed_on")) or ""
        # A statistic by a name alone, as other programs write it, has no split.
        metric = text_of(name.get("name")) if name else text_of(stat.get("name"))
        value = _mean(stat)
        if metric is None or value is None or computed_on not in _ON_THE_RUN:
            continue
        key = label(group_of(name.get("split"), name.get("sub_split"), perturbation_of(name)), metric)
        found.setdefault(key, Recorded(finite(value)))
    return found


def _mean(stat: Mapping[str, Any]) -> float | None:
    """A statistic's mean; None where it has none, which HELM writes as a count of 0."""
    mean = number(stat.get("mean"))
    if mean is not None:
        return mean
    count, total = finite(stat.get("count")), number(stat.get("sum"))
    return total / count if count and total is not None else None
