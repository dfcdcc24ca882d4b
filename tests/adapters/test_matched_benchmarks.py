"""The matched arm of every runner on benchmarks of another shape: sentences without a prompt, responses of a class."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from safetyrepro import adapters
from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.lm_eval.own_task import own_task
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import SUITES, Arm, ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import Decoding, Engine, Generated, ModelInfo, Scored, Tokenizer
from safetyrepro.gateway import Gateway
from safetyrepro.gateway.wire import read_wire
from safetyrepro.records import Record
from safetyrepro.suites import ensure, jobs
from tests.adapters.cells import cell_of
from tests.benchmarks.configs import make_config
from tests.tiny import make_tiny_model

VERSIONS = {"lm_eval": "0.4.13", "helm": "0.5.16", "inspect_ai": "0.3.285", "native": "0.1.0"}
CROWS: dict[str, Any] = {"benchmark": {"name": "crows_pairs", "items": {"count": 4, "seed": 1}}, "metric": "parity"}
XSTEST: dict[str, Any] = {
    "benchmark": {"name": "xstest", "items": {"count": 4, "seed": 1}},
    "metric": "accuracy",
    "chat_template": {"enabled": True},
    "scoring": {"path": "free"},
    "decoding": {"max_tokens": 8, "stop": []},
}
SAID = (
    "I'm sorry, but I can't help with that.",
    "Use the switch beside the stage.",
    "I can't answer that. However, here are two ways to find out.",
    "It is illegal to do so.",
)
"""What the model says to the items in turn: strictly read a full refusal, compliance, a partial refusal, compliance."""


class Scripted:
    """The tiny model with given responses to the prompts of a cell."""

    def __init__(self, engine: Engine, cell: Cell) -> None:
        self._engine = engine
        self.info: ModelInfo = engine.info
        self.tokenizer: Tokenizer = engine.tokenizer
        self._said = {prompt.ids: text for prompt, text in zip(cell.canonical.prompts, SAID, strict=True)}

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        return self._engine.score(sequences, memo=memo)

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        plain = self._engine.generate(prompts, decoding, memo=memo)
        return [
            Generated(one.ids, self._said[tuple(prompt)], "stop", one.logprobs, one.top)
            for prompt, one in zip(prompts, plain, strict=True)
        ]

    def memo_hits(self) -> int:
        return self._engine.memo_hits()

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def bos_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A tiny model whose tokenizer adds BOS."""
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-gemma3", family="gemma3")
    engine = load(ModelSpec(id=str(folder), quant="none", threads=2))
    yield engine
    engine.close()


def execute(suite: str, engine: Engine, folder: Path, changes: dict[str, Any]) -> tuple[Cell, list[Record]]:
    """A matched cell run by its suite, as records."""
    cell = cell_of(suite, VERSIONS[suite], engine, Arm.MATCHED, **changes)
    adapter = adapters.get(suite)
    job = adapter.translate(cell)
    assert isinstance(job, Job)
    assert all(setting.held for setting in job.settings)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(job.payload), encoding="utf-8")
    served: Any = Scripted(engine, cell) if cell.config.scoring.path == "free" else engine
    with Gateway(served) as gateway:
        run = gateway.open_run(cell.run_id, folder / "wire.jsonl")
        jobs.run(
            Path(sys.executable) if adapter.lock is None else ensure(adapter.lock).python,
            adapter.runner,
            folder / "job.json",
            folder / "native",
            log=folder / "runner.log",
            env={
                "SAFETYREPRO_BASE_URL": run.base_url,
                "SAFETYREPRO_TOKEN": run.token,
                "SAFETYREPRO_TOKENIZER": str(cell.model.tokenizer_dir),
            },
        )
        gateway.close_run(cell.run_id)
    return cell, adapter.normalise(cell, folder / "native", list(read_wire(folder / "wire.jsonl")))


@pytest.fixture(scope="module")
def runs(
    tiny_engine: Engine, bos_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], tuple[Cell, list[Record]]]:
    """Both benchmarks in all four runners, two at a time."""
    folder = tmp_path_factory.mktemp("matched")
    wanted = {"crows": (bos_engine, CROWS), "crows-plain": (tiny_engine, CROWS), "xstest": (tiny_engine, XSTEST)}
    keys = [
        (name, suite) for name in wanted for suite in SUITES if name != "crows-plain" or suite in ("helm", "native")
    ]
    with ThreadPoolExecutor(2) as pool:
        ran = {
            (name, suite): pool.submit(execute, suite, wanted[name][0], folder / f"{name}-{suite}", wanted[name][1])
            for name, suite in keys
        }
        return {key: future.result() for key, future in ran.items()}


@pytest.mark.parametrize(
    ("name", "suite"), [("crows", suite) for suite in SUITES] + [("crows-plain", "helm"), ("crows-plain", "native")]
)
def test_sentences_are_scored_behind_the_start_token_alone(
    runs: dict[tuple[str, str], tuple[Cell, list[Record]]], name: str, suite: str
) -> None:
    cell, records = runs[name, suite]
    _, native = runs[name, "native"]
    start = cell.canonical.prompts[0].ids
    assert len(start) == 1
    for record, same, item in zip(records, native, cell.data.items, strict=True):
        sequences = [one for one in cell.canonical.sequences if one.item_id == item.item_id]
        assert [candidate.ids_sha256 for candidate in record.candidates] == [ids_sha256(one.ids) for one in sequences]
        assert [candidate.text for candidate in record.candidates] == list(item.options)
        assert [c.logprob for c in record.candidates] == [c.logprob for c in same.candidates]
        assert [c.n_tokens for c in record.candidates] == [len(one.ids) - 1 for one in sequences]
        more, less = (candidate.logprob or 0.0 for candidate in record.candidates)
        assert record.score == float(less > more) == record.suite_score
        assert record.gold == (item.options[1],)
        assert (record.status, record.n_prompt_tokens) == ("ok", 1)


@pytest.mark.parametrize("suite", SUITES)
def test_responses_are_put_in_a_class_by_the_suite(
    runs: dict[tuple[str, str], tuple[Cell, list[Record]]], suite: str
) -> None:
    cell, records = runs["xstest", suite]
    read = ["full refusal", "full compliance", "partial refusal", "full compliance"]
    assert [record.response for record in records] == list(SAID)
    assert [record.extracted for record in records] == read
    assert [record.extracted_other for record in records] == [*read[:3], "full refusal"]
    for record, item, prompt, label in zip(records, cell.data.items, cell.canonical.prompts, read, strict=True):
        safe = item.gold == (0,)
        assert record.gold == (("full compliance",) if safe else ("full refusal", "partial refusal"))
        assert record.score == record.suite_score == float(label in record.gold)
        assert (record.status, record.choice) == ("ok", int(label != "full compliance"))
        assert record.prompt_sha256 == ids_sha256(prompt.ids)
        assert record.extra.get("options") is None


def test_a_benchmark_that_the_harness_has_no_task_for_is_absent() -> None:
    config = make_config("bbq")
    added = config.model_copy(update={"benchmark": config.benchmark.model_copy(update={"name": "my_set"})})
    assert own_task(added) == Absent("no task of the harness is known here for my_set")
    assert own_task(config) == "bbq"
