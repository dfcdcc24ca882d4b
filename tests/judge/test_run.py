"""`judge run` as people start it, against a real server."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from safetyrepro.cli import main
from safetyrepro.cli.judge import judge as command
from safetyrepro.gateway import Gateway
from safetyrepro.gateway.wire import read_wire
from safetyrepro.judge.budget import Limits
from safetyrepro.judge.endpoint import Endpoint
from safetyrepro.judge.ledger import Ledger
from safetyrepro.judge.plan import plan_calls, read_material
from safetyrepro.judge.prompts import load_prompt
from safetyrepro.judge.run import Outcome, run_calls
from safetyrepro.judge.verdicts import read_verdicts
from safetyrepro.progress import Progress
from safetyrepro.records import write_records
from tests.judge.recorded import recorded
from tests.judge.scripted import Judge, Planted, Reply, completion, marks, material, serving

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine


def arguments(folder: Path, server: Judge, options: list[str], *more: str) -> list[str]:
    return ["run", *options, "--endpoint", server.url, "--model", "scripted", "--out", str(folder / "out"), *more]


def invoke(given: list[str]) -> Any:
    return CliRunner().invoke(command, given, catch_exceptions=False, standalone_mode=False)


def outcome_of(folder: Path, server: Judge, items: int, limits: Limits | None = None, **settings: Any) -> Outcome:
    """A run with short waits, in this process."""
    options = material(folder / "in", items)
    found = read_material(Path(options[1]), [Path(options[3])], Path(options[5]), limit=None, seed=0)
    calls, _ = plan_calls(found, load_prompt(None), judge="j", model="j", max_tokens=50)
    stopping = threading.Event()
    endpoint = Endpoint(server.url, first_wait=0.01, attempts=3, timeout=5, stopping=stopping)
    with Ledger(folder / "out", {"judge": "j"}) as ledger:
        outcome = run_calls(
            calls,
            ledger,
            endpoint,
            limits or Limits(),
            concurrency=settings.get("concurrency", 2),
            stopping=stopping,
            watch=Progress(None),
        )
    endpoint.close()
    return outcome


def test_both_orders_with_marks_toward_the_answer_under_judgement(tmp_path: Path) -> None:
    planted = Planted()
    with serving(planted) as server:
        result = invoke(arguments(tmp_path, server, material(tmp_path / "in", 12), "--json"))
        assert result.return_value == 0
        assert Counter(server.answered).most_common(1)[0][1] == 1
    frame = read_verdicts(tmp_path / "out").frame
    assert len(frame) == 24
    for row in frame.to_dict("records"):
        expected = planted.marks(f"candidate {int(row['item_id'][1:])}", row["order"])
        assert {name: row[name] for name in expected} == expected
        a_wins = "first" if row["order"] == "ab" else "second"
        b_wins = "second" if row["order"] == "ab" else "first"
        assert row["verdict"] == (a_wins if expected["overall"] > 3 else b_wins if expected["overall"] < 3 else "tie")
    wire = list(read_wire(tmp_path / "out" / "wire.jsonl"))
    assert [row.wire_id for row in wire] == [f"judge-{k:06d}" for k in range(1, 25)]
    assert all(row.status == 200 and row.request["temperature"] == 0 for row in wire)
    summary = json.loads(result.stdout)
    assert (summary["prompt_tokens"], summary["completion_tokens"], summary["cost"]) == (2400, 480, None)
    assert read_verdicts(tmp_path / "out" / "verdicts.csv").frame["overall"].sum() == frame["overall"].sum()


def test_started_again_it_asks_for_nothing_twice_and_takes_more_items(tmp_path: Path) -> None:
    with serving(Planted()) as server:
        options = material(tmp_path / "in", 8)
        assert invoke(arguments(tmp_path, server, options, "--limit", "3")).return_value == 0
        assert invoke(arguments(tmp_path, server, options)).return_value == 0
        assert len(server.answered) == len(set(server.answered)) == 16
        assert invoke(arguments(tmp_path, server, options, "--edit", "sarcasm", "--edit", "facts")).return_value == 0
    frame = read_verdicts(tmp_path / "out").frame
    assert Counter(frame["edit"]) == {"": 16, "sarcasm": 16, "facts": 16}
    assert len(server.answered) == 48


def test_other_settings_need_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Planted()) as server:
        options = material(tmp_path / "in", 2)
        invoke(arguments(tmp_path, server, options))
        with pytest.raises(SystemExit) as left:
            main(["judge", *arguments(tmp_path, server, options, "--max-tokens", "9")])
    assert left.value.code == 2
    assert "max_tokens was 256 and is 9 now" in capsys.readouterr().err


def test_a_kill_loses_no_verdict_and_pays_for_none_twice(tmp_path: Path) -> None:
    slow = Planted()

    def behaviour(first: str, second: str, number: int) -> Reply:
        time.sleep(0.02)
        return slow(first, second, number)

    with serving(behaviour) as server:
        given = arguments(tmp_path, server, material(tmp_path / "in", 30), "--concurrency", "3")
        assert invoke([*given, "--limit", "1"]).return_value == 0
        for enough in (8, 25):
            process = subprocess.Popen(
                [sys.executable, "-m", "safetyrepro", "judge", *given],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while len(server.answered) < enough:
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert not (tmp_path / "out" / "summary.json").exists()
        time.sleep(0.2)
        logged = {row.headers["x-item"] for row in read_wire(tmp_path / "out" / "wire.jsonl") if row.status == 200}
        before = len(server.answered)
        assert 8 <= before < 60
        assert invoke(given).return_value == 0
        again = server.answered[before:]
    assert not logged & set(again)
    # Only calls that were under way at a kill, at most three each time, can have been asked twice.
    assert len(server.answered) <= 60 + 6
    frame = read_verdicts(tmp_path / "out").frame
    assert len(frame) == 60
    assert frame["overall"].notna().all()


def test_a_kill_between_the_two_logs_and_in_the_middle_of_a_line(tmp_path: Path) -> None:
    with serving(Planted()) as server:
        outcome_of(tmp_path, server, 5)
        verdicts, wire = tmp_path / "out" / "verdicts.jsonl", tmp_path / "out" / "wire.jsonl"
        lines = verdicts.read_bytes().splitlines(keepends=True)
        verdicts.write_bytes(b"".join(lines[:6]) + lines[6][:40])
        wire.write_bytes(wire.read_bytes() + b'{"wire_id": "judge-0000')
        outcome = outcome_of(tmp_path, server, 5)
        assert (outcome.recovered, outcome.asked, len(server.answered)) == (4, 0, 10)
        assert outcome.tokens.prompt == 1000
    assert len(read_verdicts(tmp_path / "out").frame) == 10


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    with serving(Planted()) as server, Ledger(tmp_path / "out", {}):
        done = subprocess.run(
            [sys.executable, "-m", "safetyrepro", "judge", *arguments(tmp_path, server, material(tmp_path / "in", 2))],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert "another judge run is under way" in done.stderr


def test_unparsed_refused_and_cut_replies_are_kept_and_paid_once(tmp_path: Path) -> None:
    kinds = [
        completion("no idea"),
        completion("", refusal="no"),
        completion('{"corr', finish="length"),
        completion(marks()),
    ]
    with serving(lambda first, second, number: kinds[number % 4]) as server:
        outcome = outcome_of(tmp_path, server, 4, concurrency=1)
        assert outcome.statuses == {"unparsed": 2, "refused": 2, "truncated": 2, "ok": 2}
        assert outcome.complete
        assert outcome_of(tmp_path, server, 4).asked == 0
    frame = read_verdicts(tmp_path / "out").frame
    assert (frame["verdict"] == "").sum() == 6


def test_a_wrong_key_ends_the_run_with_what_to_do(tmp_path: Path) -> None:
    denied = Reply(401, b'{"error": {"message": "bad key"}}')
    with serving(lambda first, second, number: denied) as server:
        given = arguments(tmp_path, server, material(tmp_path / "in", 40), "--concurrency", "2")
        result = invoke(given)
        assert len(server.answered) <= 4
    assert result.return_value == 2
    assert "the endpoint refuses the key (401: bad key); set SAFETYREPRO_UPSTREAM_KEY" in result.stderr


def test_an_endpoint_that_only_fails_ends_the_run_and_a_later_start_finishes_it(tmp_path: Path) -> None:
    broken = True
    planted = Planted()

    def behaviour(first: str, second: str, number: int) -> Reply:
        return Reply(500, b'{"error": {"message": "boom"}}') if broken else planted(first, second, number)

    with serving(behaviour) as server:
        outcome = outcome_of(tmp_path, server, 30)
        assert outcome.stopped is not None
        assert "calls in a row have no answer (500: boom)" in outcome.stopped
        assert len(server.answered) <= 3 * 8
        assert not outcome.complete
        broken = False
        assert outcome_of(tmp_path, server, 30).complete


def test_a_rejected_call_is_named_and_tried_again_by_the_next_start(tmp_path: Path) -> None:
    planted = Planted()
    long = Reply(400, b'{"error": {"message": "context length exceeded"}}')

    def behaviour(first: str, second: str, number: int) -> Reply:
        return long if "candidate 3" in first + second and number < 20 else planted(first, second, number)

    with serving(behaviour) as server:
        outcome = outcome_of(tmp_path, server, 5)
        assert outcome.statuses == {"ok": 8, "error": 2}
        assert outcome.failures == {"400: context length exceeded": 2}
        assert (read_verdicts(tmp_path / "out").frame["verdict"] == "").sum() == 2
        server.requests += [{}] * 20
        assert outcome_of(tmp_path, server, 5).statuses == {"ok": 10}
    assert len(read_verdicts(tmp_path / "out").frame) == 10


def test_a_model_behind_the_gateway_as_judge(
    tmp_path: Path, tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random model gives no verdict, and the gateway's wire log joins the run's by call."""
    with Gateway(tiny_engine) as gateway:
        gate = gateway.open_run("judge", tmp_path / "gate.jsonl")
        monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", gate.token)
        given = ["run", *material(tmp_path / "in", 2), "--endpoint", gate.base_url, "--model", "model"]
        result = invoke([*given, "--out", str(tmp_path / "out"), "--max-tokens", "3", "--json"])
        assert result.return_value == 0, result.stderr
        gateway.close_run("judge")
    summary = json.loads(result.stdout)
    assert sum(summary["statuses"].values()) == summary["requests"] == 4
    assert "ok" not in summary["statuses"]
    ours, theirs = (list(read_wire(tmp_path / name)) for name in ("out/wire.jsonl", "gate.jsonl"))
    assert {row.headers["x-item"]: row.request for row in ours} == {r.headers["x-item"]: r.request for r in theirs}
    assert gate.token not in (tmp_path / "out" / "wire.jsonl").read_text()


def test_answers_from_the_records_of_a_run(tmp_path: Path) -> None:
    options = material(tmp_path / "in", 2)
    rows = [recorded(f"q{k:04}", 1.0, "m", f"candidate {k}") for k in range(2)]
    write_records(tmp_path / "records.parquet", rows)
    options[3] = str(tmp_path / "records.parquet")
    with serving(Planted()) as server:
        assert invoke(arguments(tmp_path, server, options)).return_value == 0
    assert set(read_verdicts(tmp_path / "out").frame["model_a"]) == {"m"}


PRICES = Limits(price_in=1_000_000, price_out=1_000_000)
"""One unit of money a token."""


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_cap_is_never_passed_and_lifting_it_goes_on(tmp_path: Path, concurrency: int) -> None:
    with serving(Planted()) as server:
        capped = Limits(PRICES.price_in, PRICES.price_out, max_cost=4000)
        outcome = outcome_of(tmp_path, server, 30, capped, concurrency=concurrency)
        assert outcome.stopped is not None
        assert "cap" in outcome.stopped
        # A prompt of some 1,100 bytes can be as many tokens until three replies have told how many it really is.
        assert 120 <= outcome.cost <= 4000
        assert outcome.cost == 120 * len(server.answered)
        again = outcome_of(tmp_path, server, 30, capped, concurrency=concurrency)
        assert again.cost <= 4000
        assert outcome_of(tmp_path, server, 30, PRICES).complete
        assert len(server.answered) == 60


def test_a_reply_without_usage_counts_as_the_most_it_can_have_cost(tmp_path: Path) -> None:
    silent = completion(marks(), usage=None)
    lying = completion(marks(), usage=(-5, 10**30))
    with serving(lambda first, second, number: silent if number % 2 else lying) as server:
        outcome = outcome_of(tmp_path, server, 3, Limits(max_tokens=5000))
        assert outcome.unknown_usage == len(server.answered) > 0
        assert outcome.tokens.total <= 5000
        assert outcome.stopped is not None


def test_attempts_that_may_have_been_billed_count_toward_the_cap(tmp_path: Path) -> None:
    with serving(lambda first, second, number: Reply(200, b"{" * 50, cut=True)) as server:
        outcome = outcome_of(tmp_path, server, 3, Limits(max_tokens=3000), concurrency=1)
        assert len(server.answered) == 2
        assert outcome.stopped == "the cap on spending leaves no room for another attempt"
        assert outcome.tokens.total <= 3000


def test_a_cost_cap_needs_prices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Planted()) as server, pytest.raises(SystemExit) as left:
        main(["judge", *arguments(tmp_path, server, material(tmp_path / "in", 2), "--max-cost", "1")])
    assert left.value.code == 2
    assert "--max-cost needs --price-in and --price-out" in capsys.readouterr().err


def test_texts_of_every_kind_survive_the_way(tmp_path: Path) -> None:
    strange = [
        "\ud83d\ude00 ok",
        "half \ud800 pair",
        "</script>{{ 7*7 }}{% raw %}",
        "\u202eevil",
        "[end of first answer",
        "",
    ]
    with serving(lambda first, second, number: completion("\ud800" + marks(overall=4))) as server:
        options = material(tmp_path / "in", 6, lambda k: strange[k])
        assert invoke(arguments(tmp_path, server, options)).return_value == 0
        prompts = [body["messages"][-1]["content"] for body in server.requests]
    assert any("{{ 7*7 }}" in prompt for prompt in prompts)
    with (tmp_path / "out" / "verdicts.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.DictReader(stream))) == 12
    assert read_verdicts(tmp_path / "out").frame["verdict"].isin(["first"]).all()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("questions", "", "one of item_id, question_id, id is needed"),
        ("questions", '{"item_id": "q", "question": 5}\n', "line 1: question is 5, it should be a text"),
        ("questions", '{"item_id": "q", "turns": [{"content": "a"}, {"content": "b"}]}\n', "2 turns; only single"),
        ("questions", '{"item_id": "q", "question": "a"}\n{"item_id": "q", "question": "b"}\n', "'q' stands twice"),
        ("questions", '{"item_id": null, "question": "a"}\n', "item_id is None, it should be an id"),
        ("questions", '{"item_id": "zzz", "question": "a"}\n', "No question of"),
        ("answers", '{"item_id": "q0000", "model": "ref", "answer": "x"}\n', "ref is the reference and under"),
        ("answers", '{"item_id": "q0000", "model": "", "answer": "x"}\n', "model is empty"),
        ("answers", '{"question_id": "q", "model": "m", "choices": [{"turns": 3}]}\n', "choices[0].turns is 3"),
        ("reference", '{"item_id": "a", "model": "x", "answer": "x"}\n{"item_id": "a", "model": "y", "answer": "x"}\n',
         "a reference is one model's"),
    ],
)  # fmt: skip
def test_bad_material_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    options = material(tmp_path / "in", 2)
    (tmp_path / "in" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(
            [
                "judge",
                "run",
                *options,
                "--endpoint",
                "http://127.0.0.1:9/v1",
                "--model",
                "j",
                "--out",
                str(tmp_path / "o"),
            ]
        )
    errors = capsys.readouterr().err
    assert left.value.code == 2
    assert message in errors
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% block user %}{{ question }}{{ first }}{{ second }}{% endblock %}", "system is missing"),
        ("{% block system %}{% endblock %}{% block user %}{{ question }}{{ first }}{% endblock %}", "second is"),
        ("{% block system %", "no Jinja template"),
        ("{% block system %}{{ nobody }}{% endblock %}{% block user %}{{ question }}{{ first }}{{ second }}"
         "{% endblock %}",
         "cannot be filled in"),
        ("{% block system %}{{ question.__class__.__mro__ }}{% endblock %}{% block user %}{{ first }}{{ second }}"
         "{% endblock %}", "cannot be filled in"),
    ],
)  # fmt: skip
def test_bad_prompts_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    prompt = tmp_path / "mine.jinja"
    prompt.write_text(text, encoding="utf-8")
    options = [*material(tmp_path / "in", 2), "--prompt", str(prompt), "--out", str(tmp_path / "o")]
    with pytest.raises(SystemExit) as left:
        main(["judge", "run", *options, "--endpoint", "http://127.0.0.1:9/v1", "--model", "j"])
    assert left.value.code == 2
    assert message in capsys.readouterr().err
