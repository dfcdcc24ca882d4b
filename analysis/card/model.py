"""The GRID card as data; its JSON Schema is made from these models.

Hashes are SHA-256 in lower-case hex. Scores are in [0, 1], spreads in points of 100.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from safetyrepro.analysis.card.fact import Counts, Fact, Part, Reason, Sha256, Texts

FORMAT: Final = "safetyrepro-grid-card-1"
FEWEST_DRAWS: Final = 9_999
MOST_DRAWS: Final = 1_000_000
Kind = Literal["envelope", "anchor", "import"]


class ModelCard(Part):
    """One model as it was run."""

    name: str
    """As records and results call it."""
    id: Fact[str]
    """Where anybody gets it: an entry of the catalogue, or a hub id."""
    revision: Fact[str]
    """Commit, or the package's release."""
    weights_sha256: Fact[Sha256]
    files_sha256: Fact[dict[str, Sha256]]
    """By name: config, tokenizer and chat template, where they are files of their own."""
    source_quant: Fact[str]
    """Quantisation that the weights' file already carried."""
    quant: Fact[str]
    compute_dtype: Fact[str]
    numerics: Fact[dict[str, str]]
    """Further choices that decide the last digits: kernels, batch shape, threads, libraries."""
    licence: Fact[str]


class Shots(Part):
    """Worked examples of some configurations."""

    count: int = Field(ge=0)
    ids: tuple[str, ...]


class DecodingCard(Part):
    """How text was generated; null is what a log does not say."""

    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop: tuple[str, ...] | None


class Departure(Part):
    """A setting that a suite did not hold as the config asked."""

    suite: str
    arm: str
    setting: str
    asked: str
    got: str


class Configuration(Part):
    """One configuration: an id, and its levels."""

    config_id: str
    axes: dict[str, str]
    tiers: tuple[str, ...]


class Scores(Part):
    """One model's results over the configurations of a benchmark."""

    model: str
    cells: int
    """Configurations with a score."""
    lowest: float | None
    median: float | None
    highest: float | None
    at_chance: int
    """Cells whose interval holds the score of a guess."""
    single_draws: int
    """Cells that sampled, or drew worked examples, once."""


class BenchmarkCard(Part):
    """One benchmark as it was asked and scored."""

    name: str
    metric: Fact[str]
    dataset: Fact[str]
    revision: Fact[str]
    data_sha256: Fact[Sha256]
    licence: Fact[str]
    items: Fact[int]
    item_ids_sha256: Fact[Sha256]
    """Of the canonical JSON of the sorted item ids."""
    items_sha256: Fact[Sha256]
    """Of the canonical JSON of the sorted pairs of item id and SHA-256 of the item's content."""
    templates: Fact[Texts]
    template_sha256: Fact[dict[str, Sha256]]
    """Of each template's file, by template."""
    chat_template: Fact[Texts]
    shots: Fact[Counts]
    shot_ids: Fact[tuple[Shots, ...]]
    decoding: Fact[tuple[DecodingCard, ...]]
    seeds: Fact[dict[str, Counts]]
    """Of the draw of items, of worked examples, of generation."""
    scoring_path: Fact[Texts]
    candidates: Fact[Texts]
    normalisation: Fact[Texts]
    extraction: Fact[Texts]
    departures: Fact[tuple[Departure, ...]]
    statuses: dict[str, int]
    """Rows by status."""
    configurations: tuple[Configuration, ...]
    results: tuple[Scores, ...]


class SuiteCard(Part):
    """One suite that ran or scored."""

    name: str
    version: Fact[str]
    lock_sha256: Fact[Sha256]
    arms: Fact[Texts]


class RunCard(Part):
    """What ran it."""

    hardware: Fact[tuple[dict[str, str], ...]]
    software: Fact[dict[str, str]]
    code_version: Fact[str]
    code_commit: Fact[str]
    code_dirty: Fact[bool]
    """Whether tracked files differed from the commit."""
    code_sha256: Fact[Sha256]
    """Over the source files that decide a result."""


class EnvelopeCard(Part):
    """The grid that was promised, and what shows that it was kept."""

    name: Fact[str]
    cells: Fact[int]
    """Planned."""
    cells_with_results: Fact[int]
    tiers: Fact[dict[str, int]]
    """Cells by tier."""
    seal: Fact[Sha256]
    ledger_head: Fact[Sha256]
    as_sealed: Fact[bool]
    """Whether the results are what the seal promised."""
    published: Fact[str]
    """What shows that the seal stood before the results were known."""


class PairCard(Part):
    """Two models of a benchmark over its configurations; see docs/grid.md."""

    a: str
    b: str
    n_configs: int
    n_plus: int
    """Configurations in which the point score of `a` is higher."""
    n_minus: int
    rho_flip: float | None
    rho_flip_bounds: tuple[float, float] | None
    certified: dict[str, int] | None
    certified_reversal: bool | None
    reversal_p: float | None
    testable: bool


class BenchmarkStability(Part):
    """Whether a benchmark's ranking survives its configurations."""

    benchmark: str
    verdict: Literal["certified reversal", "no certified reversal", "not testable"]
    reason: str | None
    """Why it is not testable."""
    sentence: Reason
    """One that a paper could quote."""
    n_configurations: int
    n_items: int | None
    rho_flip_max: float | None
    equal_models_q95: float | None
    """rho_flip that equal models would show at most in 95% of draws."""
    pairs: tuple[PairCard, ...]


class SuiteSpread(Part):
    """How far the suites' scores of one model are apart in one arm."""

    benchmark: str
    config_id: str
    model: str
    arm: str
    scores: dict[str, float]
    items: int
    spread_points: float | None
    null_q95_points: float | None
    """What equal suites would show at most in 95% of draws."""
    p: float | None
    verdict: Literal["suites differ", "not told apart", "not testable"]
    sentence: Reason


class Stability(Part):
    """The stability results and what they were computed with."""

    tier: str
    draws: int = Field(ge=FEWEST_DRAWS, le=MOST_DRAWS)
    seed: int = Field(ge=0)
    benchmarks: tuple[BenchmarkStability, ...]
    suites: tuple[SuiteSpread, ...]


class Card(Part):
    """A GRID card."""

    format: Literal["safetyrepro-grid-card-1"]
    kind: Kind
    """What it was written from: a sealed run, an anchor run, imported logs of a third party."""
    written_by: str
    models: tuple[ModelCard, ...] = Field(min_length=1)
    benchmarks: tuple[BenchmarkCard, ...] = Field(min_length=1)
    suites: tuple[SuiteCard, ...] = Field(min_length=1)
    run: RunCard
    envelope: EnvelopeCard
    stability: Stability


def schema() -> dict[str, Any]:
    """The card's JSON Schema (draft 2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Card.model_json_schema()}
