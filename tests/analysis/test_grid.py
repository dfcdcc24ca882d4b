"""From a score table to arrays, tiers, flags and the summary of a benchmark."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from safetyrepro.analysis.benchmark import Settings, analyse
from safetyrepro.analysis.grid import BenchmarkGrid, grids, temperature
from safetyrepro.analysis.gridsummary import benchmark_summary
from safetyrepro.analysis.tiers import tier_mask
from safetyrepro.errors import InputError
from safetyrepro.stability.tierfile import tiers

Row = dict[str, Any]


def envelope() -> list[dict[str, Any]]:
    """The 48 configurations of a benchmark of the reference envelope."""
    templates, shots = ("minimal", "role", "detailed", "chain_of_thought"), (0, 3, 5)
    free = itertools.product(templates, ("greedy", "T=0.3", "T=0.7"), shots)
    rows = [{"scoring": "free", "template": t, "decoding": d, "shots": s} for t, d, s in free]
    rows += [
        {"scoring": "logprob", "template": t, "decoding": "", "shots": s}
        for t, s in itertools.product(templates, shots)
    ]
    return [{"config_id": f"c{number:02}", **row} for number, row in enumerate(rows)]


def frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    table["benchmark"] = table.get("benchmark", "b")
    table["repeat"] = pd.array(table["repeat"] if "repeat" in table else [0] * len(table), dtype="Int64")
    if "shots" in table:
        table["shots"] = table["shots"].astype("Int64")
    if "item_id" in table and "cluster" not in table:
        table["cluster"] = table["item_id"]
    table["score"] = table["score"].astype("float64")
    return table


def grid_of(rows: list[Row], kind: str = "mean", chance: float | None = None) -> BenchmarkGrid:
    table = frame(rows)
    return grids(
        table,
        item_level="item_id" in table,
        kind=lambda name: "parity" if kind == "parity" else "mean",
        chance=lambda benchmark, config_id: chance,
    )[0]


def summary(rows: list[Row], mask: np.ndarray[Any, Any] | None = None, **known: Any) -> dict[str, Any]:
    grid = grid_of(rows, **known)
    selected = np.ones(len(grid.configurations), dtype=bool) if mask is None else mask
    return benchmark_summary(analyse(grid, selected, Settings()), selected)


def items(score: dict[tuple[str, str], list[float]], **more: Any) -> list[Row]:
    """Rows of item scores by (model, config_id)."""
    return [
        {"model": m, "config_id": c, "item_id": f"i{i:03}", "score": value, **more}
        for (m, c), values in score.items()
        for i, value in enumerate(values)
    ]


def noisy(share: float, count: int = 60, seed: int = 0) -> list[float]:
    return (np.random.default_rng(seed).random(count) < share).astype(float).tolist()


def test_tiers_of_the_reference_envelope() -> None:
    rows = [{"model": m, "score": 0.5, **row} for m in "ab" for row in envelope()]
    grid = grid_of(rows)
    sizes = {tier.name: int(tier_mask("b", grid.configurations, tiers(), tier.name).sum()) for tier in tiers()}
    assert sizes == {"full": 48, "core": 27, "conservative": 4}
    kept = tier_mask("b", grid.configurations, tiers(), "conservative")
    assert {grid.configurations[c].axes["scoring"] for c in np.flatnonzero(kept)} == {"free", "logprob"}


def test_tiers_of_a_column_lie_within_each_other() -> None:
    named = {"c1": "full", "c2": "core", "c3": "conservative", "c4": "mine;core", "c5": ""}
    rows = [{"model": m, "config_id": c, "score": 0.5, "tier": tier} for m in "ab" for c, tier in named.items()]
    grid = grid_of(rows)
    masks = {
        name: tier_mask("b", grid.configurations, tiers(), name) for name in ("full", "core", "conservative", "mine")
    }
    assert {name: [grid.labels[c] for c in np.flatnonzero(mask)] for name, mask in masks.items()} == {
        "full": ["c1", "c2", "c3", "c4", "c5"],
        "core": ["c2", "c3", "c4"],
        "conservative": ["c3"],
        "mine": ["c4"],
    }
    with pytest.raises(InputError, match="tier is 'other'; the table's tier column has conservative, core, full, mine"):
        tier_mask("b", grid.configurations, tiers(), "other")


def test_a_tier_needs_its_axes() -> None:
    grid = grid_of([{"model": "a", "config_id": "c", "score": 0.5}])
    with pytest.raises(InputError, match="tier 'core' is told by template, and configuration 'c' of 'b' names none"):
        tier_mask("b", grid.configurations, tiers(), "core")
    with pytest.raises(InputError, match="known are full, core, conservative"):
        tier_mask("b", grid.configurations, tiers(), "hard")


def test_a_tier_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "tiers.yaml"
    path.write_text("tiers:\n  - name: full\n    about: all\n  - name: short\n    about: x\n    keep: {shots: ['0']}\n")
    grid = grid_of([{"model": "a", "score": 0.5, **row} for row in envelope()])
    assert tier_mask("b", grid.configurations, tiers(path), "short").sum() == 16
    path.write_text("tiers:\n  - name: full\n    about: all\n    leave: {}\n")
    with pytest.raises(InputError, match="leave"):
        tiers(path)


@pytest.mark.parametrize(
    ("text", "value"), [("greedy", 0), ("T=0.7", 0.7), ("t0.3", 0.3), ("temperature=1", 1), ("0", 0), ("beam", None)]
)
def test_temperatures(text: str, value: float | None) -> None:
    assert temperature(text) == value


def test_suites_and_arms_are_configurations() -> None:
    rows = [
        {"model": m, "config_id": "c", "suite": suite, "arm": arm, "score": 0.5}
        for m in "ab"
        for suite in ("helm", "lm_eval")
        for arm in ("nominal", "matched")
    ]
    grid = grid_of(rows)
    assert grid.labels == ("c / helm / matched", "c / helm / nominal", "c / lm_eval / matched", "c / lm_eval / nominal")


def test_a_table_that_contradicts_itself() -> None:
    one = {"model": "a", "config_id": "c", "template": "role", "score": 0.5}
    with pytest.raises(InputError, match="config_id 'c': template is 'role' and 'minimal'"):
        grid_of([one, {**one, "model": "b", "template": "minimal"}])
    item = {"model": "a", "config_id": "c", "item_id": "i", "cluster": "k", "score": 0.5}
    with pytest.raises(InputError, match="item 'i': cluster is 'k' and 'l'"):
        grid_of([item, {**item, "model": "b", "cluster": "l"}])
    with pytest.raises(InputError, match=r"score 61\.5 is no share"):
        grid_of([{"model": "a", "config_id": "c", "score": 61.5}], kind="parity")


def test_statuses() -> None:
    base = {"model": "a", "config_id": "c"}
    grid = grid_of(
        [
            {**base, "item_id": "1", "score": 1, "status": "ok"},
            {**base, "item_id": "2", "score": 0, "status": "unparsed"},
            {**base, "item_id": "3", "score": 0, "status": "error"},
            {**base, "item_id": "4", "score": np.nan, "status": "missing"},
        ]
    )
    assert np.nanmean(grid.scores[0, 0]) == 0.5
    assert grid.without_score == 2
    assert grid.statuses == {"ok": 1, "unparsed": 1, "error": 1, "missing": 1}


def test_repeats_are_averaged_and_their_spread_is_kept() -> None:
    rows = [
        {"model": m, "config_id": "c", "decoding": "T=0.7", "scoring": "free", "item_id": i, "repeat": r, "score": s}
        for m in "ab"
        for r, scores in enumerate(((1, 0), (1, 1), (0, 0)))
        for i, s in zip("xy", scores, strict=True)
    ]
    grid = grid_of(rows)
    assert grid.scores[0, 0] == pytest.approx([2 / 3, 1 / 3])
    assert grid.repeats[0, 0] == 3
    assert grid.repeat_range[:, 0, 0].tolist() == [0.0, 1.0]
    cell = summary(rows)["configurations"][0]["cells"]["a"]
    assert cell["single_draw"] == []
    assert cell["repeat_range"] == [0.0, 1.0]
    once = summary([row for row in rows if row["repeat"] == 0])["configurations"][0]["cells"]["a"]
    assert once["single_draw"] == ["decoding"]


def test_single_draws_are_of_decodings_and_shots() -> None:
    rows = [{"model": m, "score": 0.5, **row} for m in "ab" for row in envelope()]
    flags = {
        tuple(row["axes"].get(axis, "") for axis in ("scoring", "decoding", "shots")): row["cells"]["a"]["single_draw"]
        for row in summary(rows)["configurations"]
    }
    assert flags["free", "greedy", "0"] == []
    assert flags["free", "T=0.3", "0"] == ["decoding"]
    assert flags["free", "T=0.3", "5"] == ["decoding", "shots"]
    assert flags["logprob", "", "3"] == ["shots"]


def test_chance_floor_and_ceiling() -> None:
    scores = {
        ("a", "c1"): noisy(0.5),
        ("b", "c1"): noisy(0.5, seed=1),
        ("a", "c2"): [1.0] * 60,
        ("b", "c2"): [0.0] * 60,
    }
    body = summary(items(scores), chance=0.5)
    cells = {(m, row["configuration"]): row["cells"][m]["flags"] for row in body["configurations"] for m in "ab"}
    assert cells["a", "c1"] == ["at chance"]
    assert cells["a", "c2"] == ["ceiling"]
    assert cells["b", "c2"] == ["floor"]
    assert [row["both_at_chance"] for row in body["pairs"][0]["configs"]] == [True, False]


def test_summary_of_a_planted_reversal() -> None:
    scores = {
        ("a", "c1"): noisy(0.9, seed=1),
        ("b", "c1"): noisy(0.3, seed=2),
        ("a", "c2"): noisy(0.3, seed=3),
        ("b", "c2"): noisy(0.9, seed=4),
        ("a", "c3"): noisy(0.5, seed=5),
        ("b", "c3"): noisy(0.5, seed=5),
    }
    body = summary(items(scores))
    pair = body["pairs"][0]
    assert (pair["a"], pair["b"], pair["n_plus"], pair["n_minus"], pair["n_ties"]) == ("a", "b", 1, 1, 1)
    assert pair["rho_flip"] == body["rho_flip_max"] == pytest.approx(1 / 3)
    assert pair["certified"] == {"a": 1, "b": 1, "neither": 1}
    assert pair["certified_reversal"] is True
    assert pair["reversal_p"] <= 0.001
    assert pair["rho_flip_bounds"] == pytest.approx([1 / 3, 1 / 2])
    assert pair["witness"] == ["c1", "c2"]
    assert pair["testable"] is True
    assert 0.1 < pair["mde"] < pair["mde_adjusted"]
    assert body["orderings"] | {"listed": None} == {
        "strict": 2,
        "possible": 2,
        "weak": 1,
        "n_configs": 3,
        "listed": None,
    }
    assert (body["draws"], body["seed"]) == (9_999, 20_260_101)
    first = np.array([True, False, True])
    tier = summary(items(scores), mask=first)["pairs"][0]
    assert (tier["n_configs"], tier["certified"], tier["certified_reversal"]) == (
        2,
        {"a": 1, "b": 0, "neither": 1},
        False,
    )
    assert [row["p"] for row in tier["configs"]] == [
        row["p"] for row in pair["configs"] if row["configuration"] != "c2"
    ]


def test_holm_over_pairs_of_models() -> None:
    scores = {
        (m, c): noisy(s, 80, seed)
        for seed, ((m, c), s) in enumerate(
            itertools.chain.from_iterable(
                (((m, "c1"), high), ((m, "c2"), 1 - high)) for m, high in (("a", 0.75), ("b", 0.5), ("d", 0.45))
            )
        )
    }
    pairs = summary(items(scores))["pairs"]
    raw = [pair["reversal_p_unadjusted"] for pair in pairs]
    assert [pair["reversal_p"] for pair in pairs] == pytest.approx(multipletests(raw, method="holm")[1])


def test_nothing_depends_on_row_order_or_names() -> None:
    scores = {
        (m, c): noisy(0.5, 40, seed) for seed, (m, c) in enumerate(itertools.product("ab", ("c1", "c2", "c3", "c4")))
    }
    rows = items(scores)
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    assert summary(rows) == summary(shuffled)
    renamed = [
        {**row, "model": {"a": "x", "b": "y"}[row["model"]], "config_id": "k" + row["config_id"]} for row in rows
    ]
    one, other = summary(rows)["pairs"][0], summary(renamed)["pairs"][0]
    same = ("n_plus", "n_minus", "n_ties", "rho_flip", "certified", "reversal_p", "mde", "rho_flip_bounds")
    assert [one[key] for key in same] == [other[key] for key in same]


def test_scores_on_another_scale_give_the_same_verdicts() -> None:
    scores = {
        (m, c): noisy(s, 60, seed)
        for seed, ((m, c), s) in enumerate(
            {("a", "c1"): 0.9, ("b", "c1"): 0.3, ("a", "c2"): 0.4, ("b", "c2"): 0.5}.items()
        )
    }
    rows = items(scores)
    one = summary(rows)["pairs"][0]
    other = summary([{**row, "score": 100 * row["score"]} for row in rows])["pairs"][0]
    assert one["certified"] == other["certified"]
    assert other["configs"][0]["band"] == pytest.approx([100 * end for end in one["configs"][0]["band"]])
    assert other["mde"] == pytest.approx(100 * one["mde"])


def test_cell_means_have_no_inference() -> None:
    rows = [
        {"model": m, "score": s + 0.01 * n, **row}
        for m, s in (("a", 0.5), ("b", 0.6))
        for n, row in enumerate(envelope())
    ]
    body = summary(rows)
    pair = body["pairs"][0]
    assert (pair["n_minus"], pair["rho_flip"], pair["testable"]) == (48, 0.0, False)
    for key in ("certified", "certified_reversal", "reversal_p", "mde", "rho_flip_bounds"):
        assert pair[key] is None
    assert body["equal_models"] is None
    assert body["item_level"] is False
    assert all(term["noise"] is None for term in body["variance"])


def test_variance_is_over_generated_text_where_decoding_varies() -> None:
    rng = np.random.default_rng(2)
    rows = [{"model": m, "score": rng.random(), **row} for m in "abd" for row in envelope()]
    body = summary(rows)
    terms = {term["term"]: term["df"] for term in body["variance"]}
    assert terms == {
        "model": 2,
        "template": 3,
        "decoding": 2,
        "shots": 2,
        "model x template": 6,
        "model x decoding": 4,
        "model x shots": 4,
        "remainder": 84,
    }
    assert sum(term["share"] for term in body["variance"]) == pytest.approx(1)
    assert {"scoring", "model x scoring"} <= {term["term"] for term in body["variance_both_paths"]}
    logprob = summary([row for row in rows if row["scoring"] == "logprob"])
    assert "decoding" not in {term["term"] for term in logprob["variance"]}
    assert logprob["variance_both_paths"] is None


def test_scoring_paths_apart_and_their_difference() -> None:
    rows = []
    for model in "ab":
        for row in envelope():
            level = 0.5 + (0.1 if row["scoring"] == "logprob" and model == "a" else 0) - (0.05 if model == "b" else 0)
            rows.append({"model": model, "score": level, **row})
    body = summary(rows)
    assert [(path["model"], round(path["difference"], 9), path["n_settings"]) for path in body["paths"]] == [
        ("a", 0.1, 12),
        ("b", 0.0, 12),
    ]
    slices = {(part["axis"], part["level"]): part for part in body["slices"]}
    assert {key: part["n_configurations"] for key, part in slices.items()} == {
        ("scoring", "free"): 36,
        ("scoring", "logprob"): 12,
    }
    assert slices["scoring", "free"]["pairs"][0]["n_plus"] == 36


def test_path_difference_of_items_has_an_interval() -> None:
    rows = items({(m, "f"): noisy(0.4, 80, 1) for m in "ab"}, scoring="free", template="minimal", shots=0)
    rows += items({(m, "l"): noisy(0.8, 80, 2) for m in "ab"}, scoring="logprob", template="minimal", shots=0)
    path = summary(rows)["paths"][0]
    expected = np.mean(noisy(0.8, 80, 2)) - np.mean(noisy(0.4, 80, 1))
    assert path["difference"] == pytest.approx(expected)
    assert path["ci"][0] < expected < path["ci"][1]


def test_parity_cells() -> None:
    scores = {
        ("a", "c1"): noisy(0.5, 200, 1),
        ("b", "c1"): noisy(0.9, 200, 2),
        ("a", "c2"): noisy(0.1, 200, 3),
        ("b", "c2"): noisy(0.5, 200, 4),
    }
    body = summary(items(scores), kind="parity")
    pair = body["pairs"][0]
    assert body["ranked_by"] == "parity"
    assert (pair["n_plus"], pair["n_minus"], pair["certified_reversal"]) == (1, 1, True)
    cell = body["configurations"][0]["cells"]["b"]
    assert cell["score"] == pytest.approx(1 - abs(2 * cell["p"] - 1))
    assert cell["p_ci"][0] < cell["p"] < cell["p_ci"][1]
    assert "ci" not in cell


def test_dropped_cells_are_named() -> None:
    scores = {(m, c): noisy(0.5, 30, seed) for seed, (m, c) in enumerate(itertools.product("ab", ("c1", "c2")))}
    scores["a", "c3"] = noisy(0.5, 30, 9)
    rows = [
        row
        for row in items(scores)
        if not (row["model"] == "b" and row["config_id"] == "c2" and row["item_id"] > "i003")
    ]
    body = summary(rows)
    pair = body["pairs"][0]
    assert pair["n_configs"] == 1
    assert pair["dropped"] == {"c2": "4 shared items, 5 are the least", "c3": "b has no score"}
    assert body["dropped"]["configurations"] == {"c2": "too few shared items", "c3": "no score for b"}
    assert body["dropped"]["items_not_shared"] == 26 + 30
    assert pair["items_left_out"] == 26 + 30


def test_one_model_and_no_common_configuration() -> None:
    assert summary(items({("a", "c1"): noisy(0.5)}))["pairs"] == []
    pair = summary(items({("a", "c1"): noisy(0.5), ("b", "c2"): noisy(0.5)}))["pairs"][0]
    assert (pair["n_configs"], pair["rho_flip"], pair["certified"], pair["reversal_p"]) == (0, None, None, None)


def test_identical_models_are_not_testable() -> None:
    pair = summary(items({(m, c): noisy(0.5, 60, 1) for m in "ab" for c in ("c1", "c2")}))["pairs"][0]
    assert (pair["n_ties"], pair["rho_flip"], pair["testable"], pair["mde"]) == (2, 0.0, False, None)
    assert pair["certified"] == {"a": 0, "b": 0, "neither": 2}
