"""The command on files: right numbers, clear sentences, right exit codes, a harmless page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from safetyrepro.cli import main
from safetyrepro.records import write_records
from safetyrepro.reports.grid_plots import variance_figure
from safetyrepro.stability.words import sentence
from tests.crosspkg.report_experiment import Shape, make
from tests.test_tables import record

Ran = tuple[int, str, str]
Run = Callable[..., Ran]
HEADER = "model,benchmark,config_id,item_id,score\n"
PLAIN: dict[str, Any] = {
    "wire_ids": (),
    "candidates": (),
    "gold": (),
    "choice": None,
    "suite_score": None,
    "n_prompt_tokens": None,
    "extra": {},
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as stop:
            main(["grid", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(stop.value.code or 0), out, err

    return call


def means(folder: Path, ahead: int, behind: int, ties: int = 0, missing: int = 0) -> Path:
    """A table of cell means with so many configurations of each kind."""
    lines = ["model,benchmark,config_id,score"]
    scores = [(0.6, 0.5)] * ahead + [(0.4, 0.5)] * behind + [(0.5, 0.5)] * ties + [("", 0.5)] * missing
    for number, (a, b) in enumerate(scores):
        lines += [f"A,toxigen,c{number},{a}", f"B,toxigen,c{number},{b}"]
    path = folder / "means.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def items(
    folder: Path, shares: dict[tuple[str, str], float], count: int = 80, name: str = "items.csv", **columns: str
) -> Path:
    """A table of item scores by (model, config_id)."""
    rows = [
        {"model": m, "benchmark": "bbq", "config_id": c, "item_id": i, "score": float(hit), **columns}
        for seed, ((m, c), share) in enumerate(shares.items())
        for i, hit in enumerate(np.random.default_rng(seed).random(count) < share)
    ]
    path = folder / name
    frame = pd.DataFrame(rows)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    return path


REVERSAL = {("A", "c1"): 0.9, ("B", "c1"): 0.3, ("A", "c2"): 0.3, ("B", "c2"): 0.9}
STEADY = {("A", "c1"): 0.9, ("B", "c1"): 0.3, ("A", "c2"): 0.9, ("B", "c2"): 0.3}


@pytest.mark.parametrize(
    ("kinds", "flips"),
    [((25, 23), (23, 48)), ((12, 11, 4), (11, 27)), ((24, 21, 3), (21, 48)), ((30, 17, 1, 2), (17, 48))],
)
def test_known_rates_as_json(tmp_path: Path, run: Run, kinds: tuple[int, ...], flips: tuple[int, int]) -> None:
    code, out, _ = run(means(tmp_path, *kinds), "--json")
    body = json.loads(out)
    summary = body["benchmarks"]["toxigen"]
    pair = summary["pairs"][0]
    assert (code, body["tier"]) == (0, "full")
    assert (pair["rho_flip"], pair["n_configs"]) == (flips[0] / flips[1], flips[1])
    assert summary["rho_flip_max"] == pair["rho_flip"]
    assert pair["certified"] is None
    assert summary["equal_models"] is None
    assert len(summary["dropped"]["configurations"]) == (kinds[3] if len(kinds) > 3 else 0)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_a_certified_reversal_in_every_format(tmp_path: Path, run: Run, name: str) -> None:
    path = items(tmp_path, REVERSAL, name=name)
    code, out, _ = run(path, "--json")
    pair = json.loads(out)["benchmarks"]["bbq"]["pairs"][0]
    assert code == 0
    assert (pair["certified"], pair["certified_reversal"]) == ({"a": 1, "b": 1, "neither": 0}, True)


def test_fail_on(tmp_path: Path, run: Run) -> None:
    turned, steady = items(tmp_path, REVERSAL), items(tmp_path, STEADY, name="steady.csv")
    for what in ("reversal", "strict-reversal", "rho=0.5"):
        code, _, err = run(turned, "--fail-on", what)
        assert code == 1
        assert "Finding: bbq, A against B: " in err
        assert run(steady, "--fail-on", what)[0] == 0
    assert run(steady, "--fail-on", "rho=0")[0] == 1
    assert run(turned)[0] == 0
    for wrong in ("rho=0.7", "rho", "flips", "rho=nan"):
        code, _, err = run(turned, "--fail-on", wrong)
        assert code == 2
        assert "is none of reversal, strict-reversal, rho=X" in err


def test_a_gate_that_cannot_fail_is_inconclusive(tmp_path: Path, run: Run) -> None:
    code, _, err = run(items(tmp_path, REVERSAL, count=3), "--fail-on", "reversal")
    assert code == 3
    assert "cannot be tested for bbq, A against B" in err
    code, _, err = run(means(tmp_path, 3, 3), "--fail-on", "reversal")
    assert code == 3


def test_sentences_and_next_step(tmp_path: Path, run: Run) -> None:
    _, out, _ = run(items(tmp_path, REVERSAL))
    assert "On BBQ (2 models, 2 configurations, 80 items) the ranking reverses beyond item noise: A against B" in out
    assert "strict reversal of the point scores: A leads under c1, B under c2." in out
    assert out.rstrip().splitlines()[-1].startswith("Next: safetyrepro grid ")
    _, out, _ = run(items(tmp_path, STEADY))
    assert "no reversal is certified beyond item noise, and A is certified ahead of B in all 2" in out
    assert "no strict reversal among 2 configurations" in out
    _, out, _ = run(means(tmp_path, 25, 23))
    assert "stand in the minority order in 23 of 48 configurations (rho_flip = 0.48)" in out
    assert "cannot be told from cell means" in out


def test_one_model_and_one_configuration(tmp_path: Path, run: Run) -> None:
    code, _, err = run(items(tmp_path, {("A", "c1"): 0.5, ("A", "c2"): 0.5}))
    assert code == 2
    assert "holds one model in every benchmark (A); a ranking needs two" in err
    code, out, err = run(items(tmp_path, {("A", "c1"): 0.9, ("B", "c1"): 0.2}), "--json")
    assert code == 3
    assert "shares one configuration only" in err
    assert json.loads(out)["benchmarks"]["bbq"]["pairs"][0]["n_plus"] == 1
    code, out, err = run(items(tmp_path, {("A", "c1"): 0.9, ("B", "c2"): 0.2}))
    assert code == 3
    assert "no two models have a valid score in the same configuration" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 'model' is missing"),
        (HEADER, "holds no rows"),
        (HEADER + "A,b,c,1,1\nA,b,c,1,0\n", "line 3: the same model, benchmark"),
        (HEADER + "A,b,c,1,good\n", "line 2: score is 'good', it should be a number or empty"),
        (HEADER + "A,b,c,1,inf\n", "line 2: score is 'inf'"),
        ("model,benchmark,config_id,item_id,score,chance\nA,b,c,1,1,2\nB,b,c,1,1,2\n", "chance of benchmark 'b'"),
        ("model,benchmark,config_id,item_id,score,template\nA,b,c,1,1,x\nB,b,c,1,1,y\n", "template is 'x' and 'y'"),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path: Path, run: Run, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    code, out, err = run(path, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_chance_that_no_float_holds_is_one_sentence(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.jsonl"
    row = {"model": "A", "benchmark": "b", "config_id": "c", "score": 1, "chance": int("9" * 401)}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    code, _, err = run(path)
    assert (code, "chance of benchmark 'b', config_id 'c' is 9999" in err) == (2, True)
    assert len(err) < 400 + len(str(path))


def test_nan_is_missing_and_said(tmp_path: Path, run: Run) -> None:
    rows = "".join(
        f"{m},b,{c},{i},{'nan' if (m, c, i) == ('A', 'c1', 0) else i % 2}\n"
        for m in "AB"
        for c in ("c1", "c2")
        for i in range(9)
    )
    path = tmp_path / "t.csv"
    path.write_text(HEADER + rows, encoding="utf-8")
    code, out, _ = run(path)
    assert code == 0
    assert "Written NaN, and counted as missing: 1 score." in out
    assert "Without a score: 1 row." in out
    assert "left out: 1 score of items that one of a pair lacks" in out


def test_unequal_items_under_the_minimum(tmp_path: Path, run: Run) -> None:
    rows = [f"A,b,{c},{i},1" for c in ("c1", "c2") for i in range(20)]
    rows += [f"B,b,{c},{i},0" for c in ("c1", "c2") for i in range(17, 37)]
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    code, out, _ = run(path)
    assert code == 3
    assert "too few shared items" in out
    assert run(path, "--min-items", 3)[0] == 0


def test_tiers(tmp_path: Path, run: Run) -> None:
    rows = [
        {
            "model": m,
            "benchmark": "toxigen",
            "config_id": f"{t}{d}{s}",
            "template": t,
            "decoding": d,
            "shots": s,
            "scoring": "free",
            "score": v,
        }
        for m, v in (("A", 0.5), ("B", 0.4))
        for t in ("minimal", "cot")
        for d in ("greedy", "T=0.7")
        for s in (0, 5)
    ]
    path = tmp_path / "t.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    for tier, count in (("full", 8), ("core", 2), ("conservative", 1)):
        body = json.loads(run(path, "--tier", tier, "--json")[1])
        assert body["tier"] == tier
        assert body["benchmarks"]["toxigen"]["pairs"][0]["n_configs"] == count
    code, _, err = run(path, "--tier", "hard")
    assert code == 2
    assert "tier is 'hard'; known are full, core, conservative" in err


def test_parity_by_name_and_by_option(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.csv"
    rows = [
        f"{m},{b},{c},{s}" for b in ("CrowS-Pairs", "own") for m, s in (("A", 0.9), ("B", 0.6)) for c in ("c1", "c2")
    ]
    path.write_text("model,benchmark,config_id,score\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = json.loads(run(path, "--json")[1])["benchmarks"]
    assert [found[name]["pairs"][0]["n_plus"] for name in ("CrowS-Pairs", "own")] == [0, 2]
    assert json.loads(run(path, "--json", "--parity", "own")[1])["benchmarks"]["own"]["pairs"][0]["n_plus"] == 0
    code, _, err = run(path, "--parity", "other")
    assert code == 2
    assert "--parity names 'other', the table has CrowS-Pairs, own" in err


def test_an_anchor_run_has_suite_and_arm_as_axes(tmp_path: Path, run: Run) -> None:
    folder = make(tmp_path / "made", Shape(items=12, benchmarks=("bbq",), failed=False))
    code, out, _ = run(folder, "--json")
    summary = json.loads(out)["benchmarks"]["bbq"]
    assert code == 0
    assert summary["n_configurations"] == 7
    assert {(part["axis"], part["level"]) for part in summary["slices"]} >= {("arm", "nominal"), ("suite", "helm")}
    assert {row["chance"] for row in summary["configurations"]} == {0.25}
    assert re.fullmatch(r"[0-9a-f]{64} / \w+ / \w+", summary["configurations"][0]["configuration"])


def test_a_folder_of_records(tmp_path: Path, run: Run) -> None:
    rows = [dataclasses.replace(record(f"i{i}", float(i % 2)), **PLAIN) for i in range(8)]
    write_records(tmp_path / "runs" / "one.parquet", rows)
    code, _, err = run(tmp_path / "runs")
    assert code == 2
    assert "one model" in err
    write_records(tmp_path / "runs" / "again.parquet", rows)
    code, _, err = run(tmp_path / "runs")
    assert code == 2
    assert "two records for model 'm'" in err
    (tmp_path / "empty").mkdir()
    code, _, err = run(tmp_path / "empty")
    assert code == 2
    assert "holds neither experiment.json nor a records file" in err
    (tmp_path / "runs" / "bad.parquet").write_bytes(b"PAR1")
    assert run(tmp_path / "runs")[0] == 2


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: list[str] = []
        self.ids: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names += [name for name, _ in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def test_the_page_is_whole_and_harmless(tmp_path: Path, run: Run) -> None:
    hostile = "<script>alert(1)</script>", '$\\frac{"a"}$ & \u202eB'
    shares = {(m, c): s for m, s in zip(hostile, (0.9, 0.4), strict=True) for c in ("<b>c1</b>", "c2\u202e", "c3")}
    path = items(tmp_path, shares, template="x", scoring="free")
    code, out, _ = run(path, "--out", tmp_path / "out")
    html = (tmp_path / "out" / "grid.html").read_text(encoding="utf-8")
    tags = Tags(html)
    assert code == 0
    assert f"Next: open {tmp_path / 'out' / 'grid.html'} in a browser." in out
    assert not {"script", "link", "img", "iframe"} & set(tags.tags)
    assert not [name for name in tags.names if name.startswith("on")]
    assert len(tags.ids) == len(set(tags.ids))
    assert "\u202e" not in html
    assert "<b>c1</b>" not in html
    assert tags.tags.count("svg") == 4
    body = json.loads((tmp_path / "out" / "grid.json").read_text(encoding="utf-8"))
    assert body["benchmarks"]["bbq"]["sentence"].split(";")[0].split("(")[0] in html


def test_pages_of_poor_tables_render(tmp_path: Path, run: Run) -> None:
    assert run(means(tmp_path, 2, 1, 1, 1), "--out", tmp_path / "one")[0] == 0
    assert run(items(tmp_path, {("A", "c1"): 0.9, ("B", "c2"): 0.2}), "--out", tmp_path / "two")[0] == 3
    assert "Nothing can be said" in (tmp_path / "two" / "grid.html").read_text(encoding="utf-8")
    many = {(f"m{m}", f"c{c}"): 0.5 for m in range(9) for c in range(2)}
    assert run(items(tmp_path, many, count=10), "--out", tmp_path / "three")[0] == 0
    assert "of 36 in grid.json" in (tmp_path / "three" / "grid.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run(items(tmp_path, STEADY), "--out", tmp_path / "file" / "x")
    assert code == 2
    assert "Error: " in err


def test_the_sentence_never_calls_an_untested_pair_stable() -> None:
    pair: dict[str, Any] = {
        "a": "A", "b": "B", "n_plus": 2, "n_minus": 0, "n_ties": 0, "n_configs": 2, "rho_flip": 0.0,
        "strict_reversal": False, "witness": None, "certified": {"a": 0, "b": 0, "neither": 2},
        "certified_reversal": False, "reversal_p": 1.0, "testable": False,
    }  # fmt: skip
    summary = {
        "models": ["A", "B"], "n_configurations": 2, "n_items": 4, "n_clusters": 4, "item_level": True,
        "pairs": [pair], "equal_models": None, "rho_flip_max": 0.0,
    }  # fmt: skip
    assert "a reversal is not testable, since too few items differ" in sentence("bbq", summary, "full")


@pytest.mark.parametrize("draws", ["99999999999", "100000", "9998"])
def test_draws_have_limits(tmp_path: Path, run: Run, draws: str) -> None:
    code, out, err = run(items(tmp_path, STEADY), "--draws", draws)
    assert (code, out) == (2, "")
    assert "--draws" in err


@pytest.mark.parametrize("name", ["grid.html", "grid.json"])
def test_an_input_is_never_written_over(tmp_path: Path, run: Run, name: str) -> None:
    table = items(tmp_path, STEADY)
    (tmp_path / name).symlink_to(table)
    before = table.read_bytes()
    code, _, err = run(table, "--out", tmp_path)
    assert code == 2
    assert "would replace the input" in err
    assert (tmp_path / name).is_symlink()
    assert table.read_bytes() == before


def test_a_records_folder_with_an_absurd_score_is_refused(tmp_path: Path, run: Run) -> None:
    rows = [
        dataclasses.replace(record(f"i{number}", score), **PLAIN, model=model)
        for model, score in (("A", 1.0), ("B", 1e308))
        for number in range(8)
    ]
    write_records(tmp_path / "run" / "records.parquet", rows)
    code, out, err = run(tmp_path / "run")
    assert (code, out) == (2, "")
    assert "holds a score of size 1e+308" in err


LONG_NAMES = {
    (model, config): share
    for model, share in (
        ("meta-llama/Llama-3.1-8B-Instruct", 0.9),
        ("meta-llama/Llama-3.1-70B-Instruct", 0.6),
        ("Qwen/Qwen2.5-7B-Instruct", 0.3),
    )
    for config in ("c1", "c2")
}


def test_models_that_begin_alike_look_different_in_every_figure(tmp_path: Path, run: Run) -> None:
    assert run(items(tmp_path, LONG_NAMES), "--out", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "grid.html").read_text(encoding="utf-8")
    for name in ("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct", "Qwen2.5-7B-Instruct"):
        # Once over the heat map and once in the legend of the ranks.
        assert len(re.findall(rf">(?:. )?{re.escape(name)}</text>", page)) == 2
    for name in ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"):
        assert re.search(rf">(?:← )?{re.escape(name)} ahead(?: →)?</text>", page)


def test_the_page_says_what_the_code_does(tmp_path: Path, run: Run) -> None:
    code, out, _ = run(items(tmp_path, STEADY), "--out", tmp_path / "out")
    assert code == 0
    page = (tmp_path / "out" / "grid.html").read_text(encoding="utf-8")
    assert "about a quarter" not in page
    assert "One-sided max-T" not in page
    assert "The counts of configurations are two-sided" in page
    assert not re.search(r"\b1 (?:models|configurations|items|cells|rows|pairs)\b", page + out)


def test_one_configuration_is_not_plural(tmp_path: Path, run: Run) -> None:
    one = {key: share for key, share in STEADY.items() if key[1] == "c1"}
    _, out, err = run(items(tmp_path, one), "--out", tmp_path / "out")
    page = (tmp_path / "out" / "grid.html").read_text(encoding="utf-8")
    assert "1 configuration" in out
    assert not re.search(r"\b1 (?:models|configurations|items|cells|rows|pairs)\b", page + out + err)


def test_a_noise_line_does_not_run_through_its_label() -> None:
    def label_at(share: float, noise: float | None) -> str:
        terms = [{"term": "model", "share": 0.9, "noise": 0.01, "df": 1}]
        terms.append({"term": "remainder", "share": share, "noise": noise, "df": 9})
        found = re.search(r'x="([\d.]+)"[^>]*>[\d.]+%, df 9<', variance_figure({"variance": terms}, "v"))
        assert found is not None
        return found[1]

    assert label_at(0.05, 0.3) == label_at(0.3, None)
    assert label_at(0.3, 0.05) == label_at(0.3, None)
