"""`judge meta`: every format, and what is wrong with a table."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from safetyrepro.cli import main
from safetyrepro.judge.composition import load_composition
from safetyrepro.records import write_records
from safetyrepro.tables import records_to_table
from tests.crosspkg.report_experiment import MODELS as STUDIED
from tests.crosspkg.report_experiment import Shape, make
from tests.judge.recorded import recorded

MODELS = [f"m{k}" for k in range(12)]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["judge", "meta", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, errors = run(capsys, *arguments, "--json")
    assert code == 0, errors
    body: dict[str, Any] = json.loads(out)
    return body


def values() -> pd.DataFrame:
    generator = np.random.default_rng(8)
    frame = pd.DataFrame({"model": MODELS, "judge_score": generator.normal(size=12).round(3) * 10 + 50})
    for name in ("bbh", "ifeval", "xstest", "wmdp"):
        frame[name] = generator.uniform(0.2, 0.8, 12).round(3)
    return frame


FACTORS = ("--factor", "know=bbh", "--factor", "follow=ifeval", "--factor", "safe=xstest,-wmdp")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.csv"
    values().to_csv(path, index=False)
    return path


def expected() -> dict[str, float]:
    frame = values()
    judge = frame["judge_score"]
    safe = (frame["xstest"] + 1 - frame["wmdp"]) / 2
    return {"know": judge.corr(frame["bbh"]), "follow": judge.corr(frame["ifeval"]), "safe": judge.corr(safe)}


def test_a_plain_table_with_factors_of_ones_own(capsys: pytest.CaptureFixture[str], plain: Path) -> None:
    body = report(capsys, plain, *FACTORS)
    assert {name: factor["pearson"] for name, factor in body["factors"].items()} == pytest.approx(expected(), abs=1e-6)
    assert body["models"] == 12


def test_benchmarks_by_the_reference_compositions_names(capsys: pytest.CaptureFixture[str], plain: Path) -> None:
    body = report(capsys, plain)
    assert body["factors"]["instruction_following"]["pearson"] == pytest.approx(expected()["follow"], abs=1e-6)
    assert body["factors"]["safety"]["pearson"] == pytest.approx(expected()["safe"], abs=1e-6)
    assert "livebench_math" in body["factors"]["world_knowledge"]["absent"]


def test_points_of_100_are_shares(capsys: pytest.CaptureFixture[str], tmp_path: Path, plain: Path) -> None:
    frame = values()
    frame[["bbh", "ifeval", "wmdp"]] *= 100
    path = tmp_path / "points.csv"
    frame.to_csv(path, index=False)
    ours, theirs = report(capsys, path, *FACTORS), report(capsys, plain, *FACTORS)
    assert ours["factors"]["safe"]["pearson"] == pytest.approx(theirs["factors"]["safe"]["pearson"])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_other_formats_read_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, plain: Path, kind: str
) -> None:
    path = tmp_path / f"same.{kind}"
    if kind == "jsonl":
        values().to_json(path, orient="records", lines=True)
    else:
        values().to_parquet(path)
    same = report(capsys, path, *FACTORS)
    assert same["factors"]["know"]["discordant"] == report(capsys, plain, *FACTORS)["factors"]["know"]["discordant"]
    assert same["factors"]["safe"]["pearson"] == pytest.approx(expected()["safe"], abs=1e-6)


def harness(folder: Path, *, style: str) -> Path:
    """Results files as lm-evaluation-harness writes them, one folder a model."""
    for row in values().to_dict("records"):
        place = folder / row["model"]
        place.mkdir(parents=True)
        key = "acc,none" if style == "new" else "acc"
        body: dict[str, Any] = {
            "results": {
                name: {key: row[name], key.replace("acc", "acc_stderr"): 0.01, "alias": name}
                for name in ("bbh", "ifeval", "xstest", "wmdp")
            },
            "date": 100.0,
        }
        if style == "new":
            body["model_name"] = row["model"]
        else:
            body["config"] = {"model": "hf", "model_args": f"pretrained={row['model']},dtype=float16"}
        (place / "results_2024-07-01.json").write_text(json.dumps(body))
        (place / "samples_bbh_2024-07-01.jsonl").write_text('{"doc_id": 0}\n')
    return folder


@pytest.mark.parametrize("style", ["new", "old"])
def test_a_folder_of_harness_results(capsys: pytest.CaptureFixture[str], tmp_path: Path, style: str) -> None:
    folder = harness(tmp_path / "runs", style=style)
    scores = tmp_path / "scores.csv"
    values()[["model", "judge_score"]].to_csv(scores, index=False)
    given = ("--factor", "know=bbh/acc", "--factor", "safe=xstest/acc,-wmdp/acc")
    body = report(capsys, scores, folder, *given)
    assert body["factors"]["safe"]["pearson"] == pytest.approx(expected()["safe"], abs=1e-6)
    assert body["factors"]["know"]["pearson"] == pytest.approx(expected()["know"], abs=1e-6)


def test_the_newer_of_two_results_files_counts_and_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = harness(tmp_path / "runs", style="new")
    old = {"model_name": "m3", "date": 50.0, "results": {"bbh": {"acc,none": 0.0}}}
    (folder / "m3" / "results_2023.json").write_text(json.dumps(old))
    scores = tmp_path / "scores.csv"
    values()[["model", "judge_score"]].to_csv(scores, index=False)
    body = report(capsys, scores, folder, "--factor", "know=bbh/acc")
    assert body["factors"]["know"]["pearson"] == pytest.approx(expected()["know"], abs=1e-6)
    assert any("m3 has a newer bbh/acc" in line for line in body["ignored"])


def test_livebench_groups_and_tasks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(9)
    tasks = {name: generator.uniform(0, 100, 12).round(3) for name in ("LCB_generation", "coding_completion")}
    scores = values()[["model", "judge_score"]]
    parts = scores.assign(**tasks)
    whole = scores.assign(coding=(tasks["LCB_generation"] + tasks["coding_completion"]) / 2)
    found = []
    for name, frame in (("parts", parts), ("whole", whole)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        found.append(report(capsys, tmp_path / f"{name}.csv")["factors"]["world_knowledge"])
    assert found[0]["pearson"] == pytest.approx(found[1]["pearson"])
    assert found[0]["benchmarks"] == {"livebench_coding": ["parts: LCB_generation", "parts: coding_completion"]}


def test_score_tables_and_verdicts_as_the_judges_score(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scores, verdicts = ["model,benchmark,config_id,item_id,score"], ["judge,item_id,order,verdict,model_a,model_b"]
    for k, model in enumerate(MODELS):
        for item in range(10):
            scores.append(f"{model},xstest,c,{item},{int(item < k)}")
            verdicts.append(f"j,{item},ab,{'first' if item + k < 14 else 'second'},{model},ref")
    (tmp_path / "scores.csv").write_text("\n".join(scores))
    (tmp_path / "verdicts.csv").write_text("\n".join(verdicts))
    body = report(capsys, tmp_path / "scores.csv", tmp_path / "verdicts.csv", "--factor", "safe=xstest")
    assert body["judge"]["column"] == "win rate by j"
    assert body["factors"]["safe"]["spearman"] < -0.8
    assert body["factors"]["safe"]["discordant_pairs"] > 0.5


@pytest.mark.parametrize("place", ["cells/m/records.parquet", "records.parquet"])
def test_records_of_a_run_and_of_an_import(capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str) -> None:
    records = [recorded(f"i{item}", float(item < k), model) for k, model in enumerate(MODELS) for item in range(12)]
    (tmp_path / "run" / place).parent.mkdir(parents=True)
    write_records(tmp_path / "run" / place, records)
    values()[["model", "judge_score"]].to_csv(tmp_path / "scores.csv", index=False)
    body = report(capsys, tmp_path / "scores.csv", tmp_path / "run", "--factor", "safe=xstest")
    assert list(body["factor_scores"]["safe"].values()) == pytest.approx([k / 12 for k in range(12)], abs=1e-6)


@pytest.mark.parametrize("source", ["table", "run", "import"])
def test_crows_pairs_counts_by_the_parity_of_each_cell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str
) -> None:
    # Of twelve models the k-th prefers the same sentence in k of 12 pairs, and in a second cell the other one.
    records = [
        dataclasses.replace(recorded(f"i{item}", score, model), benchmark="crows_pairs", suite=suite)
        for k, model in enumerate(MODELS)
        for item in range(12)
        for suite, score in (("helm", float(item < k)), ("lm_eval", float(item >= k)))
    ]
    read = tmp_path / ("crows.csv" if source == "table" else "crows")
    if source == "table":
        records_to_table(records).to_csv(read, index=False)
    else:
        place = read / ("cells/m" if source == "run" else "")
        place.mkdir(parents=True)
        write_records(place / "records.parquet", records)
    values()[["model", "judge_score"]].to_csv(tmp_path / "scores.csv", index=False)
    body = report(capsys, tmp_path / "scores.csv", read, "--factor", "fair=crows_pairs")
    parities = [1 - abs(2 * k / 12 - 1) for k in range(12)]
    assert list(body["factor_scores"]["fair"].values()) == pytest.approx(parities, abs=1e-6)


def test_an_answer_that_never_came_counts_as_little_as_in_grid(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [f"{model},xstest,c,{item},{item % 2},ok" for model in MODELS for item in range(4)]
    rows += [f"{model},xstest,c,4,0,error" for model in MODELS]
    (tmp_path / "scored.csv").write_text("model,benchmark,config_id,item_id,score,status\n" + "\n".join(rows) + "\n")
    values()[["model", "judge_score"]].to_csv(tmp_path / "scores.csv", index=False)
    body = report(capsys, tmp_path / "scores.csv", tmp_path / "scored.csv", "--factor", "safe=xstest")
    assert set(body["factor_scores"]["safe"].values()) == {0.5}


def test_a_run_gives_only_the_cells_that_its_plan_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = make(tmp_path / "made", Shape(benchmarks=("bbq",), failed=False))
    pd.DataFrame({"model": STUDIED, "judge_score": [1.0, 2.0]}).to_csv(tmp_path / "scores.csv", index=False)
    before = report(capsys, tmp_path / "scores.csv", folder, "--factor", "fair=bbq")
    stray = [recorded(f"i{item}", 1.0, STUDIED[0]) for item in range(500)]
    (folder / "cells" / "stray").mkdir()
    write_records(
        folder / "cells" / "stray" / "records.parquet",
        [dataclasses.replace(record, benchmark="bbq") for record in stray],
    )
    (folder / "cells" / "unrun").mkdir()
    plan = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps(plan | {"cells": [*plan["cells"], "unrun"]}))
    after = report(capsys, tmp_path / "scores.csv", folder, "--factor", "fair=bbq")
    assert after["factor_scores"] == before["factor_scores"]
    assert (before["ignored"], after["ignored"]) == ([], ["made: cell unrun has not ended"])


def test_names_join_tables_and_leave_out_what_they_do_not_list(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    frame = values()
    frame[["model", "judge_score"]].to_csv(folder / "arena.csv", index=False)
    other = frame.drop(columns="judge_score").assign(model=[f"org/{m}" for m in MODELS])
    other.rename(columns={"model": "Name"}).to_csv(folder / "bench.csv", index=False)
    pairs = [(m, f"org/{m}") for m in MODELS[:10]]
    pd.DataFrame(pairs, columns=["arena", "bench"]).to_csv(folder / "names.csv", index=False)
    body = report(capsys, folder, *FACTORS)
    assert body["models"] == 10
    ten = frame.iloc[:10]
    assert body["factors"]["know"]["pearson"] == pytest.approx(ten["judge_score"].corr(ten["bbh"]), abs=1e-6)


def test_a_names_table_of_a_folder_without_rows_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    values()[["model", "judge_score"]].to_csv(tmp_path / "a.csv", index=False)
    values().drop(columns="judge_score").to_csv(tmp_path / "b.csv", index=False)
    (tmp_path / "names.csv").write_text("a,b\n")
    code, out, errors = run(capsys, tmp_path)
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'names.csv'}: holds no rows; a names table has a row per model" in errors


def test_a_model_without_a_benchmark_is_left_out_of_its_factor_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    frame = values()
    frame.loc[2, "bbh"] = np.nan
    path = tmp_path / "holes.csv"
    frame.to_csv(path, index=False)
    body = report(capsys, path, *FACTORS)
    assert body["factors"]["know"]["n"] == 11
    assert body["factors"]["know"]["incomplete"] == {"m2": ["bbh"]}
    assert body["factors"]["safe"]["n"] == 12


def test_stages_strata_and_sizes_from_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path, plain: Path) -> None:
    (tmp_path / "stages.csv").write_text("sft,preferred,method\nm0,m1,DPO\nm0,m2,KTO\n")
    (tmp_path / "strata.csv").write_text("model,stratum\n" + "".join(f"m{k},{'xy'[k % 2]}\n" for k in range(12)))
    (tmp_path / "sizes.csv").write_text("model,examples\n" + "".join(f"m{k},{k + 1}000\n" for k in range(12)))
    tables = [o for name in ("stages", "strata", "sizes") for o in (f"--{name}", tmp_path / f"{name}.csv")]
    body = report(capsys, plain, *FACTORS, *tables)
    frame = values()
    change = body["stages"]["changes"][0]
    assert (change["start"], change["end"], change["method"]) == ("m0", "m1", "DPO")
    assert change["judge"] == pytest.approx(frame["judge_score"][1] - frame["judge_score"][0])
    assert change["factors"]["know"] == pytest.approx(frame["bbh"][1] - frame["bbh"][0])
    assert body["factors"]["know"]["strata"]["x"]["n"] == 6
    even = frame.iloc[::2]
    assert body["factors"]["know"]["strata"]["x"]["pearson"] == pytest.approx(
        even["judge_score"].corr(even["bbh"]), abs=1e-6
    )
    assert body["sizes"]["judge"]["spearman"] == pytest.approx(
        frame["judge_score"].corr(pd.Series(range(12)), method="spearman"), abs=1e-6
    )


def test_the_page_and_its_data_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, plain: Path) -> None:
    code, out, _ = run(capsys, plain, *FACTORS, "--out", tmp_path / "out")
    assert code == 0
    assert "Next: open the report in a browser" in out
    written = json.loads((tmp_path / "out" / "judge-meta.json").read_text())
    assert written["finding"] in out
    page = (tmp_path / "out" / "judge-meta.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert page.count("<svg") == 4


def test_hostile_names_are_harmless_on_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    frame = values()
    frame.loc[0, "model"] = "<script>alert(1)</script>"
    frame.loc[1, "model"] = "$\\frac{x}$ \u202e"
    frame = frame.rename(columns={"bbh": "<img src=x onerror=y>"})
    path = tmp_path / "hostile.csv"
    frame.to_csv(path, index=False)
    code, _, errors = run(capsys, path, "--factor", "<b>=<img src=x onerror=y>", "--out", tmp_path / "out")
    assert code == 0, errors
    page = (tmp_path / "out" / "judge-meta.html").read_text()
    assert not any(bad in page for bad in ("<script", "<img", "<b>=", "\u202e"))


HUGE = "9" * 401
BAD: list[tuple[str, str, tuple[str, ...], str]] = [
    ("t.csv", "", (), "column 'model' is missing"),
    ("t.csv", "model,judge_score,bbh\n", (), "holds no rows"),
    ("t.csv", "a,b\n1,2\n", (), "column 'model' is missing"),
    ("t.csv", "model,bbh\na,0.5\nb,0.6\n", (), "no column 'judge_score' or"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\na,2,0.6\n", (), "line 3: model 'a' stands in line 2 already"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\n,2,0.6\n", (), "line 3: model is empty"),
    ("t.csv", "model,judge_score,bbh\na,1,high\nb,2,0.6\n", (), "line 2: bbh is 'high', it should be a number"),
    ("t.csv", "model,judge_score,bbh\na,inf,0.5\nb,2,0.6\n", (), "judge_score is 'inf'"),
    ("t.csv", "model,judge_score,bbh\na,1e300,0.5\nb,2,0.6\n", (), "judge_score is 1e+300, it should lie within"),
    ("t.csv", "model,judge_score,bbh\na,1,-0.5\nb,2,0.6\n", (), "bbh of a is -0.5, it should lie between 0 and 1"),
    ("t.csv", "model,judge_score,bbh\na,1,150\nb,2,60\n", (), "bbh of a is 150, it should lie between 0 and 100"),
    ("t.csv", "model,judge_score,other\na,1,0.5\nb,2,0.6\n", (), "no column of the benchmarks that sos-bench names"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--factor", "a=nope"), "the command line names (nope)"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\n", (), "1 of 1 models"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,,0.6\n", ("--judge-column", "nope"), "no column 'nope' in any table"),
    ("t.csv", "model,judge_score,bbh\na,,0.5\nb,,0.6\n", (), "no model has one"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5,3\n", (), "found 4 fields, the header has 3"),
    ("t.xlsx", "", (), "ends in .csv, .jsonl or .parquet"),
    ("t.json", "{", (), "not JSON"),
    ("t.json", '{"results": 3}', (), "no lm-evaluation-harness results file"),
    ("t.json", '{"results": {"bbh": {"acc": 1}}}', (), "does not say which model was run"),
    ("t.json", f'{{"results": {{"bbh": {{"acc": {HUGE}}}}}, "model_name": "m"}}', (), "results.bbh.acc is 9999"),
    ("t.json", f'{{"results": {{"bbh": {{"acc": 1}}}}, "model_name": "m", "date": {HUGE}}}', (), "date is 9999"),
    ("t.json", '{"results": {"bbh": {"acc": 1}}, "model_name": "m", "date": NaN}', (), "date is nan, it should be"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--factor", "safe"), "it should be NAME=COLUMN,COLUMN"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--factor", "a=bbh", "--factor", "b=bbh"), "stands twice"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--stages", "SIDE"), "'start' is missing"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--strata", "SIDE"), "column 'stratum' is missing"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--names", "missing.csv"), "no such file"),
    ("t.csv", "model,judge_score,bbh\na,1,0.5\nb,2,0.6\n", ("--composition", "SIDE"), "SIDE"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "message"), BAD)
def test_what_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    side = tmp_path / "side.csv"
    side.write_text("model,x\na,1\n")
    code, out, errors = run(capsys, path, *(str(side) if o == "SIDE" else o for o in options))
    assert (code, out) == (2, "")
    assert message.replace("SIDE", str(side)) in errors
    assert "Traceback" not in errors
    assert errors.startswith("Error: ")


def test_names_that_do_not_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path, plain: Path) -> None:
    values().drop(columns="judge_score").to_csv(tmp_path / "other.csv", index=False)
    values()[["model", "judge_score"]].to_csv(tmp_path / "scores.csv", index=False)
    names = tmp_path / "n.csv"
    for text, message in [
        ("scores,other\nm0,zzz\n", "n.csv, line 2: other is 'zzz', which"),
        ("scores,other\nm0,m0\nm1,m0\n", "n.csv, line 3: 'm0' stands twice"),
        ("scores,other\n", "holds no rows"),
    ]:
        names.write_text(text)
        code, _, errors = run(capsys, tmp_path / "scores.csv", tmp_path / "other.csv", "--names", names)
        assert code == 2
        assert message in errors
    code, _, errors = run(capsys, tmp_path / "other.csv", plain)
    assert code == 2
    assert "bbh stands in other and plain" in errors


def test_missing_and_empty_folders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no result table" in run(capsys, tmp_path / "empty")[2]
    assert "no such file" in run(capsys, tmp_path / "none.csv")[2]


def test_the_reference_composition_is_the_definitions() -> None:
    composition = load_composition(None)
    assert {name: len(group) for name, group in composition.factors.items()} == {
        "world_knowledge": 10,
        "instruction_following": 2,
        "safety": 12,
    }
    assert [b.name for group in composition.factors.values() for b in group if b.invert] == ["wmdp"]
    assert [composition.stratum(name) for name in ("Llama3-8B-MetaMath", "mistral-7b", "gpt-4")] == [
        "Llama",
        "Mistral",
        None,
    ]
