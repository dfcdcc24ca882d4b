"""The plan as a document: what `envelope seal` hashes, and everybody who reads a sealed folder starts from."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import rfc8785

from safetyrepro.config import Strict
from safetyrepro.envelope.grid import Envelope
from safetyrepro.facts import CodeFacts

FORMAT: Final = "safetyrepro-envelope-plan-1"


class ModelFacts(Strict):
    """One model's files."""

    name: str
    id: str
    key: str
    """`model_key`: model and numerics."""
    weights_sha256: str | None
    """None where nobody has resolved it, and its spec says so."""
    verified: bool
    """Whether a hash was given beforehand and agreed."""
    source_quant: str | None
    files: dict[str, str]
    """SHA-256 by name of its config's and tokenizer's files, where they are files of their own."""


class ItemFacts(Strict):
    """One item."""

    id: str
    sha256: str


class BenchmarkFacts(Strict):
    """One benchmark's items."""

    name: str
    source: str
    revision: str | None
    sha256: str | None
    """Of the data as read; None where nobody has resolved it, and its spec says so."""
    verified: bool
    items: tuple[ItemFacts, ...]
    pool: tuple[ItemFacts, ...]
    """Items reserved for worked examples."""


class CellFacts(Strict):
    """One cell of a shard."""

    cell_id: str
    config_id: str
    axes: dict[str, str]
    tiers: tuple[str, ...]
    rows: int
    """Items times repeats."""
    repeats: int


class ShardFacts(Strict):
    """Cells of one model that share their prompts' beginnings, answered together."""

    name: str
    """A file name without ending."""
    model: str
    benchmark: str
    template: str
    shots: tuple[str, ...]
    """Ids of the worked examples, in order."""
    cells: tuple[CellFacts, ...]


class Unverified(Strict):
    """Something that is sealed without its hash, or with one that nobody gave beforehand."""

    what: str
    reason: str


class Plan(Strict):
    """Everything that a run is held to."""

    format: Literal["safetyrepro-envelope-plan-1"] = FORMAT
    envelope: Envelope
    code: CodeFacts
    packages: dict[str, str]
    locks: dict[str, str]
    """SHA-256 of every suite's lock files."""
    tiers_sha256: str
    models: tuple[ModelFacts, ...]
    benchmarks: tuple[BenchmarkFacts, ...]
    templates: dict[str, str]
    """SHA-256 by `benchmark/template`."""
    configs: dict[str, dict[str, Any]]
    """What each `config_id` is the hash of."""
    shards: tuple[ShardFacts, ...]
    """In the order in which the ledger must hold them."""
    unverified: tuple[Unverified, ...]

    def canonical(self) -> bytes:
        """RFC 8785 canonical JSON."""
        return rfc8785.dumps(self.model_dump(mode="json"))

    def seal(self) -> str:
        """SHA-256 (hex) of the canonical JSON."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def model(self, name: str) -> ModelFacts:
        """The model called `name`."""
        return next(model for model in self.models if model.name == name)

    def benchmark(self, name: str) -> BenchmarkFacts:
        """The benchmark called `name`."""
        return next(one for one in self.benchmarks if one.name == name)
