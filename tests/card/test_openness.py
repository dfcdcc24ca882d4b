"""The rules of what is open and how much it matters, and of what differs; no run behind them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from safetyrepro.analysis.card.difference import differences
from safetyrepro.analysis.card.fact import not_applicable, not_disclosed, unverified
from safetyrepro.analysis.card.fields import SECTIONS, entries
from safetyrepro.analysis.card.model import Card
from safetyrepro.analysis.card.openness import counts, gaps


def with_field(card: Card, section: str, name: str, fact: Any) -> Card:
    part = getattr(card, section)
    if isinstance(part, tuple):
        return card.model_copy(update={section: tuple(one.model_copy(update={name: fact}) for one in part)})
    return card.model_copy(update={section: part.model_copy(update={name: fact})})


def test_every_field_of_a_card_has_a_weight(sealed_card: Card) -> None:
    """A field that has a state and stands in no list would never be counted as open."""
    body = json.loads(sealed_card.model_dump_json())
    for section, fields in SECTIONS.items():
        part = body[section][0] if isinstance(body[section], list) else body[section]
        stated = {name for name, value in part.items() if isinstance(value, dict) and "state" in value}
        assert stated == {field.name for field in fields}


@pytest.mark.parametrize(
    ("section", "name", "weight"),
    [
        ("models", "weights_sha256", "decisive"),
        ("models", "revision", "context"),
        ("models", "licence", "context"),
        ("benchmarks", "templates", "decisive"),
        ("benchmarks", "seeds", "repeat"),
        ("suites", "version", "decisive"),
        ("run", "hardware", "repeat"),
        ("envelope", "seal", "trust"),
    ],
)
def test_an_open_field_counts_by_its_weight(sealed_card: Card, section: str, name: str, weight: str) -> None:
    before = counts(gaps(with_field(sealed_card, section, name, not_applicable("none"))))
    after = counts(gaps(with_field(sealed_card, section, name, not_disclosed("nobody said"))))
    parts = len(getattr(sealed_card, section)) if section in ("models", "benchmarks", "suites") else 1
    assert after["open"] - before["open"] == parts
    # A revision is pinned by the weights' hash, which this card holds; without a hash it is decisive.
    assert after[weight] - before[weight] == parts


def test_a_revision_is_decisive_where_no_hash_pins_it(sealed_card: Card) -> None:
    bare = with_field(sealed_card, "models", "weights_sha256", not_disclosed("nobody hashed it"))
    found = {gap.label: gap.weight for gap in gaps(with_field(bare, "models", "revision", not_disclosed("nobody")))}
    assert found["revision"] == found["weights hash"] == "decisive"
    unresolved = with_field(sealed_card, "models", "weights_sha256", unverified(None, "marked unverified"))
    found = {
        gap.label: gap.weight for gap in gaps(with_field(unresolved, "models", "revision", not_disclosed("nobody")))
    }
    assert found["revision"] == found["weights hash"] == "decisive"


def test_a_hash_that_nothing_confirms_is_a_matter_of_trust(sealed_card: Card) -> None:
    (gap,) = [gap for gap in gaps(sealed_card) if gap.label == "weights hash"]
    assert (gap.weight, gap.state, gap.of) == ("trust", "unverified", ("tiny-0", "tiny-1"))
    assert gap.paths == ("models.0.weights_sha256", "models.1.weights_sha256")


def test_the_weightiest_stand_first(anchor_card: Card) -> None:
    order = ["decisive", "trust", "repeat", "context"]
    places = [order.index(gap.weight) for gap in gaps(anchor_card)]
    assert places == sorted(places)
    assert len(set(places)) > 1


def test_paths_lead_to_the_field(sealed_card: Card) -> None:
    body = json.loads(sealed_card.model_dump_json())
    for entry in entries(sealed_card):
        found = body
        for step in entry.path.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
        assert found["state"] == entry.fact.state


def test_a_card_does_not_differ_from_itself_whoever_wrote_it(sealed_card: Card) -> None:
    assert differences(sealed_card, sealed_card.model_copy(update={"written_by": "safetyrepro 9"})) == ()


def test_rounding_is_no_difference_and_a_value_is(sealed_card: Card) -> None:
    def moved(by: float) -> Card:
        first, *others = sealed_card.stability.benchmarks
        first = first.model_copy(update={"rho_flip_max": (first.rho_flip_max or 0.0) + by})
        return sealed_card.model_copy(
            update={"stability": sealed_card.stability.model_copy(update={"benchmarks": (first, *others)})}
        )

    assert differences(moved(1e-6), moved(0.0)) == ()
    (found,) = differences(moved(0.01), moved(0.0))
    assert found.path == "stability.benchmarks.0.rho_flip_max"


def test_a_list_of_another_length_is_a_difference(sealed_card: Card) -> None:
    fewer = sealed_card.model_copy(update={"models": sealed_card.models[:1]})
    assert [one.path for one in differences(fewer, sealed_card)] == ["models"]
