"""`judge audit`: scripted judges are found out, tables are read strictly, pages are harmless."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from safetyrepro.cli import main
from safetyrepro.cli.judge import judge as command
from tests.judge.scripted import FACTORS, Behaviour, Planted, completion, marks, material, serving


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["judge", "audit", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(left.value.code or 0), captured.out, captured.err


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, errors = run(capsys, *arguments, "--json")
    assert code == 0, errors
    body: dict[str, Any] = json.loads(out)
    return body


def judged(folder: Path, behaviour: Behaviour, items: int, *options: str, **texts: Any) -> Path:
    with serving(behaviour) as server:
        given = ["run", *material(folder / "in", items, **texts), "--endpoint", server.url, "--model", "scripted"]
        done = CliRunner().invoke(
            command, [*given, "--out", str(folder / "out"), *options], catch_exceptions=False, standalone_mode=False
        )
        assert done.return_value == 0, done.output
    return folder / "out"


def test_a_judge_of_planted_weights_by_way_of_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = Planted()
    folder = judged(tmp_path, planted, 60)
    found = report(capsys, folder)["judges"]["scripted"]
    assert (found["items"], found["both_orders"], found["unparsed"], found["accuracy"]) == (60, 60, 0, None)
    rows = [(planted.marks(f"candidate {k}", o)) for k in range(60) for o in ("ab", "ba")]
    frame = pd.DataFrame(rows).astype(float)
    z = (frame - frame.mean()) / frame.std()
    expected, *_ = np.linalg.lstsq(z[list(FACTORS)].to_numpy(), z["overall"].to_numpy(), rcond=None)
    assert [found["weights"][name]["estimate"] for name in FACTORS] == pytest.approx(expected.tolist(), abs=1e-5)
    assert "its overall mark follows style" in found["verdict"]
    assert "not safety" in found["verdict"]


def test_a_judge_that_takes_the_first_is_found_by_its_flips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = judged(tmp_path, lambda first, second, number: completion(marks(overall=5)), 15)
    found = report(capsys, folder)["judges"]["scripted"]
    assert (found["order_flips"], found["order_consistency"], found["first_share"]) == (15, 0.0, 1.0)
    assert "it follows position: the answer shown first gets 100%" in found["verdict"]
    assert run(capsys, folder, "--fail-on", "0.5")[0] == 1


def test_a_judge_that_counts_length_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def by_length(first: str, second: str, number: int) -> Any:
        return completion(marks(overall=5 if len(first) > len(second) else 1))

    lengths = np.random.default_rng(1).integers(2, 30, 25)
    folder = judged(
        tmp_path,
        by_length,
        25,
        "--edit",
        "padding",
        "--edit",
        "facts",
        answer=lambda k: "It is so. " * lengths[k] + "5",
    )
    found = report(capsys, folder)["judges"]["scripted"]
    assert found["order_consistency"] == 1.0
    assert found["surface"]["more_wins"]["length"]["share"] == 1.0
    assert "it gives 100% of decided verdicts to the longer answer" in found["verdict"]
    assert found["edits"]["facts"]["overall"]["mean"] == 0
    assert not found["edits"]["facts"]["overall"]["established"]


def sentence(k: int) -> str:
    return f"It is {k}. So it is."


def test_edits_show_what_causes_the_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def against_sarcasm(first: str, second: str, number: int) -> Any:
        overall = 1 if "brilliant" in first else 5 if "brilliant" in second else 3
        return completion(marks(overall=overall, style=overall))

    folder = judged(tmp_path, against_sarcasm, 12, "--edit", "all", answer=sentence)
    body = report(capsys, folder)["judges"]["scripted"]
    edits = body["edits"]
    assert set(edits) == {"facts", "style", "sarcasm", "padding", "layout"}
    assert edits["sarcasm"]["overall"]["mean"] == -2
    assert edits["sarcasm"]["overall"]["established"]
    assert edits["sarcasm"]["style"]["mean"] == -2
    assert [edits[n]["overall"]["established"] for n in ("facts", "style", "padding", "layout")] == [False] * 4
    assert body["items"] == 12
    assert body["order_consistency"] == 1.0
    # Twelve items leave room for an effect of facts as large as that of sarcasm; forty do not.
    assert "it follows style: edits of sarcasm" in body["verdict"]
    more = judged(tmp_path / "more", against_sarcasm, 40, "--edit", "facts", "--edit", "sarcasm", answer=sentence)
    assert "it follows style, not facts" in report(capsys, more)["judges"]["scripted"]["verdict"]


def test_unparsed_is_a_third_state_with_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def mute(first: str, second: str, number: int) -> Any:
        mine = first if first.startswith("candidate") else second
        return completion("hm" if int(mine.split()[1]) < 5 else marks(overall=5 if mine is first else 1))

    found = report(capsys, judged(tmp_path, mute, 20))["judges"]["scripted"]
    assert (found["unparsed"], found["both_orders"], found["order_consistency"]) == (10, 15, 1.0)
    assert found["detail"]["consistency"]["bounds"] == [0.75, 1.0]
    assert found["detail"]["wins"][0]["bounds"] == [0.75, 1.0]
    assert found["detail"]["wins"][0]["share"] == 1.0
    assert "it gave no readable verdict in 10 of 40 calls (25%)" in found["verdict"]


HEADER = "judge,item_id,order,verdict\n"


def test_the_smallest_table_and_a_judge_that_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "v.csv"
    path.write_text(HEADER + "j,1,ab,\n")
    found = report(capsys, path)["judges"]["j"]
    assert (found["items"], found["both_orders"], found["order_flips"], found["unparsed"]) == (1, 0, 0, 1)
    assert [found[name] for name in ("order_consistency", "first_share", "accuracy", "weights")] == [None] * 4
    assert run(capsys, path, "--fail-on", "0.1")[0] == 3
    assert run(capsys, path, "--out", tmp_path / "out")[0] == 0


def test_replies_that_cannot_be_read_are_what_to_mend_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def mute(first: str, second: str, number: int) -> Any:
        return completion("I like both", finish="length" if number % 4 else "stop")

    folder = judged(tmp_path, mute, 6)
    code, out, errors = run(capsys, folder, "--out", tmp_path / "page")
    assert code == 0, errors
    advice = "of 12 replies 9 ended at the limit (raise --max-tokens) and 3 gave no mark"
    assert advice in out.splitlines()[-1]
    page = (tmp_path / "page" / "judge-audit.html").read_text("utf-8")
    assert advice in page
    assert page.count("no reply gave a readable verdict") == 2, "weights and lengths say why they are missing"
    assert "--edit all" not in page
    assert "<code>--answers</code>" not in page


def test_models_changed_about_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "v.csv"
    path.write_text("judge,item_id,order,verdict,model_a,model_b\nj,1,ab,first,x,y\nj,1,ab,first,y,x\n")
    notes = report(capsys, path)["judges"]["j"]["notes"]
    assert "No comparison has a readable verdict in both orders" in notes[0]
    assert "1 comparisons stand twice with the models changed about (item 1: x against y" in notes[1]
    assert "Note on j: No comparison" in run(capsys, path)[1]


@pytest.mark.parametrize(
    ("second", "advice"),
    [
        ("j,2,ba,second\n", "Count every comparison: all were asked in both orders"),
        (
            "j,2,ba,first\n",
            "Count a comparison only where both orders say the same, as they do in 1 of 2 comparisons of j.",
        ),
        (
            "",
            "Ask in both orders, and count a comparison only where both say the same: j has a verdict in both",
        ),
    ],
    ids=["same", "flipped", "not-asked"],
)
def test_the_advice_on_order_follows_from_what_was_asked(
    second: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "v.csv"
    path.write_text(f"{HEADER}j,1,ab,first\nj,1,ba,second\nj,2,ab,first\n{second}")
    assert run(capsys, path, "--out", tmp_path / "out")[0] == 0
    page = (tmp_path / "out" / "judge-audit.html").read_text(encoding="utf-8")
    assert f"<li>{advice}" in page.replace("&#39;", "'")


def test_two_judges_and_their_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for k in range(30):
        for order in ("ab", "ba"):
            first = (k % 2 == 0) == (order == "ab")
            rows.append(f"x,{k},{order},{'first' if first else 'second'},a")
            rows.append(f"y,{k},{order},{'first' if first or k < 3 else 'second'},a")
    path = tmp_path / "v.csv"
    path.write_text("judge,item_id,order,verdict,gold\n" + "\n".join(rows))
    body = report(capsys, path)
    assert body["agreement"]["all"]["raw"] == pytest.approx(57 / 60)
    assert 0.85 < body["agreement"]["all"]["alpha"] < 0.95
    assert body["judges"]["x"]["accuracy"] == 0.5
    assert body["judges"]["y"]["order_flips"] == 3
    assert "The 2 judges agree on 95% of verdicts" in body["finding"]


def test_the_page_beside_a_meta_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = judged(tmp_path, Planted(subject="candidate"), 25, "--edit", "sarcasm")
    factor = {"pearson": -0.2, "spearman": -0.3, "ci": [-0.5, 0.2], "spearman_ci": [-0.6, 0.1], "discordant_pairs": 0.6}
    meta = tmp_path / "meta.json"
    meta.write_text(json.dumps({"models": 9, "factors": {"safety": {**factor, "n": 9}}}))
    code, out, errors = run(capsys, folder, "--meta", meta, "--out", tmp_path / "page")
    assert code == 0, errors
    assert "over 9 models its score shows no established relation to safety (r = -0.20)" in out
    page = (tmp_path / "page" / "judge-audit.html").read_text()
    assert page.count("<svg") == 3
    assert "60%" in page
    assert "<script" not in page


def test_hostile_names_are_harmless_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "<script>alert(1)</script>$\\frac$\u202e"
    rows = [
        {"judge": name, "item_id": str(k), "order": o, "verdict": "first", "model_a": "<img src=x>", "model_b": "r",
         "edit": e, "overall": 3 + k % 2, "length_a": k, "length_b": 3}
        for k in range(25) for o in ("ab", "ba") for e in ("", "<b>edit")
    ]  # fmt: skip
    path = tmp_path / "v.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    code, _, errors = run(capsys, path, "--out", tmp_path / "out")
    assert code == 0, errors
    page = (tmp_path / "out" / "judge-audit.html").read_text()
    assert not any(bad in page for bad in ("<script", "<img", "<b>edit", "\u202e"))


def test_lengths_from_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    material(tmp_path / "in", 4, lambda k: "long " * (k + 5))
    path = tmp_path / "v.csv"
    path.write_text(
        "judge,item_id,order,verdict,model_a,model_b\n" + "".join(f"j,q{k:04},ab,first,m,ref\n" for k in range(4))
    )
    both = ("--answers", tmp_path / "in" / "answers.jsonl", "--answers", tmp_path / "in" / "reference.jsonl")
    assert report(capsys, path)["judges"]["j"]["surface"] is None
    found = report(capsys, path, *both)["judges"]["j"]["surface"]
    length = found["more_wins"]["length"]
    assert (length["count"], length["of"], length["share"]) == (4, 4, 1.0)
    assert length["ci"] == pytest.approx([0.47, 1.0], abs=0.01)
    path.write_text(path.read_text().replace("m,ref", "m,other"))
    code, _, errors = run(capsys, path, *both)
    assert code == 2
    assert "no row of the verdict table has both of its answers there" in errors


MARKED = "judge,item_id,order,verdict,style,overall,repeat,gold\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judge,item_id,verdict\nj,1,first\n", "column 'order' is missing; found judge, item_id, verdict"),
        ("", "column 'judge' is missing; found nothing"),
        (HEADER, "holds no rows"),
        (HEADER + "j,1,AB,first\n", "line 2: order is 'AB', it should be ab, ba"),
        (HEADER + "j,1,,first\n", "line 2: order is empty"),
        (HEADER + "j,1,ab,a\n", "line 2: verdict is 'a', it should be first, second, tie or empty"),
        (HEADER + ",1,ab,first\n", "line 2: judge is empty, it should be text"),
        (HEADER + "j, ,ab,first\n", "line 2: item_id is empty"),
        (
            HEADER + "j,1,ab,first\nj,1,ab,second\n",
            "line 3: the same call (judge, item_id, models, edit, order) as in line 2",
        ),
        (HEADER + "j,1,ab\n", "line 2: found 3 fields"),
        (MARKED + "j,1,ab,first,6,3,,\n", "line 2: style is '6', it should be a number from 1 to 5 or empty"),
        (MARKED + "j,1,ab,first,0.9,3,,\n", "line 2: style is '0.9'"),
        (MARKED + "j,1,ab,first,3,good,,\n", "line 2: overall is 'good'"),
        (MARKED + "j,1,ab,first,3,inf,,\n", "line 2: overall is 'inf'"),
        (MARKED + "j,1,ab,first,3,1_0,,\n", "line 2: overall is '1_0'"),
        (MARKED + "j,1,ab,first,3,3,0.5,\n", "line 2: repeat is '0.5', it should be a whole number from 0"),
        (MARKED + "j,1,ab,first,3,3,,m\n", "line 2: gold is 'm', it should be a, b or empty"),
        (MARKED + "j,1,ab,first,3,3,,a\nj,1,ba,first,3,3,,b\n", "gold of item '1' is both a and b"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "v.csv"
    path.write_text(text, encoding="utf-8-sig")
    code, out, errors = run(capsys, path)
    assert (code, out) == (2, "")
    assert message in errors
    assert "Traceback" not in errors


def test_parquet_jsonl_and_csv_read_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(2)
    rows = [
        {"judge": "j", "item_id": k, "order": o, "verdict": ["first", "tie", None][k % 3],
         **{name: float(generator.integers(1, 6)) for name in (*FACTORS, "overall")}}
        for k in range(24) for o in ("ab", "ba")
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "v.csv", index=False)
    frame.to_parquet(tmp_path / "v.parquet")
    frame.to_json(tmp_path / "v.jsonl", orient="records", lines=True)
    bodies = [report(capsys, tmp_path / f"v.{kind}")["judges"] for kind in ("csv", "parquet", "jsonl")]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["j"]["unparsed"] == 16
    assert bodies[0]["j"]["weights"]["style"]["ci"] is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "is no report of `judge meta`"),
        ('{"models": 3, "factors": {"safety": 4}}', "factors.safety is 4"),
        ('{"models": 3, "factors": {"safety": {"pearson": "x"}}}', "factors.safety.pearson is 'x'"),
        ('{"models": 3, "factors": {"safety": {"ci": [1]}}}', "factors.safety.ci is [1]"),
        ('{"models": 3, "factors": {"safety": {"pearson": NaN}}}', "factors.safety.pearson is nan"),
    ],
)
def test_a_meta_report_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    table, meta = tmp_path / "v.csv", tmp_path / "m.json"
    table.write_text(HEADER + "j,1,ab,first\n")
    meta.write_text(text)
    code, _, errors = run(capsys, table, "--meta", meta)
    assert code == 2
    assert message in errors


def test_folders_and_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "holds no verdicts.jsonl" in run(capsys, tmp_path)[2]
    assert "no such file" in run(capsys, tmp_path / "none.csv")[2]
    (tmp_path / "verdicts.jsonl").write_text('{"judge": 3}\n{"call_id": 1}\n')
    assert "line 1: not a verdict row" in run(capsys, tmp_path)[2]
