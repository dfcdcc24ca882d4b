"""What an importer gives: runs found below a path, each a stream of rows and what the log itself recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from safetyrepro.config import canonical_sha256
from safetyrepro.crosspkg.importers.reading import Advance
from safetyrepro.crosspkg.importers.values import clean, one_line, text_of


@dataclass(frozen=True)
class Row:
    """One row of a log: what its record will hold, and every score of it."""

    facts: dict[str, Any]
    """Fields of the record, as `unscored` gives them: without metric and score, which depend on the metric chosen."""
    values: Mapping[str, float | None]
    """Score by the metric's name; None where the log holds something that is no number."""
    group: str = ""
    """What sets this row's scores apart from others of the same metric: a filter, a split, a perturbation."""
    failure: str | None = None
    """Why the item has no proper answer, such as a failed request; its status is in the record."""
    requests: int = 1
    """Rows of the log that this one was made from."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How much a score counts in the suite's own mean, where that is not 1."""


@dataclass(frozen=True)
class Recorded:
    """An aggregate as the log holds it."""

    value: float | None
    """None where it is not finite."""
    why_not_mean: str | None = None
    """Why it need not be the mean of the rows, where the log tells: another aggregation, another reduction."""
    more: Mapping[str, float] = field(default_factory=dict)
    """Further aggregates of the same metric, such as its standard error."""


@dataclass
class Notes:
    """What a reader should know of an import, each thing once."""

    warnings: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a warning unless it stands there."""
        text = one_line(text)
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass(frozen=True)
class Identity:
    """What a run is a run of; two runs with the same identity are runs of the same thing."""

    task: str
    model: str | None
    config_id: str

    def __post_init__(self) -> None:
        """A name of a file may hold what no text file can."""
        object.__setattr__(self, "task", clean(self.task))
        object.__setattr__(self, "model", None if self.model is None else clean(self.model))


class Run(Protocol):
    """One task of one model in one log, its rows unread so far."""

    source: Path
    identity: Identity
    suite_version: str | None
    when: str
    """Sorts runs of one identity by time."""
    size: int
    """Bytes that reading it takes in, for the progress bar."""
    headline: Sequence[str]
    """Metrics to take for a record's score, best first; others follow in the log's order."""
    passed_over: frozenset[str]
    """Statistics that are no score, such as a count of tokens: never taken for a record's score."""
    disclosed: Mapping[str, Any]
    """What the log says of itself besides its rows, by the names that `disclosed.said` lists."""

    def rows(self, notes: Notes, advance: Advance) -> Iterator[Row]:
        """The rows, in the log's order."""
        ...

    def label(self, group: str, metric: str) -> str:
        """The name that a metric of a group has in the summary."""
        ...

    def recorded(self) -> Mapping[str, Recorded]:
        """The log's own aggregates by that name; complete once the rows have been read."""
        ...

    def missing(self, items: int) -> int | None:
        """How many of the items that were run the log lacks when it holds `items`; None where it does not say."""
        ...

    def check(self, notes: Notes, rows: int, items: int) -> None:
        """Say what is odd about the run as a whole, once its rows have been read."""
        ...


def config_id(suite: str, facts: Mapping[str, Any]) -> str:
    """An id of what a log says about its configuration, apart from the model: SHA-256 of its canonical JSON."""
    return canonical_sha256({"imported_from": suite, **{key: text_of(value) for key, value in facts.items()}})


def unscored(
    run_id: str,
    suite: str,
    suite_version: str | None,
    identity: Identity,
    item_id: str,
    *,
    repeat: int = 0,
    **known: Any,
) -> dict[str, Any]:
    """The fields of a row's record, without a score; whatever is not `known` is null.

    Args:
        run_id: The log's own id of the run, or its file's name.
        suite: Which suite wrote it.
        suite_version: As the log has it.
        identity: Task, model and configuration.
        item_id: The item.
        repeat: Which run over the item.
        known: Further fields of a record that the log holds.
    """
    return {
        "run_id": clean(run_id),
        "suite": suite,
        "suite_version": suite_version,
        "model": identity.model,
        "benchmark": identity.task,
        "config_id": identity.config_id,
        "cell_id": _cell_id(identity.config_id, identity.model, suite),
        "item_id": item_id,
        "repeat": repeat,
        "arm": None,
        "model_sha256": None,
        "numerics": None,
        "cluster": item_id,
        "metric": "",
        "template": None,
        "decoding": None,
        "shots": None,
        "scoring": None,
        "prompt": None,
        "prompt_sha256": None,
        "n_prompt_tokens": None,
        "wire_ids": (),
        "candidates": (),
        "response": None,
        "finish_reason": None,
        "extracted": None,
        "extracted_other": None,
        "gold": (),
        "choice": None,
        "score": None,
        "suite_score": None,
        "status": "ok",
        "reason": None,
        "extra": {},
        **known,
    }


@lru_cache(maxsize=1024)
def _cell_id(configuration: str, model: str | None, suite: str) -> str:
    return canonical_sha256({"config": configuration, "model": model, "suite": suite})


def decoding_label(temperature: float | None) -> str | None:
    """The decoding axis of a record: `greedy`, `T=0.3`, or None where the log does not hold the temperature."""
    if temperature is None:
        return None
    return "greedy" if temperature == 0 else f"T={temperature:g}"
