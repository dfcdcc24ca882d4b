from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from safetyrepro.cli import main
from safetyrepro.flips.signal_table import read_signal_tables
from tests.flips.outcomes import planted, rows, write_csv

SCRIPT = "<script>alert(1)</script>"


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in ("flips", *arguments)])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def analyzed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    code, out, err = call(capsys, "analyze", *arguments, "--old", "v1", "--new", "v2", "--json")
    assert code == 0, err
    body: dict[str, Any] = json.loads(out)
    return body


def outcomes(config: str = "c1", **more: Any) -> list[dict[str, Any]]:
    # Four lost, one won, five stay right, two stay wrong.
    old, new = [1] * 9 + [0] * 3, [0] * 4 + [1] * 5 + [1, 0, 0]
    return rows("v1", old, config=config, **more) + rows("v2", new, config=config, **more)


def test_json_of_one_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = analyzed(capsys, write_csv(tmp_path / "t.csv", outcomes()))
    assert {key: body[key] for key in ("items", "negative_flips", "positive_flips", "signals")} == {
        "items": 12,
        "negative_flips": 4,
        "positive_flips": 1,
        "signals": [],
    }
    assert body["accuracy_old"] == 0.75
    assert body["accuracy_new"] == 0.5
    assert (body["nfr"], body["nfr_old_correct"]) == (round(4 / 12, 6), round(4 / 9, 6))
    assert [row["item_id"] for row in body["flips"] if row["kind"] == "negative"] == ["i0", "i1", "i2", "i3"]
    assert body["gate"] is None


def test_json_of_several_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = rows("v1", [1] * 12, config="c2") + rows("v2", [0, 1, 1, 1] + [1] * 7 + [0], config="c2")
    path = write_csv(tmp_path / "t.csv", outcomes() + second)
    body = analyzed(capsys, path)
    assert [(entry["config_id"], entry["negative_flips"]) for entry in body["by_config"]] == [("c1", 4), ("c2", 2)]
    assert body["stability"][0]["stable"] == ["i0"]
    assert body["stability"][0]["fragile"] == ["i1", "i2", "i3", "i11"]
    alone = analyzed(capsys, path, "--config", "c2")
    assert (alone["config_id"], alone["negative_flips"]) == ("c2", 2)
    code, out, _ = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--out", tmp_path / "out")
    assert code == 0
    assert "1 flips under every one of 2 configurations and 4 under some only" in out
    assert "c2" in (tmp_path / "out" / "flips.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("margin", "code", "word", "tag"),
    [
        ("nfr=0.9", 0, "PASS", "system-out"),
        ("nfr=0.01", 1, "FAIL", "failure"),
        ("nfr_old_correct=0.4", 3, "INCONCLUSIVE", "error"),
    ],
)
def test_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], margin: str, code: int, word: str, tag: str) -> None:
    path, junit = write_csv(tmp_path / "t.csv", outcomes()), tmp_path / "gate.xml"
    arguments = ["analyze", path, "--old", "v1", "--new", "v2", "--fail-on", margin, "--junit", junit]
    ended, out, _ = call(capsys, *arguments)
    assert ended == code
    assert f"{word}: negative flips" in out
    assert ElementTree.parse(junit).find(f".//testcase/{tag}") is not None
    ended, out, _ = call(capsys, *arguments, "--json")
    assert (ended, json.loads(out)["gate"]) == (code, word)


def test_same_model_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        row | {"repeat": number} for number, scores in enumerate(([1, 1, 0], [1, 0, 0])) for row in rows("v1", scores)
    ]
    code, out, _ = call(capsys, "analyze", write_csv(tmp_path / "t.csv", table), "--old", "v1", "--new", "v1", "--json")
    body = json.loads(out)
    assert (code, body["negative_flips"]) == (0, 0)
    assert body["churn"]["rate"] == round(1 / 2 / 3, 6)


def test_a_second_run_of_the_old_model_is_its_churn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "t.csv", outcomes() + rows("v1b", [0] + [1] * 8 + [1, 0, 0]))
    body = analyzed(capsys, path, "--again", "v1b")
    assert (body["churn"]["source"], body["churn"]["rate"]) == ("v1b", round(1 / 12, 6))
    code, out, _ = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--again", "v1b")
    assert code == 0
    assert "loses 8.3% of items to itself" in out


def test_pairs_without_flips_and_with_all_flips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signal = {"confidence": [0.1 * place for place in range(40)], "jsd": [0.5] * 40}
    for name, new in (("none", [1] * 40), ("all", [0] * 40)):
        path = write_csv(tmp_path / f"{name}.csv", rows("v1", [1] * 40, **signal) + rows("v2", new, **signal))
        code, out, err = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--out", tmp_path / name)
        assert code == 0, err
        assert "under 25 no signal is judged" in out
    one = write_csv(tmp_path / "one.csv", rows("v1", [1]) + rows("v2", [0]))
    assert analyzed(capsys, one)["nfr"] == 1.0


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]


def test_page_holds_both_answers_and_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = [
        row
        | {"prompt": f"Who is {row['item_id']}?", "answer": f"{row['model']} says {SCRIPT}\u202e", "cluster": SCRIPT}
        for row in outcomes(f"c{SCRIPT}")
    ]
    path = write_csv(tmp_path / "t.csv", table)
    arguments = ["analyze", path, "--old", "v1", "--new", "v2", "--out", tmp_path / "out"]
    code, _, err = call(capsys, *arguments)
    assert code == 0, err
    page = (tmp_path / "out" / "flips.html").read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(page)
    assert "script" not in tags.tags
    assert all(link.startswith("#") for link in tags.links)
    assert "\u202e" not in page
    for words in ("v1<i>·</i>", "v2<i>·</i>", "Who<i>·</i>", "4 lost"):
        assert words in page
    call(capsys, *arguments, "--redact")
    for name in ("flips.html", "flips.json"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "Who" not in text
        assert "says" not in text


@pytest.fixture(scope="module")
def signal_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = planted(400, 120)
    body = [
        {"item_id": item, "old_correct": 1, "new_correct": int(right), "confidence": confidence, "knows": knows}
        for item, right, confidence, knows in zip(
            table.items, table.new_right, table.signals["confidence_new"], table.signals["knows"], strict=True
        )
    ]
    return write_csv(tmp_path_factory.mktemp("signals") / "update.csv", body)


def test_signals_command(tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "signals", signal_file, "--json", "--out", tmp_path)
    assert code == 0, err
    entry = json.loads(out)["updates"][0]
    assert (entry["update"], entry["negative_flips"]) == ("update", 120)
    assert [row["verdict"] for row in entry["signals"]] == ["adds value", "baseline"]
    assert entry["fallback"]["signals"][0]["signal"] == "knows"
    assert "too few to say whether any wins everywhere" in (tmp_path / "signals.html").read_text(encoding="utf-8")


def test_policy_and_route(tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.json"
    code, out, err = call(capsys, "policy", signal_file, "--signal", "knows", "--target-nfr", "0.1", "--out", policy)
    assert code == 0, err
    assert "it routes 20% to the old model and leaves 9.8% negative flips (target 10%, without routing 30%)" in out
    assert "Cost: 1.20 to 2.00 model runs per item" in out
    new = write_csv(
        tmp_path / "new.csv", [{"item_id": name, "knows": value} for name, value in (("a", 1.2), ("b", 0.0), ("c", ""))]
    )
    code, out, _ = call(capsys, "route", policy, new, "--json", "--out", tmp_path / "routes.csv")
    assert code == 0
    assert [(row["item_id"], row["route"]) for row in json.loads(out)["routes"]] == [
        ("a", "old"),
        ("b", "new"),
        ("c", "old"),
    ]
    assert (tmp_path / "routes.csv").read_text(encoding="utf-8").splitlines()[3] == "c,,old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--old", "v3", "--new", "v2"], "--old is 'v3', the table holds 'v1', 'v2'"),
        (["--old", "v1", "--new", "v2", "--config", "zzz"], "is none of the configurations"),
        (["--old", "v1", "--new", "v2", "--fail-on", "nfr=2"], "a MARGIN between 0 and 1"),
        (["--old", "v1", "--new", "v2", "--fail-on", "nfr=nan"], "a MARGIN between 0 and 1"),
        (["--old", "v1", "--new", "v2", "--fail-on", "churn=0.1"], "METRIC one of nfr, nfr_old_correct"),
        (["--old", "v1", "--new", "v2", "--fail-on", "nfr=.1", "--fail-on", "nfr=.2"], "names nfr twice"),
        (["--old", "v1", "--new", "v2", "--junit", "x.xml"], "name a margin with --fail-on"),
        (["--old", "v1", "--new", "v2", "--by", "colour"], "--by is 'colour', the table has no such column"),
        (["--old", "v1", "--new", "v2", "--signal", "kl"], "signal 'kl' is not in the table"),
        (["--old", "v1", "--new", "v2", "--right-at", "inf"], "inf is not a finite number"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = write_csv(tmp_path / "t.csv", outcomes())
    code, out, err = call(capsys, "analyze", path, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_no_item_in_common_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = rows("v1", [1, 0]) + [row | {"item_id": f"x{row['item_id']}"} for row in rows("v2", [1, 0])]
    code, _, err = call(capsys, "analyze", write_csv(tmp_path / "t.csv", table), "--old", "v1", "--new", "v2")
    assert code == 2
    assert "no item has a score for both models: 2 items were asked of 'v1' alone, 2 of 'v2' alone" in err


def test_signals_of_a_score_table_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = planted(300, 100)
    confidence, knows = (table.signals[name].tolist() for name in ("confidence_new", "knows"))
    path = write_csv(
        tmp_path / "t.csv",
        rows("v1", [1] * 300)
        + rows("v2", np.where(table.new_right, 1, 0).tolist(), confidence=confidence, knows=knows),
    )
    body = analyzed(capsys, path)
    knows_row = next(row for row in body["signals"] if row["signal"] == "knows")
    assert knows_row["verdict"] == knows_row["label_free"]["verdict"] == "adds value"
    assert body["signal_study"]["old_correct"]["adding"] == ["knows"]
    out, policy = tmp_path / "out", tmp_path / "policy.json"
    code, said, _ = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--out", out)
    assert (code, f"Written: {out / 'signals.csv'}" in said) == (0, True)
    code, said, err = call(
        capsys, "policy", out / "signals.csv", "--signal", "knows", "--target-nfr", "0.1", "--out", policy
    )
    assert code == 0, err
    assert "without routing 33%" in said
    code, said, err = call(capsys, "route", policy, out / "signals.csv")
    assert code == 0, err
    assert f"of {len(table.items)} items, by knows" in said


@pytest.mark.parametrize("way", ["itself", "soft link", "hard link"])
@pytest.mark.parametrize("command", ["route", "policy"])
def test_an_input_is_never_written_over(
    tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str], command: str, way: str
) -> None:
    table = tmp_path / "signals.csv"
    table.write_bytes(signal_file.read_bytes())
    out = table if way == "itself" else tmp_path / "link.csv"
    if way == "soft link":
        out.symlink_to(table)
    elif way == "hard link":
        out.hardlink_to(table)
    policy = tmp_path / "policy.json"
    call(capsys, "policy", signal_file, "--signal", "knows", "--target-nfr", "0.1", "--out", policy)
    arguments: dict[str, list[str | Path]] = {
        "route": ["route", policy, table, "--out", out],
        "policy": ["policy", table, "--signal", "knows", "--target-nfr", "0.1", "--out", out],
    }
    code, printed, err = call(capsys, *arguments[command])
    assert (code, printed) == (2, "")
    assert f"{out}: the output would replace the input {table}" in err
    assert table.read_bytes() == signal_file.read_bytes()


def test_a_policy_is_not_written_over_by_its_routes(
    tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.json"
    call(capsys, "policy", signal_file, "--signal", "knows", "--target-nfr", "0.1", "--out", policy)
    code, _, err = call(capsys, "route", policy, signal_file, "--out", policy)
    assert code == 2
    assert "would replace the input" in err
    assert json.loads(policy.read_text(encoding="utf-8"))["signal"] == "knows"


def test_scores_in_points_need_a_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "t.csv", rows("v1", [90] * 200) + rows("v2", [5] * 200))
    asked = ["analyze", path, "--old", "v1", "--new", "v2", "--fail-on", "nfr=0.02"]
    code, out, err = call(capsys, *asked)
    assert (code, out) == (2, "")
    assert "400 of 400 scores lie outside 0 to 1, the first is 90; say with --right-at" in err
    code, out, _ = call(capsys, *asked, "--right-at", "50")
    assert code == 1
    assert "FAIL: negative flips" in out
    code, out, err = call(capsys, *asked, "--right-at", "90.5")
    assert (code, out) == (2, "")
    assert "--right-at is 90.5, but no score of bench is above 90" in err
    below = write_csv(tmp_path / "below.csv", rows("v1", [-1, 0.5]) + rows("v2", [0, 1]))
    assert call(capsys, "analyze", below, "--old", "v1", "--new", "v2")[0] == 2


def test_only_what_is_compared_has_to_be_on_the_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [row | {"benchmark": "points", "score": 90} for row in outcomes()]
    path = write_csv(tmp_path / "t.csv", outcomes() + points + rows("other", [70] * 12))
    assert analyzed(capsys, path, "--benchmark", "bench")["negative_flips"] == 4
    code, _, err = call(capsys, "analyze", path, "--old", "v1", "--new", "v2")
    assert code == 2
    assert "points: 24 of 24 scores" in err


@pytest.mark.parametrize("metric", ["nfr", "nfr_old_correct"])
def test_nothing_to_lose_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str) -> None:
    path = write_csv(tmp_path / "t.csv", rows("v1", [0] * 400) + rows("v2", [0, 1] * 200))
    code, out, _ = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--fail-on", f"{metric}=0.02")
    assert code == 3
    assert "INCONCLUSIVE: the old model had no item right to lose" in out


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1.5"])
@pytest.mark.parametrize("command", ["analyze", "signals", "policy"])
def test_a_target_is_a_share(
    tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str], command: str, value: str
) -> None:
    more: dict[str, list[str | Path]] = {
        "analyze": ["--old", "v1", "--new", "v2"],
        "signals": [],
        "policy": ["--signal", "knows", "--out", tmp_path / "policy.json"],
    }
    code, out, err = call(capsys, command, signal_file, *more[command], "--target-nfr", value)
    assert (code, out) == (2, "")
    assert "--target-nfr" in err
    assert not (tmp_path / "policy.json").exists()


def test_the_help_names_no_missing_limit(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "analyze", "--help")
    assert "None" not in out


def test_messages_speak_plainly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "t.csv", outcomes())
    _, _, err = call(capsys, "analyze", path, path, "--old", "v1", "--new", "v2")
    assert "item_id 'i0', repeat 0; give each once" in err
    _, _, err = call(capsys, "analyze", path, "--old", "v1", "--new", "v2", "--by", "nosuch")
    assert "found model, benchmark, config_id, item_id, score." in err


def test_advice_follows_the_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def advice(name: str, table: list[dict[str, Any]]) -> str:
        path = write_csv(tmp_path / f"{name}.csv", table)
        code, out, err = call(capsys, "analyze", path, "--old", "v1", "--new", "v2")
        assert code == 0, err
        assert "below" not in out.splitlines()[-1]
        return out.splitlines()[-1]

    chance = rows("v1", [1, 1, 0, 0]) + rows("v2", [0, 1, 1, 0])
    assert "Run more items before looking for a cause" in advice("chance", chance)
    shown = rows("v1", [1] * 12) + rows("v2", [0] * 12)
    assert "Read the lost items: what they have in common is what the update broke" in advice("shown", shown)
    fragile = [
        *chance,
        *rows("v1", [0, 1, 1, 0], config="c2"),
        *rows("v2", [1, 0, 1, 0], config="c2"),
    ]
    assert "Settle the configuration" in advice("fragile", fragile)
    stable = [*chance, *rows("v1", [1, 1, 0, 0], config="c2"), *rows("v2", [0, 1, 1, 0], config="c2")]
    assert "Read the 1 item lost under every configuration first" in advice("stable", stable)
    assert "Accuracy stays at 50%" in call(
        capsys,
        *("analyze", write_csv(tmp_path / "same.csv", rows("v1", [1, 0]) + rows("v2", [1, 0]))),
        *("--old", "v1", "--new", "v2"),
    )[1]  # fmt: skip


def test_one_task_is_said_once(tmp_path: Path, signal_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "signals", signal_file, "--out", tmp_path)
    assert out.count("the one task and update has flips enough to compare signals") == 1
    assert "1 tasks" not in out
    page = (tmp_path / "signals.html").read_text(encoding="utf-8")
    assert page.count("the one task and update has flips enough") == 1
    # The verdict stands in the first columns, whose table is stacked on a narrow screen.
    assert page.index(">Verdict</th>") < page.index(">added AUROC</th>") < page.index("<details>")
    assert 'data-label="Verdict"' in page


def test_half_a_surrogate_pair_stops_nothing(tmp_path: Path) -> None:
    half = "\ud800"
    texts = {name: [half] * 40 for name in ("answer", "category", "prompt", "gold")}
    table = [
        row | {"benchmark": f"b{half}", "item_id": f"{row['item_id']}{half}"}
        for row in rows("v1", [1] * 40, **texts) + rows("v2", [1, 0] * 20, jsd=[0.1, 0.2] * 20, **texts)
    ]
    path, out = tmp_path / "t.jsonl", tmp_path / "out"
    path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    for code, arguments in ((0, ["flips", "analyze", "--old", "v1", "--new", "v2"]), (3, ["grid"])):
        command = [sys.executable, "-m", "safetyrepro", *arguments, str(path), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
    assert len(read_signal_tables([out / "signals.csv"])[0].items) == 40
