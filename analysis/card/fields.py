"""The fields of a card by section: what they are called, and how much it matters where one is left open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from safetyrepro.analysis.card.fact import AnyFact, Unverified, held
from safetyrepro.analysis.card.model import Card

Weight = Literal["decisive", "trust", "repeat", "context"]
GROUPS: Final[Mapping[Weight, str]] = {
    "decisive": "These decide what was measured",
    "trust": "Without these nobody can tell that the result was not chosen or changed afterwards",
    "repeat": "Without these nobody can repeat it exactly",
    "context": "Worth knowing",
}
"""Most weighty first."""


@dataclass(frozen=True)
class Field:
    """One field."""

    name: str
    label: str
    weight: Weight
    pinned_by: str | None = None
    """Another field of the same part that says the same more strictly: where that is held, this one is context."""


SECTIONS: Final[Mapping[str, tuple[Field, ...]]] = {
    "models": (
        Field("id", "where to get it", "decisive", "weights_sha256"),
        Field("revision", "revision", "decisive", "weights_sha256"),
        Field("weights_sha256", "weights hash", "decisive"),
        Field("files_sha256", "hashes of its config and tokenizer", "repeat"),
        Field("source_quant", "quantisation of the file", "repeat"),
        Field("quant", "quantisation", "decisive"),
        Field("compute_dtype", "compute dtype", "decisive"),
        Field("numerics", "numerics", "repeat"),
        Field("licence", "licence", "context"),
    ),
    "benchmarks": (
        Field("metric", "metric", "decisive"),
        Field("dataset", "dataset", "decisive"),
        Field("revision", "dataset revision", "decisive", "data_sha256"),
        Field("data_sha256", "dataset hash", "decisive"),
        Field("licence", "dataset licence", "context"),
        Field("items", "number of items", "decisive"),
        Field("item_ids_sha256", "hash of the item ids", "decisive"),
        Field("items_sha256", "hash of the items", "decisive", "data_sha256"),
        Field("templates", "prompt templates", "decisive"),
        Field("template_sha256", "template hashes", "decisive"),
        Field("chat_template", "chat template", "decisive"),
        Field("shots", "worked examples", "decisive"),
        Field("shot_ids", "ids of the worked examples", "decisive"),
        Field("decoding", "decoding", "decisive"),
        Field("seeds", "seeds", "repeat"),
        Field("scoring_path", "scoring path", "decisive"),
        Field("candidates", "candidates", "decisive"),
        Field("normalisation", "normalisation", "decisive"),
        Field("extraction", "extraction rule", "decisive"),
        Field("departures", "settings that a suite did not hold", "decisive"),
    ),
    "suites": (
        Field("version", "version", "decisive"),
        Field("lock_sha256", "lock hash", "repeat"),
        Field("arms", "arms", "decisive"),
    ),
    "run": (
        Field("hardware", "hardware", "repeat"),
        Field("software", "packages", "repeat"),
        Field("code_version", "code version", "repeat"),
        Field("code_commit", "code commit", "repeat", "code_sha256"),
        Field("code_dirty", "changes beside the commit", "repeat", "code_sha256"),
        Field("code_sha256", "hash of the code", "repeat"),
    ),
    "envelope": (
        Field("name", "envelope", "context"),
        Field("cells", "cells planned", "trust"),
        Field("cells_with_results", "cells with results", "trust"),
        Field("tiers", "tiers", "context"),
        Field("seal", "seal", "trust"),
        Field("ledger_head", "ledger head", "trust"),
        Field("as_sealed", "results as sealed", "trust"),
        Field("published", "seal published beforehand", "trust"),
    ),
}
TITLES: Final[Mapping[str, str]] = {
    "models": "Models",
    "benchmarks": "Benchmarks",
    "suites": "Suites",
    "run": "Code and machine",
    "envelope": "Envelope and seal",
}


@dataclass(frozen=True)
class Entry:
    """One field of one part of a card."""

    section: str
    of: str | None
    """The model, benchmark or suite; None in sections that have one part."""
    path: str
    """`models.0.revision`: where it stands in card.json."""
    field: Field
    fact: AnyFact
    weight: Weight
    """How much it would matter, or matters, that this field is open here."""


def entries(card: Card) -> Iterator[Entry]:
    """Every field of a card, in the order of `SECTIONS`."""
    for section, fields in SECTIONS.items():
        parts = getattr(card, section)
        several = isinstance(parts, tuple)
        for number, part in enumerate(parts if several else (parts,)):
            where = f"{section}.{number}" if several else section
            for field in fields:
                fact: AnyFact = getattr(part, field.name)
                yield Entry(
                    section,
                    part.name if several else None,
                    f"{where}.{field.name}",
                    field,
                    fact,
                    _weight(part, field, fact),
                )


def _weight(part: Any, field: Field, fact: AnyFact) -> Weight:
    if field.pinned_by is not None and held(getattr(part, field.pinned_by)):
        return "context"
    if field.name.endswith("sha256") and isinstance(fact, Unverified) and held(fact):
        return "trust"
    return field.weight
