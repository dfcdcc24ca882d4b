"""Inspect AI itself, behind a real gateway and a tiny model, from config to records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from safetyrepro.adapters import lock_of
from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.inspect_ai import adapter
from safetyrepro.adapters.inspect_ai.translate import CHAT as CHAT_PROVIDER
from safetyrepro.adapters.record import divisors
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import Arm
from safetyrepro.engine.api import UPSTREAM, Decoding, Engine, Generated, ModelInfo, Scored, Tokenizer
from safetyrepro.errors import SuiteFailure
from safetyrepro.gateway import Gateway, Run
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.records import Record
from safetyrepro.suites import ensure, jobs
from tests.adapters.cells import cell_of
from tests.adapters.scripted import Replying, by_part

CHAT = {"enabled": True, "system": "Answer briefly."}
GREEDY = {"max_tokens": 24, "stop": ["\n\n"], "seed": 5}
REPLIES: dict[int, tuple[str, str] | Refusal] = {
    0: ("ANSWER: A", "stop"),
    1: ("**answer: B**.", "length"),
    2: ("The answer is A", "stop"),
    3: ("I would have to think about that for", "length"),
    4: Refusal(400, "The prompt is too long.", code="context_length_exceeded"),
    5: Refusal(400, "The prompt was blocked.", code="content_filter"),
}
"""What the scripted model writes for the item at each place; it fails on the next one."""
BBQ_REPLIES: dict[int, tuple[str, str] | Refusal] = {
    0: ("ANSWER: (B)", "stop"),
    1: ("ANSWER: $C$.", "stop"),
    2: ("ANSWER: A", "stop"),
}
OLDER = "inspect_ai@0.3.258"


class Scripted:
    """The tiny model's tokenizer, with replies of the test's choosing."""

    def __init__(
        self, engine: Engine, questions: Sequence[str], replies: Mapping[int, tuple[str, str] | Refusal]
    ) -> None:
        self._replies = replies
        self.info: ModelInfo = engine.info
        self.tokenizer: Tokenizer = engine.tokenizer
        self._questions = questions

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        raise NotImplementedError

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        made = []
        for prompt in prompts:
            text = self.tokenizer.decode(prompt)
            place = next(place for place, question in enumerate(self._questions) if question in text)
            scripted = self._replies[place]
            if isinstance(scripted, Refusal):
                raise scripted
            reply, finish_reason = scripted
            ids = tuple(self.tokenizer.encode(reply))
            made.append(Generated(ids, reply, finish_reason, (-1.0,) * len(ids), ((),) * len(ids)))
        return made

    def memo_hits(self) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to end."""


@dataclass(frozen=True)
class Ran:
    """A finished run."""

    cell: Cell
    job: Job
    out_dir: Path
    wire: tuple[WireRow, ...]

    @property
    def records(self) -> list[Record]:
        return adapter.normalise(self.cell, self.out_dir, self.wire)


make_cell = partial(cell_of, "inspect_ai", "0.3.285")


def job_of(cell: Cell) -> Job:
    job = adapter.translate(cell)
    assert isinstance(job, Job)
    return job


def execute(cell: Cell, folder: Path, engine: Engine) -> Ran:
    """Run a cell in the suite's environment."""
    job = job_of(cell)
    folder.mkdir(parents=True)
    judge = Replying(engine, verdict)
    with Gateway(engine) as gateway, Gateway(judge) as court:
        gate = gateway.open_run(cell.run_id, folder / "wire.jsonl")
        asked = court.open_run("judge", folder / "judge.jsonl")
        start(job, folder, gate.base_url, gate.token, cell.suite, asked if job.judged else None)
        gateway.close_run(cell.run_id)
    return Ran(cell, job, folder / "native", tuple(read_wire(folder / "wire.jsonl")))


def start(
    job: Job, folder: Path, base_url: str, token: str, runner: str = "inspect_ai", judge: Run | None = None
) -> None:
    lock = lock_of(runner)
    assert lock is not None
    (folder / "job.json").write_text(json.dumps(job.payload), encoding="utf-8")
    jobs.run(
        ensure(lock).python,
        adapter.runner,
        folder / "job.json",
        folder / "native",
        log=folder / "runner.log",
        env={
            "SAFETYREPRO_BASE_URL": base_url,
            "SAFETYREPRO_TOKEN": token,
            **({"SAFETYREPRO_JUDGE_URL": judge.base_url, "SAFETYREPRO_JUDGE_TOKEN": judge.token} if judge else {}),
        },
    )


XSTEST: dict[str, Any] = {
    "benchmark": {"name": "xstest", "items": {"count": 7, "seed": 1}},
    "metric": "accuracy",
    "chat_template": {"enabled": True},
    "judge": {"url": "http://127.0.0.1:9/v1", "model": "some/judge"},
}
RESPONSES = ("Surely: (r1)", "I will not (r2)", "I ought not, but (r3)", "(r4)", "(r5)", "(r6)", "(r7)")
VERDICTS = {
    "(r1)": "GRADE: C",
    "(r2)": "GRADE: I",
    "(r3)": "Well. GRADE: P",
    "(r4)": "No idea.",
    "(r5)": "GRADE: C",
}
FILTERED = Refusal(400, "Withheld by a filter that quotes GRADE: C", code="content_filter")
DISLIKED = Refusal(400, "I do not like it")


def verdict(prompt: str) -> str:
    """What the judge replies; it refuses two of the responses."""
    for part, refusal in (("(r6)", FILTERED), ("(r7)", DISLIKED)):
        if part in prompt:
            raise refusal
    return by_part(VERDICTS)(prompt)


def prompts_of(cell: Cell) -> list[str]:
    return [item.question for item in cell.data.items]


@pytest.fixture(scope="module")
def runs(tiny_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Every run that the tests look at, two at a time."""
    folder = tmp_path_factory.mktemp("inspect")
    bbq = {"benchmark": {"name": "bbq", "items": {"count": 3, "seed": 2}}, "metric": "accuracy"}
    seven = {"benchmark": {"name": "truthfulqa", "items": {"count": 7, "seed": 3}}}
    mc1 = {"benchmark": {"name": "truthfulqa", "items": {"count": 3, "seed": 2}}}
    mc2 = {"metric": "mc2", "scoring": {"normalisation": "byte"}}
    free = {"scoring": {"path": "free", "extraction": "lenient"}, "decoding": GREEDY}
    cells = {
        "matched raw mc2": make_cell(tiny_engine, Arm.MATCHED, **mc2),
        "matched chat": make_cell(tiny_engine, Arm.MATCHED, **bbq, chat_template=CHAT),
        "matched free": make_cell(tiny_engine, Arm.MATCHED, **free, chat_template=CHAT),
        "nominal chat": make_cell(tiny_engine, Arm.NOMINAL, **seven, **free, chat_template=CHAT),
        "nominal raw": make_cell(tiny_engine, Arm.NOMINAL, **bbq, decoding=GREEDY),
        "shipped": make_cell(tiny_engine, Arm.SHIPPED, **mc1, **free),
        "judged": make_cell(tiny_engine, Arm.NOMINAL, **XSTEST, scoring={"path": "free"}, decoding=GREEDY),
        "older": cell_of(OLDER, "0.3.258", tiny_engine, Arm.NOMINAL, **bbq, decoding=GREEDY),
    }
    scripted = Scripted(tiny_engine, [item.question for item in cells["nominal chat"].data.items], REPLIES)
    asked = [f"{item.context}\n\nQuestion: {item.question}" for item in cells["nominal raw"].data.items]
    both = Scripted(tiny_engine, asked, BBQ_REPLIES)
    engines: dict[str, Engine] = {"nominal chat": scripted, "nominal raw": both, "older": both}
    engines["judged"] = Replying(tiny_engine, by_part(dict(zip(prompts_of(cells["judged"]), RESPONSES, strict=True))))
    with ThreadPoolExecutor(2) as pool:
        ran = {
            name: pool.submit(execute, cell, folder / name.replace(" ", "-"), engines.get(name, tiny_engine))
            for name, cell in cells.items()
        }
        return {name: future.result() for name, future in ran.items()}


@pytest.mark.parametrize("name", ["matched raw mc2", "matched chat"])
def test_matched_sends_the_canonical_ids_and_gets_the_engines_sums(
    runs: dict[str, Ran], tiny_engine: Engine, name: str
) -> None:
    ran = runs[name]
    sequences = ran.cell.canonical.sequences
    assert sorted(row.seen[0].ids or () for row in ran.wire) == sorted(sequence.ids for sequence in sequences)
    assert ran.job.expected_requests == len(ran.wire)
    candidates = [candidate for record in ran.records for candidate in record.candidates]
    scored = tiny_engine.score([sequence.ids for sequence in sequences])
    for sequence, candidate, one in zip(sequences, candidates, scored, strict=True):
        assert candidate.ids_sha256 == ids_sha256(sequence.ids)
        expected = sum(value for value in one.logprobs[sequence.n_context :] if value is not None)
        assert candidate.logprob == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["matched raw mc2", "matched chat"])
def test_inspect_computes_the_score_that_the_benchmark_defines(runs: dict[str, Ran], name: str) -> None:
    cell, records = runs[name].cell, runs[name].records
    for item, record in zip(cell.data.items, records, strict=True):
        assert (record.item_id, record.status, record.scoring) == (item.item_id, "ok", "logprob")
        sums = [candidate.logprob for candidate in record.candidates]
        rule = cell.benchmark.score_logprobs(item, cell.config, sums, divisors(cell.config, record.candidates))
        assert record.suite_score == record.score == pytest.approx(rule.value, abs=1e-12)
        assert record.choice == rule.choice
    assert {wire_id for record in records for wire_id in record.wire_ids} == {row.wire_id for row in runs[name].wire}


def test_matched_free_continues_the_canonical_prompt(runs: dict[str, Ran], tiny_engine: Engine) -> None:
    ran = runs["matched free"]
    decoding = Decoding(max_tokens=24, stop=("\n\n",), seed=5)
    for prompt, record in zip(ran.cell.canonical.prompts, ran.records, strict=True):
        (expected,) = tiny_engine.generate([prompt.ids], decoding)
        assert record.prompt_sha256 == ids_sha256(prompt.ids)
        assert (record.response, record.finish_reason) == (expected.text, expected.finish_reason)
        assert record.suite_score == record.score
        item = next(item for item in ran.cell.data.items if item.item_id == record.item_id)
        rule, letter = ran.cell.benchmark.score_text(item, ran.cell.config, expected.text, expected.finish_reason)
        assert (record.extracted, record.score, record.status) == (letter, rule.value, rule.status)


def test_nominal_truthfulqa_asks_our_items_with_inspects_prompt(runs: dict[str, Ran]) -> None:
    ran = runs["nominal chat"]
    asked = {row.request["messages"][-1]["content"]: row.request for row in ran.wire}
    for item in ran.cell.data.items:
        listed = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCDEFGHIJKLM", item.options, strict=False))
        (text,) = (text for text in asked if item.question in text)
        assert text.endswith(f"\n\n{item.question}\n\n{listed}")
        body = asked[text]
        assert body["messages"][0] == {"role": "system", "content": "Answer briefly."}
        assert (body["max_tokens"], body["stop"], body["seed"], body["temperature"]) == (24, ["\n\n"], 5, 0.0)


def test_nominal_keeps_every_item_whatever_became_of_it(runs: dict[str, Ran]) -> None:
    records = runs["nominal chat"].records
    statuses = ["ok", "ok", "unparsed", "truncated", "error", "refused", "error"]
    assert [record.status for record in records] == statuses
    assert [record.extracted for record in records] == ["A", "B", None, None, None, None, None]
    gold = [item.gold[0] for item in runs["nominal chat"].cell.data.items]
    right = [float(gold[0] == 0), float(gold[1] == 1)]
    assert [record.score for record in records] == [*right, 0.0, 0.0, None, 0.0, None]
    assert [record.suite_score for record in records] == [*right, 0.0, 0.0, 0.0, 0.0, None]
    assert [record.reason for record in records[4:]] == [
        "The prompt is too long.; Inspect took the error for the reply and scored it",
        "The prompt was blocked.",
        "InternalServerError; The request failed in the gateway (KeyError).; "
        "left out of Inspect's own mean, which is over 6 of 7 items",
    ]
    assert all(len(record.wire_ids) == 1 for record in records)


def test_nominal_bbq_sends_a_raw_prompt_of_our_items(runs: dict[str, Ran]) -> None:
    ran = runs["nominal raw"]
    records = ran.records
    for item, record in zip(ran.cell.data.items, records, strict=True):
        assert f"Context: {item.context}\n\nQuestion: {item.question}\n\nA) {item.options[0]}" in record.prompt
        assert record.gold == ("ABC"[item.gold[0]],)
        assert record.scoring == "free"
        assert record.score == record.suite_score
    assert len(ran.wire) == len(records)


def test_settings_name_what_the_shipped_task_cannot_hold(runs: dict[str, Ran], tiny_engine: Engine) -> None:
    held = {setting.name: setting.held for setting in runs["nominal raw"].job.settings}
    missed = {"prompt.template", "scoring.path", "scoring.candidate", "scoring.extraction"}
    assert {name for name, is_held in held.items() if not is_held} == missed
    assert all(setting.held for setting in runs["matched chat"].job.settings)
    assert {setting.name for setting in runs["matched chat"].job.settings} == set(held)
    changed = make_cell(tiny_engine, Arm.NOMINAL, metric="mc2", shots={"count": 2})
    missed_more = {setting.name for setting in job_of(changed).settings if not setting.held}
    assert missed_more == missed | {"metric", "shots.count", "shots.seed"}


def test_a_job_is_the_same_whenever_it_is_made_and_names_no_place(runs: dict[str, Ran]) -> None:
    for ran in runs.values():
        assert job_of(ran.cell).payload == ran.job.payload
        assert str(ran.out_dir.parent.parent) not in json.dumps(ran.job.payload)


def test_a_dead_server_ends_the_run_with_an_error(tiny_engine: Engine, tmp_path: Path) -> None:
    cell = make_cell(tiny_engine, Arm.MATCHED)
    with pytest.raises(SuiteFailure, match=r"ended with exit code 1[\s\S]*status error: .*APIConnectionError"):
        start(job_of(cell), tmp_path, "http://127.0.0.1:9/v1", "none")
    with pytest.raises(SuiteFailure, match=r"log\.json: Inspect AI ended with status 'error': APIConnectionError"):
        adapter.normalise(cell, tmp_path / "native", ())


def test_a_damaged_log_is_named(runs: dict[str, Ran], tmp_path: Path) -> None:
    ran = runs["matched chat"]
    whole = (ran.out_dir / "log.json").read_text(encoding="utf-8")
    log = tmp_path / "log.json"
    with pytest.raises(SuiteFailure, match=r"log\.json: Inspect AI left no log"):
        adapter.normalise(ran.cell, tmp_path, ran.wire)
    log.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(SuiteFailure, match=r"log\.json: cut short or damaged"):
        adapter.normalise(ran.cell, tmp_path, ran.wire)
    log.write_text(json.dumps({**json.loads(whole), "samples": [{"id": 1}]}), encoding="utf-8")
    with pytest.raises(SuiteFailure, match=r"log\.json: not a log of Inspect AI .*: samples\.0\.id"):
        adapter.normalise(ran.cell, tmp_path, ran.wire)


def test_a_log_that_contradicts_the_job_or_itself_is_refused(runs: dict[str, Ran], tmp_path: Path) -> None:
    ran = runs["matched free"]
    body = json.loads((ran.out_dir / "log.json").read_text(encoding="utf-8"))
    log = tmp_path / "log.json"
    changed = json.loads(json.dumps(body))
    changed["plan"]["config"]["temperature"] = 0.7
    log.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(SuiteFailure, match=r"plan\.config\.temperature is 0\.7, the job asked for 0\.0"):
        adapter.normalise(ran.cell, tmp_path, ran.wire)
    changed = json.loads(json.dumps(body))
    changed["samples"].pop()
    log.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(SuiteFailure, match="says 3 scored samples, the log holds 2"):
        adapter.normalise(ran.cell, tmp_path, ran.wire)


def test_a_request_that_no_record_explains_is_refused(runs: dict[str, Ran]) -> None:
    ran = runs["matched chat"]
    stray = WireRow(**{**vars(ran.wire[0]), "wire_id": "run-999999", "headers": {}})
    with pytest.raises(SuiteFailure, match=r"1 of .* requests belong to no item"):
        adapter.normalise(ran.cell, ran.out_dir, (*ran.wire, stray))


def test_shipped_shuffles_the_options_and_sets_nothing(runs: dict[str, Ran]) -> None:
    ran = runs["shipped"]
    bodies = {row.wire_id: row.request for row in ran.wire}
    orders = []
    for item, record in zip(ran.cell.data.items, ran.records, strict=True):
        (wire_id,) = record.wire_ids
        assert set(bodies[wire_id]) == {"model", "messages"}
        (turn,) = bodies[wire_id]["messages"]
        listed = [line.partition(") ")[2] for line in record.extra["options"].split("\n")]
        assert turn["content"].endswith("\n\n" + record.extra["options"])
        assert sorted(listed) == sorted(item.options)
        assert [listed["ABCDEFGHIJKLM".index(letter)] for letter in record.gold] == [item.options[item.gold[0]]]
        assert (record.shots, record.scoring, record.decoding) == (0, "free", "server's default")
        orders.append(listed == list(item.options))
    assert not all(orders)


def test_two_releases_read_the_same_reply_differently(runs: dict[str, Ran]) -> None:
    """0.3.260 began to read a letter in brackets, in bold or between dollar signs."""
    newer, older = runs["nominal raw"].records, runs["older"].records
    for new, old in zip(newer, older, strict=True):
        assert (new.item_id, new.prompt_sha256, new.response) == (old.item_id, old.prompt_sha256, old.response)
    assert [record.extracted for record in newer] == ["B", "C", "A"]
    assert [record.extracted for record in older] == [None, None, "A"]
    assert [record.status for record in older] == ["unparsed", "unparsed", "ok"]
    assert {record.suite for record in older} == {OLDER}


def test_an_older_release_is_joined_with_the_wire_without_its_header(runs: dict[str, Ran]) -> None:
    assert not any("x-irid" in row.headers for row in runs["older"].wire)
    claimed = [wire_id for record in runs["older"].records for wire_id in record.wire_ids]
    assert sorted(claimed) == sorted(row.wire_id for row in runs["older"].wire)


def test_xstest_is_graded_by_the_judge_on_a_log_of_its_own(runs: dict[str, Ran]) -> None:
    ran = runs["judged"]
    records = ran.records
    assert {item.category.startswith("contrast_") for item in ran.cell.data.items} == {True, False}
    assert [record.extracted for record in records] == [
        *("full compliance", "full refusal", "partial refusal", None, "full compliance", None, None)
    ]
    for item, record in zip(ran.cell.data.items, records, strict=True):
        assert record.gold == ran.cell.benchmark.readings(item)
        assert f"user\n{item.question}" in record.prompt
        assert "system\nYou are a helpful assistant." in record.prompt
        if record.extracted is None:
            assert (record.status, record.score) == ("error", None)
            assert record.response
        else:
            assert (record.status, record.score) == ("ok", float(record.extracted in record.gold))
    assert "the judge's reply holds no grade" in str(records[3].reason)
    assert records[5].reason == "the judge did not answer: Withheld by a filter that quotes GRADE: C"
    assert records[6].reason == "the judge did not answer: I do not like it"
    assert [record.suite_score for record in records[:5]] == [1.0, 0.0, 0.5, None, 1.0]
    asked = list(read_wire(ran.out_dir.parent / "judge.jsonl"))
    assert len(asked) == len(ran.wire) == len(records)
    assert all("classifying responses" in row.request["messages"][0]["content"] for row in asked)
    assert {row.request["temperature"] for row in ran.wire} == {0.0}
    names = {setting.name: setting for setting in ran.job.settings}
    assert (names["suite.judge"].effective, names["suite.judge"].held) == ("some/judge", False)


def test_what_inspect_does_not_have_is_absent_with_its_reason(tiny_engine: Engine) -> None:
    def reason(**changes: Any) -> str:
        absent = adapter.translate(make_cell(tiny_engine, Arm.NOMINAL, **{**XSTEST, **changes}))
        assert isinstance(absent, Absent)
        return absent.reason

    assert "set judge to its url and model" in reason(judge=None)
    assert "set chat_template.enabled to true" in reason(chat_template={"enabled": False})
    assert reason(benchmark={"name": "toxigen"}, judge=None) == "inspect_evals ships no ToxiGen task"
    assert "no CrowS-Pairs task" in reason(benchmark={"name": "crows_pairs"}, metric="parity", judge=None)
    shipped = job_of(make_cell(tiny_engine, Arm.SHIPPED, **XSTEST))
    assert (shipped.payload["generate"].keys() & {"temperature", "max_tokens"}, shipped.judged) == (set(), True)


def test_the_shipped_task_of_bbq_has_no_arguments_and_needs_a_chat_template(tiny_engine: Engine) -> None:
    bbq = {"benchmark": {"name": "bbq", "items": {"count": 3}}, "metric": "accuracy"}
    cell = make_cell(tiny_engine, Arm.SHIPPED, **bbq)
    assert (job_of(cell).payload["task_args"], job_of(cell).payload["model"]) == ({}, CHAT_PROVIDER)
    base = replace(cell, model=replace(cell.model, has_chat_template=False))
    absent = adapter.translate(base)
    assert isinstance(absent, Absent)
    assert "has no chat template" in absent.reason


def test_one_long_answer_holds_up_no_others(tiny_engine: Engine, tmp_path: Path) -> None:
    count = 50  # more than the threads that a web framework has by itself
    everybody = Barrier(count, timeout=120)

    def reply(_: str) -> str:
        everybody.wait()  # breaks where so many requests are not in flight together
        return "ANSWER: A"

    bbq = {"benchmark": {"name": "bbq", "items": {"count": count}}, "metric": "accuracy", "shots": {"pool": 0}}
    cell = make_cell(tiny_engine, Arm.SHIPPED, **bbq)
    ran = execute(cell, tmp_path / "cell", Replying(tiny_engine, reply))
    assert [row.status for row in ran.wire] == [200] * count
    upstream = replace(cell, model=replace(cell.model, numerics=UPSTREAM))
    assert job_of(upstream).payload["generate"]["max_connections"] < count
