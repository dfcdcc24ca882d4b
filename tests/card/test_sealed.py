"""The card of a sealed run: every field as the plan, the ledger and the records have it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from safetyrepro.analysis.card.fact import Given, NotDisclosed, Unverified
from safetyrepro.analysis.card.model import Card
from safetyrepro.analysis.card.openness import counts, gaps
from safetyrepro.config import UNVERIFIED
from safetyrepro.envelope.run import run_sealed
from safetyrepro.errors import InputError
from safetyrepro.stability.result import grid_result
from safetyrepro.stability.source import benchmark_grids, read_scores
from safetyrepro.stability.tierfile import tiers
from tests.card.conftest import HOW, Run, card_of
from tests.envelope.conftest import Ran
from tests.envelope.grids import BBQ, QUIET, body, envelope, seal


def test_the_seal_and_the_ledgers_head_are_those_of_the_run(sealed_card: Card, ran: Ran) -> None:
    assert sealed_card.envelope.seal.value == hashlib.sha256((ran.folder / "plan.json").read_bytes()).hexdigest()
    last = (ran.folder / "ledger.jsonl").read_bytes().splitlines()[-1]
    assert sealed_card.envelope.ledger_head.value == json.loads(last)["hash"] == ran.finished.head
    assert sealed_card.envelope.as_sealed.value is True
    assert sealed_card.envelope.cells.value == sealed_card.envelope.cells_with_results.value == 2 * (12 + 4)
    assert sealed_card.envelope.tiers.value["full"] == 32


def test_hashes_can_be_computed_again_from_the_plan(sealed_card: Card, ran: Ran) -> None:
    plan = json.loads((ran.folder / "plan.json").read_bytes())
    for one, facts in zip(sealed_card.benchmarks, plan["benchmarks"], strict=True):
        pairs = sorted([item["id"], item["sha256"]] for item in facts["items"])
        text = json.dumps(pairs, separators=(",", ":"))
        assert one.items_sha256.value == hashlib.sha256(text.encode()).hexdigest()
        ids = json.dumps([item for item, _ in pairs], separators=(",", ":"))
        assert one.item_ids_sha256.value == hashlib.sha256(ids.encode()).hexdigest()
        assert one.items.value == 2
        assert one.data_sha256.value == facts["sha256"]
        assert one.template_sha256.value == {
            key.split("/")[1]: sha256 for key, sha256 in plan["templates"].items() if key.startswith(f"{one.name}/")
        }


def test_what_was_asked_stands_by_level(sealed_card: Card) -> None:
    bbq, crows = sealed_card.benchmarks
    assert bbq.templates.value == ("minimal", "chain_of_thought")
    assert bbq.shots.value == (0, 1)
    assert [(one.count, len(one.ids)) for one in bbq.shot_ids.value] == [(0, 0), (1, 1)]
    assert [one.temperature for one in bbq.decoding.value] == [0.0, 0.7]
    assert (bbq.scoring_path.value, bbq.candidates.value) == (("free", "logprob"), ("letter",))
    assert (bbq.extraction.value, bbq.metric.value) == (("lenient",), "accuracy")
    assert crows.decoding.state == crows.extraction.state == "not applicable"
    assert (crows.candidates.value, crows.metric.value) == (("text",), "parity")
    assert len(bbq.configurations) == 12
    assert all("full" in one.tiers for one in bbq.configurations)
    model = sealed_card.models[0]
    assert (model.quant.value, model.compute_dtype.value, model.numerics.value["mode"]) == ("none", "float32", "shared")


def test_what_nobody_gave_beforehand_is_unverified_with_the_plans_reason(sealed_card: Card) -> None:
    model = sealed_card.models[0]
    assert isinstance(model.weights_sha256, Unverified)
    assert len(model.weights_sha256.value) == 64
    assert model.weights_sha256.reason == "read from the file; no hash was given beforehand"
    assert isinstance(model.id, NotDisclosed)
    assert isinstance(sealed_card.envelope.published, NotDisclosed)
    assert counts(gaps(sealed_card))["decisive"] == 0


def test_no_path_of_the_machine_is_on_the_card(sealed_card: Card, models: tuple[Path, ...]) -> None:
    assert str(models[0].parent) not in sealed_card.model_dump_json()


def test_the_stability_results_are_those_of_grid(sealed_card: Card, ran: Ran) -> None:
    from safetyrepro.analysis.benchmark import Settings

    settings = Settings(draws=HOW.draws, seed=HOW.seed)
    expected = grid_result(benchmark_grids(read_scores(ran.folder)), tiers(), "full", settings, QUIET)["benchmarks"]
    assert [one.benchmark for one in sealed_card.stability.benchmarks] == list(expected)
    for one in sealed_card.stability.benchmarks:
        assert one.sentence == expected[one.benchmark]["sentence"]
        pair = expected[one.benchmark]["pairs"][0]
        assert (one.pairs[0].n_plus, one.pairs[0].n_minus) == (pair["n_plus"], pair["n_minus"])
        assert one.rho_flip_max == pytest.approx(expected[one.benchmark]["rho_flip_max"], abs=1e-6)
        # Two items a benchmark: nothing can be certified, and it says so.
        assert (one.verdict, one.reason) == ("not testable", "too few items on which the models differ")


def test_a_changed_row_is_on_the_card(sealed_copy: Path) -> None:
    ledger = sealed_copy / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]))
    card = card_of(sealed_copy)
    assert isinstance(card.envelope.as_sealed, Unverified)
    assert card.envelope.as_sealed.value is False
    assert "has no line in the ledger" in card.envelope.as_sealed.reason
    assert "results as sealed" in [gap.label for gap in gaps(card) if gap.weight == "trust"]


def test_a_plan_that_is_not_its_seals_gets_no_card(sealed_copy: Path, run: Run) -> None:
    plan = sealed_copy / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"bbq"', b'"bbr"', 1))
    code, _, err = run(sealed_copy)
    assert code == 2
    assert "was changed after it was sealed" in err
    assert not (sealed_copy / "card.json").exists()


def test_a_plan_that_was_never_run_gets_none(models: tuple[Path, ...], tmp_path: Path) -> None:
    seal(envelope(models[:1], benchmarks=[BBQ]), tmp_path / "sealed")
    with pytest.raises(InputError, match="nothing was run yet"):
        card_of(tmp_path / "sealed")


def test_one_item_and_a_hash_that_was_marked_unverified(models: tuple[Path, ...], tmp_path: Path) -> None:
    """A data hash that nobody resolved is not made up, and a grid of one item is analysed."""
    crows = {"name": "crows_pairs", "items": {"count": 1}, "sha256": UNVERIFIED}
    grid = envelope(
        models,
        benchmarks=[{**body(models)["benchmarks"][1], "benchmark": crows}],
    )
    folder = seal(grid, tmp_path / "sealed").folder
    run_sealed(folder, None, QUIET)
    card = card_of(folder)
    assert card.stability.benchmarks[0].verdict == "not testable"
    data = card.benchmarks[0].data_sha256
    assert isinstance(data, Unverified)
    assert data.reason == "no hash was given beforehand"


def test_verified_hashes_are_given(ran: Ran) -> None:
    plan = json.loads((ran.folder / "plan.json").read_bytes())
    card = card_of(ran.folder)
    for one, facts in zip(card.benchmarks, plan["benchmarks"], strict=True):
        assert isinstance(one.data_sha256, Given) is facts["verified"]
