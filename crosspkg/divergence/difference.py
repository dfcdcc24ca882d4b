"""All detectors run over two sides, and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Finding
from safetyrepro.crosspkg.divergence.reading import failing_side
from safetyrepro.crosspkg.divergence.registry import DETECTORS
from safetyrepro.crosspkg.divergence.within import Within, within_sides
from safetyrepro.crosspkg.sides.exchange import Side


@dataclass(frozen=True)
class ClassFound:
    """One class with what it touches."""

    id: str
    items: tuple[str, ...]
    score_changed: int
    """Of these items those whose score differs."""
    accounts_for: int | None
    """Of those the ones whose difference vanishes when this cause alone is undone by re-scoring; None where that cannot
    be done."""
    evidence: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As `diff --json` prints it."""
        return {
            "class": self.id,
            "items": list(self.items),
            "score_changed": self.score_changed,
            "accounts_for": self.accounts_for,
            "evidence": _plain(self.evidence),
        }


@dataclass(frozen=True)
class Suite:
    """The suite behind a side; None is what its log does not hold."""

    name: str | None
    version: str | None

    def __str__(self) -> str:
        """For people."""
        return f"{self.name or 'suite not recorded'}{f' {self.version}' if self.version else ', version not recorded'}"


@dataclass(frozen=True)
class Difference:
    """Two sides compared."""

    a: str
    b: str
    n: int
    """Shared items."""
    scored: int
    """Shared items that hold a score on both sides."""
    score_a: float | None
    """Mean over those, in [0, 1]."""
    score_b: float | None
    changed: tuple[str, ...]
    """Items whose score differs."""
    classes: tuple[ClassFound, ...]
    warnings: tuple[str, ...]
    suites: tuple[Suite, Suite] = (Suite(None, None), Suite(None, None))
    """What wrote each side, as its log states."""
    within: Within | None = None
    """What each side differs from itself; None where neither repeats an item."""

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Items with a difference that no class accounts for."""
        return next((found.items for found in self.classes if found.id == "unexplained"), ())

    @property
    def gap_points(self) -> float | None:
        """Score of A minus score of B, in points of 100."""
        return None if self.score_a is None or self.score_b is None else 100 * (self.score_a - self.score_b)

    def to_json(self) -> dict[str, Any]:
        """As `diff --json` prints it."""
        return {
            "a": self.a,
            "b": self.b,
            "items": self.n,
            "scored": self.scored,
            "score_a": self.score_a,
            "score_b": self.score_b,
            "gap_points": self.gap_points,
            "score_changed": len(self.changed),
            "classes": [found.to_json() for found in self.classes],
            "unexplained": list(self.unexplained),
            "warnings": list(self.warnings),
            "suites": {"a": asdict(self.suites[0]), "b": asdict(self.suites[1])},
            "within": None if self.within is None else self.within.to_json(),
        }


def diff_sides(a: Side, b: Side) -> Difference:
    """Name every cause that tells two sides apart, and what none explains.

    Args:
        a: one side.
        b: the other; a class says of both what it found.
    """
    comparison = Comparison(a, b)
    for detector in DETECTORS:
        for finding in detector.detect(comparison):
            comparison.add(finding)
    scored = comparison.scored
    return Difference(
        a=a.name,
        b=b.name,
        n=len(comparison.items),
        scored=len(scored),
        score_a=_mean(a, scored),
        score_b=_mean(b, scored),
        changed=tuple(item for item in comparison.items if item in comparison.changed),
        classes=tuple(_found(comparison, finding) for finding in comparison.found.values()),
        warnings=(*_other_items(comparison), *a.warnings, *b.warnings, *_alarm(comparison)),
        suites=_suites(comparison),
        within=within_sides(a, b, scored),
    )


def _suites(comparison: Comparison) -> tuple[Suite, Suite]:
    names, versions = comparison.meta("suite"), comparison.meta("suite_version")
    told = [[None if value is None else str(value) for value in pair] for pair in zip(names, versions, strict=True)]
    return Suite(*told[0]), Suite(*told[1])


def _other_items(comparison: Comparison) -> list[str]:
    """Equal ids of two benchmarks are other items, unless the two are names of the same one."""
    named = [(pair.a.meta.get("benchmark"), pair.b.meta.get("benchmark")) for pair in comparison.pairs]
    apart = dict.fromkeys((one, other) for one, other in named if one and other and one != other)
    if not apart:
        return []
    one, other = next(iter(apart))
    return [
        f"The sides name different benchmarks ({comparison.a.name}: {one!r}; {comparison.b.name}: {other!r}). Unless "
        "both are names of the same items, equal ids are other items, and what follows says nothing."
    ]


def _alarm(comparison: Comparison) -> list[str]:
    """A side that read nearly nothing is said so, whatever the cause is called."""
    failing = failing_side(comparison)
    if failing is None:
        return []
    side = comparison.a if failing == "a" else comparison.b
    return [f"{side.name} read next to none of its answers: its score says nothing about them."]


def _plain(value: Any) -> Any:
    """Evidence as JSON that everybody can read: no infinities, no halves of characters, text for all else."""
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, bool | int):
        return value
    return (value if math.isfinite(value) else None) if isinstance(value, float) else str(value)


def _mean(side: Side, items: tuple[str, ...]) -> float | None:
    scores = [score for item in items if (score := side.score(item)) is not None]
    return sum(scores) / len(scores) if scores else None


def _found(comparison: Comparison, finding: Finding) -> ClassFound:
    changed = [item for item in finding.items if item in comparison.changed]
    return ClassFound(
        finding.id, finding.items, len(changed), _accounted(comparison, finding, set(changed)), finding.evidence
    )


def _accounted(comparison: Comparison, finding: Finding, changed: set[str]) -> int | None:
    if finding.undone is None:
        return None
    told: dict[str, bool | None] = {}
    for pair in comparison.pairs:
        if pair.item_id in changed and pair.scores_differ:
            vanished = finding.undone(pair)
            before = told.get(pair.item_id, True)
            told[pair.item_id] = None if vanished is None or before is None else vanished and before
    if told and all(vanished is None for vanished in told.values()):
        return None
    return sum(vanished is True for vanished in told.values())
