"""HELM's XSTest, whose responses a judge grades: in HELM's own environment, before a scripted model and judge."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from safetyrepro.config import Arm
from safetyrepro.engine import Engine
from safetyrepro.errors import InputError, SuiteFailure
from safetyrepro.gateway import Gateway
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.wire import read_wire
from tests.adapters.scripted import Replying, by_part
from tests.adapters.test_helm import TOKENIZERS, XSTEST, Ran, adapter, job_of, make_cell, start

VERDICTS = {
    "the first": "<reasoning>fine</reasoning><score>1</score>",
    "the second": "<reasoning>not clear</reasoning><score>0.5</score>",
    "the third": "I cannot say.",
    "the fourth": "<reasoning>much</reasoning><score>7</score>",
    "the fifth": "",
}
"""What the scripted model writes, and what the scripted judge says of it: nothing is a refusal."""


def verdict(prompt: str) -> str:
    """What the judge replies; where it has no verdict it refuses the request."""
    said = by_part(VERDICTS)(prompt)
    if not said:
        raise InputError("this prompt is not judged here")
    return said


def judged(engine: Engine, folder: Path) -> Ran:
    """A run whose items get the responses of `VERDICTS`, in order."""
    cell = make_cell(engine, Arm.SHIPPED, **XSTEST)
    job = job_of(cell)
    responses = {item.question: text for item, text in zip(cell.data.items, VERDICTS, strict=True)}
    TOKENIZERS[folder.name] = engine.info.tokenizer_dir
    with Gateway(Replying(engine, by_part(responses))) as gateway, Gateway(Replying(engine, verdict)) as court:
        gate = gateway.open_run(cell.run_id, folder / "wire.jsonl")
        judge = court.open_run("judge", folder / "judge.jsonl")
        start(job.payload, adapter.runner, folder, gate.base_url, gate.token, judge)
        gateway.close_run(cell.run_id)
    return Ran(cell, job, folder / "native", tuple(read_wire(folder / "wire.jsonl")), engine)


def test_shipped_xstest_is_graded_by_the_judge_on_a_log_of_its_own(tiny_engine: Engine, tmp_path: Path) -> None:
    ran = judged(tiny_engine, tmp_path / "judged")
    records = ran.records
    assert [record.response for record in records] == list(VERDICTS)
    assert [record.suite_score for record in records] == [1.0, 0.5, None, 7.0, None]
    assert [record.score for record in records] == [1.0, 0.5, None, None, None]
    assert [record.status for record in records] == ["ok", "ok", "error", "undefined", "error"]
    assert "'I cannot say.'" in str(records[2].reason)
    assert "did not answer" in str(records[4].reason)
    assert "this prompt is not judged here" in str(records[4].reason)
    for item, record in zip(ran.cell.data.items, records, strict=True):
        assert record.prompt.endswith(f"user\n{item.question}<|im_end|>\n<|im_start|>assistant\n")
        assert record.gold == ran.cell.benchmark.readings(item)
    asked = list(read_wire(ran.out_dir.parent / "judge.jsonl"))
    assert len(asked) == len(ran.wire) == len(records)
    unsafe = [row for row in asked if "unsafe prompt" in row.request["messages"][0]["content"]]
    assert len(unsafe) == sum(item.category.startswith("contrast_") for item in ran.cell.data.items)
    assert (ran.wire[0].request["max_tokens"], ran.wire[0].request["temperature"]) == (512, 0.0)
    judge = next(setting for setting in ran.job.settings if setting.name == "suite.judge")
    assert (judge.canonical, judge.effective, judge.held) == ("gpt-4o-2024-05-13", "some/judge", False)


@pytest.mark.parametrize("refusal", [Refusal(400, "I judge none of these"), Refusal(503, "nobody is here")], ids=str)
def test_a_judge_that_is_not_there_ends_the_run_and_one_that_refuses_all_does_not(
    tiny_engine: Engine, tmp_path: Path, refusal: Refusal
) -> None:
    cell = make_cell(tiny_engine, Arm.SHIPPED, **XSTEST)
    job = job_of(cell)
    folder = tmp_path / "refused"
    TOKENIZERS[folder.name] = tiny_engine.info.tokenizer_dir

    def refuse(_prompt: str) -> str:
        raise refusal

    with Gateway(tiny_engine) as gateway, Gateway(Replying(tiny_engine, refuse)) as court:
        gate = gateway.open_run(cell.run_id, tmp_path / "wire.jsonl")
        judge = court.open_run("judge", tmp_path / "judge.jsonl")
        run = partial(start, job.payload, adapter.runner, folder, gate.base_url, gate.token, judge)
        if refusal.status == 503:
            with pytest.raises(SuiteFailure, match=r"The judge answered none of 5 requests.*nobody is here"):
                run()
            return
        run()
        gateway.close_run(cell.run_id)
    records = adapter.normalise(cell, folder / "native", tuple(read_wire(tmp_path / "wire.jsonl")))
    assert [record.status for record in records] == ["error"] * len(cell.data.items)
    assert all("I judge none of these" in str(record.reason) and record.response for record in records)
