"""What a reader of a run's folder gives: everything of a card that depends on the kind of run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safetyrepro.analysis.card.model import (
        BenchmarkCard,
        BenchmarkStability,
        EnvelopeCard,
        ModelCard,
        RunCard,
        SuiteCard,
        SuiteSpread,
    )


@dataclass(frozen=True)
class Parts:
    """A card without its head."""

    models: tuple[ModelCard, ...]
    benchmarks: tuple[BenchmarkCard, ...]
    suites: tuple[SuiteCard, ...]
    run: RunCard
    envelope: EnvelopeCard
    stability: tuple[BenchmarkStability, ...]
    spreads: tuple[SuiteSpread, ...]
