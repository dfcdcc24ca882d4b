"""Parity where scores are aggregated: report.json, the page and the finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.crosspkg.words import subject
from tests.crosspkg.report_experiment import Shape, make

SKILL = {"lm_eval": (0.9, 0.2), "helm": (0.15, 0.5), "inspect_ai": (0.5, 0.85)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(items=40, benchmarks=("crows_pairs",), nominal_skill=SKILL, failed=False, hostile=False)
    return make(tmp_path_factory.mktemp("parity"), shape)


def test_scores_spread_and_order_are_parities_and_p_stands_beside(folder: Path) -> None:
    experiment = load_experiment(folder)
    by_item = {
        (cell.facts.model, cell.facts.arm, cell.facts.suite): [record.score or 0.0 for record in cell.records]
        for cell in experiment.cells
        if cell.facts.state == "done"
    }
    for entry in build_report(experiment):
        nominal = entry["arms"]["nominal"]
        parities = {}
        for suite, row in nominal["suites"].items():
            scores = by_item[entry["model"], "nominal", suite]
            p = 1 - sum(scores) / len(scores)
            parities[suite] = 1 - abs(2 * p - 1)
            assert row["stereotype_share"] == pytest.approx(p, abs=1e-5)
            low, high = row["stereotype_share_ci"]
            assert low <= row["stereotype_share"] <= high
            assert row["score"] == pytest.approx(parities[suite], abs=1e-5)
            assert row["ci"][0] - 1e-6 <= row["score"] <= row["ci"][1] + 1e-6
            assert row["score_over_all"] is None
        assert nominal["spread_points"] == pytest.approx(
            100 * (max(parities.values()) - min(parities.values())), abs=1e-3
        )
        for pair in nominal["order"]:
            for suite, row in pair["suites"].items():
                means = [sum(by_item[name, "nominal", suite]) / 40 for name in (pair["a"], pair["b"])]
                difference = abs(2 * means[1] - 1) - abs(2 * means[0] - 1)
                assert row["difference_points"] == pytest.approx(100 * difference, abs=1e-3)


def test_other_benchmarks_have_no_such_share(tmp_path: Path) -> None:
    report = build_report(load_experiment(make(tmp_path, Shape(items=8, benchmarks=("bbq",), failed=False))))
    rows = [row for entry in report for arm in entry["arms"].values() for row in arm["suites"].values()]
    assert {row["stereotype_share"] for row in rows} == {None}
    assert all(row["score_over_all"] is not None for row in rows)


def test_the_page_says_what_parity_is(folder: Path) -> None:
    as_json, as_page, said = write_report(load_experiment(folder), folder)
    page = as_page.read_text(encoding="utf-8")
    report = json.loads(as_json.read_text(encoding="utf-8"))
    row = report[0]["arms"]["nominal"]["suites"]["lm_eval"]
    assert "The score is parity, 1 − |2p − 1|" in page
    assert f"p = {100 * row['stereotype_share']:.1f}" in page
    assert "each of two sentences" in page
    assert "CrowS-Pairs-style pocket items (parity)" in said


def test_items_that_are_not_the_benchmarks_are_named_so(folder: Path) -> None:
    entry = build_report(load_experiment(folder))[0]
    for source, name in (
        ("pocket/crows_pairs.jsonl (our own items, not the benchmark)", "CrowS-Pairs pocket items, parity, raw prompt"),
        ("official file crows_pairs/a.csv", "CrowS-Pairs, parity, raw prompt"),
    ):
        assert subject({**entry, "data": {**entry["data"], "source": source}}) == name
    shown = {
        **entry,
        "benchmark": "toxigen",
        "data": {**entry["data"], "source": "demonstration sentences of a repository"},
    }
    assert subject(shown) == "ToxiGen demonstration sentences, parity, raw prompt"
