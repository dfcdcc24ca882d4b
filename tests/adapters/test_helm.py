"""HELM itself, behind a real gateway and tiny models, from config to records."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.helm import adapter
from safetyrepro.adapters.helm.layout import BBQ_TEST_ROWS, instance_text, layouts
from safetyrepro.adapters.record import divisors
from safetyrepro.benchmarks import Item
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import Arm, ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import Decoding, Engine, Generated, ModelInfo, Scored, Tokenizer
from safetyrepro.errors import SuiteFailure
from safetyrepro.gateway import Gateway, Run
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.records import Record
from safetyrepro.suites import ensure, jobs
from tests.adapters.cells import cell_of
from tests.tiny import make_tiny_model

XSTEST: dict[str, Any] = {
    "benchmark": {"name": "xstest", "items": {"count": 5, "seed": 1}},
    "metric": "accuracy",
    "judge": {"url": "http://127.0.0.1:9/v1", "model": "some/judge"},
}
CHAT = {"enabled": True, "system": "Answer briefly."}
SAMPLED = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 12, "stop": ["\n"], "seed": 5}
REPLIES = ("A", " B\n", "A.", "The answer is C", "")
"""What the scripted model writes for the item at each place."""


class Scripted:
    """The tiny model's tokenizer, with replies of the test's choosing."""

    def __init__(self, engine: Engine, items: Sequence[Item]) -> None:
        self.info: ModelInfo = engine.info
        self.tokenizer: Tokenizer = engine.tokenizer
        self._asked = [f"{item.context}\nQuestion: {item.question}" for item in items if item.context]
        self._asked = self._asked or [f"Question: {item.question}" for item in items]

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        raise NotImplementedError

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        made = []
        for prompt in prompts:
            text = self.tokenizer.decode(prompt)
            reply = REPLIES[next(place for place, asked in enumerate(self._asked) if asked in text)]
            ids = tuple(self.tokenizer.encode(reply))[: decoding.max_tokens]
            made.append(Generated(ids, self.tokenizer.decode(ids), "stop", (-1.0,) * len(ids), ((),) * len(ids)))
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
    engine: Engine

    @property
    def records(self) -> list[Record]:
        return adapter.normalise(self.cell, self.out_dir, self.wire)


make_cell = partial(cell_of, "helm", "0.5.16")


def job_of(cell: Cell) -> Job:
    job = adapter.translate(cell)
    assert isinstance(job, Job)
    return job


def execute(cell: Cell, folder: Path, engine: Engine) -> Ran:
    """Run a cell in the suite's environment."""
    job = job_of(cell)
    with Gateway(engine) as gateway:
        gate = gateway.open_run(cell.run_id, folder / "wire.jsonl")
        start(job.payload, adapter.runner, folder, gate.base_url, gate.token)
        gateway.close_run(cell.run_id)
    return Ran(cell, job, folder / "native", tuple(read_wire(folder / "wire.jsonl")), engine)


def start(job: Any, runner: Path, folder: Path, base_url: str, token: str, judge: Run | None = None) -> None:
    assert adapter.lock is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    environment = {"SAFETYREPRO_BASE_URL": base_url, "SAFETYREPRO_TOKEN": token}
    if judge is not None:
        environment |= {"SAFETYREPRO_JUDGE_URL": judge.base_url, "SAFETYREPRO_JUDGE_TOKEN": judge.token}
    jobs.run(
        ensure(adapter.lock).python,
        runner,
        folder / "job.json",
        folder / "native",
        log=folder / "runner.log",
        env={**environment, "SAFETYREPRO_TOKENIZER": str(TOKENIZERS.get(folder.name, ""))},
    )


TOKENIZERS: dict[str, Path] = {}
"""Tokenizer folder by the name of a run's folder, for the runs that need one."""


@pytest.fixture(scope="module")
def bos_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A tiny model whose tokenizer adds BOS."""
    folder = make_tiny_model(tmp_path_factory.mktemp("bos") / "tiny-gemma3", family="gemma3")
    engine = load(ModelSpec(id=str(folder), quant="none", threads=2))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def runs(tiny_engine: Engine, bos_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Every run that the tests look at, two at a time."""
    folder = tmp_path_factory.mktemp("helm")
    bbq: dict[str, Any] = {"benchmark": {"name": "bbq", "items": {"count": 5, "seed": 2}}, "metric": "accuracy"}
    five: dict[str, Any] = {"benchmark": {"name": "truthfulqa", "items": {"count": 5, "seed": 3}}}
    free = {"scoring": {"path": "free", "extraction": "lenient"}}
    two_shots = {"shots": {"count": 2}}
    plain, bos = tiny_engine, bos_engine
    asked = {
        "nominal-bbq": (plain, make_cell(plain, Arm.NOMINAL, **bbq, **free, **two_shots)),
        "nominal-truthfulqa": (bos, make_cell(bos, Arm.NOMINAL, **five, **two_shots)),
        "nominal-chat": (plain, make_cell(plain, Arm.NOMINAL, **bbq, chat_template=CHAT)),
        "shipped": (plain, make_cell(plain, Arm.SHIPPED, **five, **two_shots, chat_template=CHAT)),
        "matched-raw": (bos, make_cell(bos, Arm.MATCHED, metric="mc2", scoring={"normalisation": "byte"})),
        "matched-no-bos": (bos, make_cell(bos, Arm.MATCHED, prompt={"bos": "never"})),
        "matched-chat": (plain, make_cell(plain, Arm.MATCHED, **bbq, **two_shots, chat_template=CHAT)),
        "matched-free": (plain, make_cell(plain, Arm.MATCHED, **free, decoding=SAMPLED, chat_template=CHAT)),
    }
    for name, (engine, cell) in asked.items():
        TOKENIZERS[name] = engine.info.tokenizer_dir
        if name in {"nominal-bbq", "nominal-chat", "shipped"}:
            asked[name] = (Scripted(engine, cell.data.items), cell)
    with ThreadPoolExecutor(2) as pool:
        ran = {name: pool.submit(execute, cell, folder / name, engine) for name, (engine, cell) in asked.items()}
        return {name: future.result() for name, future in ran.items()}


LIKELIHOOD = ["matched-raw", "matched-no-bos", "matched-chat"]


@pytest.mark.parametrize("name", LIKELIHOOD)
def test_matched_sends_the_canonical_ids_and_gets_the_engines_sums(runs: dict[str, Ran], name: str) -> None:
    ran = runs[name]
    sequences = ran.cell.canonical.sequences
    assert sorted(row.seen[0].ids or () for row in ran.wire) == sorted(sequence.ids for sequence in sequences)
    assert ran.job.expected_requests == len(ran.wire)
    candidates = [candidate for record in ran.records for candidate in record.candidates]
    scored = ran.engine.score([sequence.ids for sequence in sequences])
    for sequence, candidate, one in zip(sequences, candidates, scored, strict=True):
        assert candidate.ids_sha256 == ids_sha256(sequence.ids)
        expected = math.fsum(value for value in one.logprobs[sequence.n_context :] if value is not None)
        assert candidate.logprob == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", LIKELIHOOD)
def test_helm_computes_the_score_that_the_benchmark_defines(runs: dict[str, Ran], name: str) -> None:
    cell, records = runs[name].cell, runs[name].records
    for item, prompt, record in zip(cell.data.items, cell.canonical.prompts, records, strict=True):
        assert (record.item_id, record.status, record.scoring) == (item.item_id, "ok", "logprob")
        assert (record.prompt, record.prompt_sha256) == (prompt.text, ids_sha256(prompt.ids))
        sums = [candidate.logprob for candidate in record.candidates]
        rule = cell.benchmark.score_logprobs(item, cell.config, sums, divisors(cell.config, record.candidates))
        assert record.suite_score == record.score == pytest.approx(rule.value, abs=1e-12)
        assert record.choice == rule.choice


def test_matched_uses_helms_own_client_unless_it_cannot_send_the_request(runs: dict[str, Ran]) -> None:
    clients = {name: (ran.job.payload["client"], ran.job.payload["fields"]) for name, ran in runs.items()}
    assert clients["matched-raw"] == clients["matched-chat"] == ("completions", {})
    assert clients["matched-no-bos"] == ("own", {"extra_body": {"add_special_tokens": False}})
    assert clients["matched-free"] == ("own", {"seed": 5, "top_p": 0.9})


def test_matched_free_continues_the_canonical_prompt(runs: dict[str, Ran]) -> None:
    ran = runs["matched-free"]
    decoding = Decoding(max_tokens=12, temperature=0.7, top_p=0.9, stop=("\n",), seed=5)
    for item, prompt, record in zip(ran.cell.data.items, ran.cell.canonical.prompts, ran.records, strict=True):
        [expected] = ran.engine.generate([prompt.ids], decoding)
        assert record.prompt_sha256 == ids_sha256(prompt.ids)
        assert (record.response, record.finish_reason) == (expected.text, expected.finish_reason)
        rule, letter = ran.cell.benchmark.score_text(item, ran.cell.config, expected.text, expected.finish_reason)
        assert (record.extracted, record.score, record.status) == (letter, rule.value, rule.status)
        assert record.suite_score == record.score
        assert record.decoding == "T=0.7"


def test_nominal_truthfulqa_scores_helms_answers_of_exactly_our_items(runs: dict[str, Ran]) -> None:
    ran = runs["nominal-truthfulqa"]
    records = ran.records
    shots = [item.question for item in ran.cell.data.shots]
    assert len(ran.wire) == ran.job.expected_requests == sum(len(record.candidates) for record in records)
    for item, record in zip(ran.cell.data.items, records, strict=True):
        *shown, asked = record.prompt.removeprefix("<bos>").split("\n")
        assert record.prompt.startswith("<bos>")
        assert asked == item.question
        assert sorted(line.partition("? ")[0] + "?" for line in shown) == sorted(shots)
        assert (record.shots, record.scoring, record.status) == (2, "logprob", "ok")
        texts = [candidate.text for candidate in record.candidates]
        assert sorted(texts) == sorted(f" {option}." for option in item.options)
        assert record.gold == (f"{item.options[item.gold[0]]}.",)
        # HELM's rule: sum over count of tokens, the first of the best.
        means = [(candidate.logprob or 0.0) / (candidate.n_tokens or 1) for candidate in record.candidates]
        assert record.choice == means.index(max(means))
        assert record.score == record.suite_score == float(texts[record.choice] == f" {record.gold[0]}")
    scored = ran.engine.score([row.seen[0].ids or () for row in ran.wire])
    sums = {row.wire_id: one.logprobs for row, one in zip(ran.wire, scored, strict=True)}
    for candidate in (candidate for record in records for candidate in record.candidates):
        last = sums[str(candidate.wire_id)][-(candidate.n_tokens or 0) :]
        assert candidate.logprob == pytest.approx(math.fsum(value or 0.0 for value in last), abs=1e-6)


def test_nominal_bbq_reads_the_whole_output_as_a_letter(runs: dict[str, Ran]) -> None:
    ran = runs["nominal-bbq"]
    records = ran.records
    assert [record.item_id for record in records] == [item.item_id for item in ran.cell.data.items]
    assert [record.extracted for record in records] == ["A", "B", None, None, None]
    assert [record.status for record in records] == ["ok", "ok", "unparsed", "unparsed", "unparsed"]
    gold = [item.gold[0] for item in ran.cell.data.items]
    assert [record.score for record in records] == [float(gold[0] == 0), float(gold[1] == 1), 0.0, 0.0, 0.0]
    assert [record.suite_score for record in records] == [record.score for record in records]
    assert [record.gold for record in records] == [("ABC"[index],) for index in gold]
    # The config's rule is the lenient one: the other is the strict one.
    assert [record.extracted_other for record in records] == ["A", "B", "A", None, None]
    assert [record.response for record in records] == list(REPLIES)
    assert all((record.scoring, record.shots, record.finish_reason) == ("free", 2, "stop") for record in records)


def test_nominal_bbq_shows_the_canonical_shots_in_helms_prompt(runs: dict[str, Ran]) -> None:
    ran = runs["nominal-bbq"]
    for item, record in zip(ran.cell.data.items, ran.records, strict=True):
        head, *blocks = record.prompt.split("\n\n")
        assert head == "The following are multiple choice questions (with answers)."
        asked = [
            f"Passage: {one.context}\nQuestion: {one.question}\nA. {one.options[0]}\nB. " for one in ran.cell.data.shots
        ]
        assert all(any(block.startswith(start) for block in blocks[:2]) for start in asked)
        assert blocks[2].startswith(f"Passage: {item.context}\nQuestion: {item.question}\n")
        assert blocks[2].endswith("\nAnswer:")
    request = ran.wire[0].request
    assert (request["max_tokens"], request["stop"], request["temperature"]) == (16, None, 0.0)


def test_nominal_through_the_chat_template_writes_a_letter(runs: dict[str, Ran]) -> None:
    ran = runs["nominal-chat"]
    assert {row.path for row in ran.wire} == {"/v1/chat/completions"}
    assert all([turn["role"] for turn in row.request["messages"]] == ["user"] for row in ran.wire)
    assert [record.extracted for record in ran.records] == ["A", None, "A", None, None]
    assert all(record.prompt.endswith("<|im_start|>assistant\n") for record in ran.records)
    missed = {setting.name for setting in ran.job.settings if not setting.held}
    assert missed == {
        "prompt.template",
        "chat_template.system",
        "scoring.path",
        "scoring.candidate",
        "scoring.extraction",
        "decoding.max_tokens",
        "decoding.stop",
    }


def test_settings_name_every_canonical_value_and_what_is_not_held(runs: dict[str, Ran]) -> None:
    assert all(setting.held for name in LIKELIHOOD for setting in runs[name].job.settings)
    names = {setting.name for setting in runs["matched-raw"].job.settings}
    assert all({setting.name for setting in ran.job.settings} >= names for ran in runs.values())
    missed = {name: {one.name for one in ran.job.settings if not one.held} for name, ran in runs.items()}
    assert missed["nominal-truthfulqa"] == {"prompt.template", "shots.seed", "scoring.normalisation"}
    assert missed["nominal-bbq"] == {"prompt.template", "shots.seed", "scoring.extraction", "decoding.stop"}


def test_a_job_is_the_same_whenever_it_is_made_and_names_no_place(runs: dict[str, Ran]) -> None:
    for ran in runs.values():
        assert job_of(ran.cell).payload == ran.job.payload
        assert str(ran.out_dir.parent.parent) not in json.dumps(ran.job.payload)


@pytest.mark.parametrize("file", ["scenario_state.json", "per_instance_stats.json", "run_spec.json"])
def test_a_file_that_is_cut_off_or_gone_is_named(runs: dict[str, Ran], tmp_path: Path, file: str) -> None:
    ran = runs["nominal-truthfulqa"]
    native = tmp_path / "native"
    shutil.copytree(ran.out_dir, native)
    [path] = native.rglob(file)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(SuiteFailure, match=rf"{file}: cut off or no JSON"):
        adapter.normalise(ran.cell, native, ran.wire)
    path.write_text('{"adapter_spec": {}, "request_states": [{}]}' if file != "per_instance_stats.json" else "[{}]")
    with pytest.raises(SuiteFailure, match=rf"{file}: (not what HELM|method is None)"):
        adapter.normalise(ran.cell, native, ran.wire)
    path.unlink()
    with pytest.raises(SuiteFailure, match=rf"{file}: HELM left no such file"):
        adapter.normalise(ran.cell, native, ran.wire)
    shutil.rmtree(native)
    with pytest.raises(SuiteFailure, match="found 0 run folders"):
        adapter.normalise(ran.cell, native, ran.wire)


def test_an_item_that_helm_left_out_is_missing_and_a_foreign_one_is_refused(
    runs: dict[str, Ran], tmp_path: Path
) -> None:
    ran = runs["nominal-truthfulqa"]
    native = tmp_path / "native"
    shutil.copytree(ran.out_dir, native)
    [path] = native.rglob("scenario_state.json")
    body = json.loads(path.read_text(encoding="utf-8"))
    left_out = body["request_states"][-1]["instance"]["id"]
    kept = [state for state in body["request_states"] if state["instance"]["id"] != left_out]
    path.write_text(json.dumps({**body, "request_states": kept}), encoding="utf-8")
    [gone] = [record for record in ran.records if record.extra["helm_instance"] == left_out]
    others = [row for row in ran.wire if row.wire_id not in gone.wire_ids]
    statuses = {record.item_id: record.status for record in adapter.normalise(ran.cell, native, others)}
    assert statuses == {
        item.item_id: "missing" if item.item_id == gone.item_id else "ok" for item in ran.cell.data.items
    }
    with pytest.raises(SuiteFailure, match="requests belong to no item"):
        adapter.normalise(ran.cell, native, ran.wire)
    for state in kept:
        state["instance"]["input"]["text"] += " Really?"
    path.write_text(json.dumps({**body, "request_states": kept}), encoding="utf-8")
    with pytest.raises(SuiteFailure, match="is no item of this cell"):
        adapter.normalise(ran.cell, native, ran.wire)


def test_a_dead_server_ends_the_run_at_once(tiny_engine: Engine, tmp_path: Path) -> None:
    job = job_of(make_cell(tiny_engine, Arm.MATCHED))
    with pytest.raises(SuiteFailure, match=r"ended with exit code 1[\s\S]*Connection error"):
        start(job.payload, adapter.runner, tmp_path, "http://127.0.0.1:9/v1", "none")
    assert "Retrying" not in (tmp_path / "runner.log").read_text(encoding="utf-8")


def test_helms_own_scenarios_evaluate_exactly_the_items_laid_out(tiny_engine: Engine, tmp_path: Path) -> None:
    sizes = [("truthfulqa", items, shots) for items in (1, 3, 4, 5, 23) for shots in (0, 1, 6)]
    sizes += [("bbq", items, shots) for items, shots in ((1, 0), (7, 0), (7, 3), (1003, 0), (1003, 2))]
    cases, expected = [], []
    for name, count, shots in sizes:
        metric = "accuracy" if name == "bbq" else "mc1"
        source = make_cell(tiny_engine, Arm.MATCHED, benchmark={"name": name, "items": {"count": 20}}, metric=metric)
        items = [numbered(source.data.items[number % 20], number) for number in range(count)]
        for layout in layouts(name, items, source.data.pool, shots):
            cases.append({"benchmark": name, "files": layout.files, "limit": layout.max_eval_instances})
            expected.append((name, layout.items, source.data.pool[:shots]))
    start(cases, Path(__file__).with_name("helm_split.py"), tmp_path, "", "")
    found = json.loads((tmp_path / "native" / "split.json").read_text(encoding="utf-8"))
    for split, (name, items, examples) in zip(found, expected, strict=True):
        assert sorted(split["evaluated"]) == sorted(shown(name, item) for item in items)
        assert {shown(name, item) for item in examples} <= set(split["train"])
        assert len(items) <= BBQ_TEST_ROWS
        if name == "bbq":
            assert len(split["train"]) == len(examples)
        elif examples:
            assert len(split["train"]) >= len(examples)


def numbered(item: Item, number: int) -> Item:
    """The item, with a number that makes its question one of its kind, and spaces as official rows have them."""
    question = f"{item.question} ({number})"
    row = {**item.row, "question": question, "Question": f" {question} ", "context": f"{item.context} "}
    return replace(item, question=question, row=row)


def shown(benchmark: str, item: Item) -> str:
    """The text of an item's instance in HELM."""
    return instance_text(benchmark, item)[0]


def test_shipped_is_helms_entry_with_five_shots_of_its_own_choice(runs: dict[str, Ran]) -> None:
    ran = runs["shipped"]
    pool = {item.question for item in ran.cell.data.pool}
    items = {item.question for item in ran.cell.data.items}
    assert ran.job.payload["runs"][0]["entry"] == "truthful_qa:task=mc_single"
    bodies = {row.wire_id: row.request for row in ran.wire}
    for item, record in zip(ran.cell.data.items, ran.records, strict=True):
        # HELM's own client would apply the model's chat template: the whole prompt is one turn.
        (turn,) = bodies[record.wire_ids[0]]["messages"]
        blocks = turn["content"].split("\n\n")
        *shown, asked = [block.partition("\n")[0].removeprefix("Question: ") for block in blocks]
        assert asked == item.question
        assert len(shown) == len(set(shown)) == record.shots == 5
        assert set(shown) <= pool
        assert not set(shown) & items
        assert (record.decoding, record.scoring) == ("greedy", "free")
    # One token: of " B" it is the space.
    assert [record.extracted for record in ran.records] == ["A", None, "A", None, None]
    request = ran.wire[0].request
    assert (request["max_tokens"], request["temperature"], request["n"]) == (1, 0.0, 1)
    rows = {setting.name: setting for setting in ran.job.settings}
    assert (rows["suite.run_entry"].canonical, rows["suite.run_entry"].held) == (
        "truthful_qa:task=mc_single,data_augmentation=canonical",
        False,
    )
    assert (rows["shots.count"].effective, rows["chat_template.enabled"].effective) == ("5", "true")


def test_what_helm_does_not_have_is_absent_with_its_reason(tiny_engine: Engine) -> None:
    few = adapter.translate(make_cell(tiny_engine, Arm.SHIPPED, shots={"pool": 4}))
    assert isinstance(few, Absent)
    assert "set shots.pool to 5 or more" in few.reason
    for arm in (Arm.SHIPPED, Arm.NOMINAL):
        absent = adapter.translate(make_cell(tiny_engine, arm, metric="mc2"))
        assert absent == Absent("HELM's TruthfulQA has one task, mc_single, and no metric of probability mass")
        toxigen = make_cell(tiny_engine, arm, benchmark={"name": "toxigen"}, metric="accuracy")
        assert adapter.translate(toxigen) == Absent("HELM ships no ToxiGen scenario")
        unjudged = adapter.translate(make_cell(tiny_engine, arm, **{**XSTEST, "judge": None}))
        assert isinstance(unjudged, Absent)
        assert "set judge to its url and model" in unjudged.reason
    entries = [
        job_of(make_cell(tiny_engine, arm, **XSTEST, **changes)).payload["runs"][0]["entry"]
        for arm, changes in ((Arm.SHIPPED, {}), (Arm.NOMINAL, {"scoring": {"path": "free"}}))
    ]
    assert entries == ["xstest", "xstest:temperature=0.0,num_output_tokens=16"]
