"""What a card leaves open, by how much it matters."""

from __future__ import annotations

from dataclasses import dataclass

from safetyrepro.analysis.card.fact import NotDisclosed, Unverified
from safetyrepro.analysis.card.fields import GROUPS, Entry, Weight, entries
from safetyrepro.analysis.card.model import Card


@dataclass(frozen=True)
class Gap:
    """The same field left open for the same reason, in one part of the card or in several."""

    label: str
    section: str
    paths: tuple[str, ...]
    of: tuple[str, ...]
    """The models, benchmarks or suites."""
    weight: Weight
    state: str
    reason: str


def gaps(card: Card) -> tuple[Gap, ...]:
    """What a card leaves open: the weightiest first, alike ones together.

    A field that another one of the same part pins more strictly (a revision where the weights' hash is held) counts as
    context; a hash that is there and that nothing given beforehand confirms counts as a matter of trust.
    """
    groups: dict[tuple[str, str, Weight, str, str], list[Entry]] = {}
    for entry in entries(card):
        if isinstance(entry.fact, (NotDisclosed, Unverified)):
            key = (entry.section, entry.field.label, entry.weight, entry.fact.state, entry.fact.reason)
            groups.setdefault(key, []).append(entry)
    found = [
        Gap(
            label,
            section,
            tuple(one.path for one in alike),
            tuple(one.of for one in alike if one.of is not None),
            weight,
            state,
            reason,
        )
        for (section, label, weight, state, reason), alike in groups.items()
    ]
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda gap: order.index(gap.weight)))


def counts(found: tuple[Gap, ...]) -> dict[str, int]:
    """Fields left open: all of them under `open`, and by weight."""
    by_weight: dict[str, int] = {name: sum(len(gap.paths) for gap in found if gap.weight == name) for name in GROUPS}
    return {"open": sum(by_weight.values())} | by_weight
