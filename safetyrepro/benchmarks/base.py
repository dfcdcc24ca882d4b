"""What every benchmark file provides, and the item that all suites are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from safetyrepro.analysis.aggregate import Aggregate
    from safetyrepro.config import BenchmarkSpec, Config

Status = Literal["ok", "unparsed", "refused", "truncated", "error", "missing", "undefined"]


@dataclass(frozen=True)
class Item:
    """One question of a benchmark, in the benchmark's own words."""

    item_id: str
    cluster: str
    """Items of one cluster are near copies; every interval resamples whole clusters."""
    question: str
    context: str
    """Passage before the question; empty where the benchmark has none."""
    options: tuple[str, ...]
    """Options as listed to a model, in the order in which letters are given."""
    gold: tuple[int, ...]
    """Indices into `options` of the right ones."""
    category: str
    row: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    """The official row as read, for suites that want their own schema."""
    options_by_metric: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = field(
        default_factory=dict, repr=False, hash=False, compare=False
    )
    """Other option lists with their gold, where a metric has its own (TruthfulQA `mc2`)."""

    def scored(self, metric: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Options and gold indices that `metric` scores."""
        return self.options_by_metric.get(metric, (self.options, self.gold))


@dataclass(frozen=True)
class Data:
    """A benchmark's items with where they came from."""

    benchmark: str
    source: str
    revision: str | None
    sha256: str
    verified: bool
    """Whether `sha256` was given beforehand and agreed."""
    licence: str
    items: tuple[Item, ...]
    pool: tuple[Item, ...]
    """Items reserved for shots (and for a suite's training split); disjoint from `items`."""
    shots: tuple[Item, ...]
    """The shots of the config, out of `pool`."""


@dataclass(frozen=True)
class ExtractionRule:
    """How a letter is read from text: a regular expression whose first group is the letter."""

    name: Literal["strict", "lenient"]
    pattern: str
    """Python `re` syntax, searched in the whole text; group 1 is the letter."""
    take: Literal["first", "last"]


@dataclass(frozen=True)
class ResponseClass:
    """One class of responses."""

    label: str
    pattern: str
    """Python `re` syntax, searched in the whole text."""
    option: int
    """Index of the option that a response of this class has chosen."""


@dataclass(frozen=True)
class ClassRule:
    """How a response is put in a class: the first one whose pattern is found in it."""

    name: Literal["strict", "lenient"]
    classes: tuple[ResponseClass, ...]

    def as_rows(self) -> list[tuple[str, str, int]]:
        """Label, pattern and option of each class, in order: as JSON for a suite's runner."""
        return [(response.label, response.pattern, response.option) for response in self.classes]


Rule = ExtractionRule | ClassRule


@dataclass(frozen=True)
class Extraction:
    """What a rule read."""

    letter: str | None
    status: Status


@dataclass(frozen=True)
class Score:
    """An item's score in [0, 1] (None where it is not defined), with its status and reason."""

    value: float | None
    status: Status
    reason: str | None = None
    choice: int | None = None
    """Index of the chosen option among the scored ones."""


class Benchmark(Protocol):
    """One file a benchmark: paper, source, licence, item schema, gold rule, quirks."""

    name: str
    title: str
    paper: str
    licence: str
    metrics: tuple[str, ...]
    higher_is_better: bool
    aggregate: Aggregate
    """How item scores make a cell's score."""
    usual_path: str
    """File or folder of the official data, relative to the data folder."""
    hub_repository: str | None
    """The hub data set that `source: hub` reads; None where there is none to read."""
    rules: Mapping[str, Rule]
    """Rules for generated text, by name; empty where nothing is generated."""

    def provenance(self, spec: BenchmarkSpec) -> str:
        """What `source: file` reads under this spec, for people; names no path of one machine."""
        ...

    def load(self, spec: BenchmarkSpec, data_dir: Path | None) -> tuple[tuple[Item, ...], str]:
        """All items in canonical order, and the SHA-256 of the data as read."""
        ...

    def templates(self) -> tuple[str, ...]:
        """Names of the prompt templates."""
        ...

    def prompt(self, item: Item, shots: Sequence[Item], config: Config) -> str:
        """The canonical user text, up to where the answer starts (no trailing whitespace)."""
        ...

    def answer(self, item: Item, config: Config) -> str:
        """The right answer as a shot shows it, without delimiter."""
        ...

    def candidates(self, item: Item, config: Config) -> tuple[str, ...]:
        """What is scored by likelihood, in option order, without the delimiter."""
        ...

    def readings(self, item: Item) -> tuple[str, ...]:
        """What a rule reads from generated text that is right: letters, or labels of classes."""
        ...

    def chance(self, item: Item, config: Config) -> float:
        """Expected score of a guess, in [0, 1]."""
        ...

    def score_logprobs(
        self, item: Item, config: Config, logprobs: Sequence[float | None], divisors: Sequence[float]
    ) -> Score:
        """Score from the candidates' summed logprobs (nats) and what each is divided by."""
        ...

    def score_text(self, item: Item, config: Config, text: str, finish_reason: str | None) -> tuple[Score, str | None]:
        """Score from generated text under the config's rule, and what it read."""
        ...
