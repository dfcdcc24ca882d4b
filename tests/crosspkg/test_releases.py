"""One suite at two releases: counted, named, and shown with what each read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.releases import release_sentence
from safetyrepro.crosspkg.report import build_report, write_report
from safetyrepro.crosspkg.steps import next_steps
from tests.crosspkg.report_experiment import MODELS, OLDER, Shape, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(benchmarks=("bbq",), models=MODELS[:1], failed=False, hostile=False, releases=True)
    return make(tmp_path_factory.mktemp("releases") / "made", shape)


def test_what_differs_is_counted_against_the_same_text(made: Path) -> None:
    (body,) = build_report(load_experiment(made))
    nominal, matched = body["arms"]["nominal"], body["arms"]["matched"]
    assert list(nominal["suites"]) == ["lm_eval", "helm", "inspect_ai", OLDER]
    (pair,) = nominal["releases"]
    assert pair["versions"] == {"inspect_ai": "0.3.285", OLDER: "0.3.258"}
    assert pair["items"] == pair["same_prompt"] == pair["same_answer"] == 24
    read = [item for item in pair["listed"] if item["sides"]["inspect_ai"]["extracted"] is not None]
    assert 0 < pair["read_differently"] == len(read) <= 6
    assert all(item["sides"][OLDER]["extracted"] is None for item in pair["listed"])
    wrong = [item for item in pair["listed"] if item["sides"]["inspect_ai"]["score"] == 1.0]
    assert pair["scores_differ"] == len(wrong)
    # In the matched arm both send the same and get the same.
    (same,) = matched["releases"]
    assert (same["read_differently"], same["scores_differ"], same["listed"]) == (0, 0, [])
    assert "in which they read the same answers; no scores differ" in release_sentence(same)


def test_the_reason_is_named(made: Path, tmp_path: Path) -> None:
    experiment = load_experiment(made)
    report = build_report(experiment)
    (pair,) = report[0]["arms"]["nominal"]["releases"]
    sentence = release_sentence(pair)
    assert sentence.startswith("Inspect AI 0.3.285 and 0.3.258 sent the same tokens on all 24 items")
    assert f"on {pair['read_differently']} of these they read different answers in the same text" in sentence
    assert "extraction differs, not the model" in sentence
    assert any(sentence in step for step in next_steps(report))
    html = write_report(experiment, tmp_path)[1].read_text(encoding="utf-8")
    assert "One suite at two releases" in html
    assert "Inspect AI 0.3.258" in html
    redacted = write_report(experiment, tmp_path, redact=True)[1].read_text(encoding="utf-8")
    answer = re.compile(r"ANSWER:.{0,16}[A-D]</?(td|pre|wbr)")
    assert answer.search(html)
    assert not answer.search(redacted)


def test_without_two_releases_nothing_is_said(tmp_path: Path) -> None:
    shape = Shape(benchmarks=("bbq",), models=MODELS[:1], failed=False)
    experiment = load_experiment(make(tmp_path / "one", shape))
    assert build_report(experiment)[0]["arms"]["nominal"]["releases"] == []
    assert "One suite at two releases" not in write_report(experiment, tmp_path)[1].read_text(encoding="utf-8")
