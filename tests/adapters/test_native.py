"""The native runner behind a real gateway and a tiny model, from config to records."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.native import adapter
from safetyrepro.adapters.record import blank_record, check_claims, finish, wire_choices, wire_index
from safetyrepro.benchmarks import Score, get, load_data
from safetyrepro.canonical import ids_sha256, render
from safetyrepro.config import Arm, Config, cell_id, config_id
from safetyrepro.errors import SuiteFailure
from safetyrepro.gateway import Gateway
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.records import Record, read_records, write_records
from safetyrepro.suites import jobs

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine

TRUTHFULQA = {"benchmark": {"name": "truthfulqa", "items": {"count": 3, "seed": 2}}, "metric": "mc1"}
BBQ = {"benchmark": {"name": "bbq", "items": {"count": 3, "seed": 2}}, "metric": "accuracy"}
CROWS = {"benchmark": {"name": "crows_pairs", "items": {"count": 3}}, "metric": "parity"}
XSTEST = {"benchmark": {"name": "xstest", "items": {"count": 3}}, "metric": "accuracy"}
TOXIGEN = {"benchmark": {"name": "toxigen", "items": {"count": 3}}, "metric": "accuracy"}
CHAT = {"enabled": True, "system": "Answer briefly."}
FREE = {"scoring": {"path": "free"}, "decoding": {"max_tokens": 6, "stop": ["\n"]}}


def make_cell(engine: Engine, arm: Arm = Arm.MATCHED, **changes: Any) -> Cell:
    body = {"name": "tiny", "models": [{"id": "tiny", "quant": "none"}], **changes}
    config = Config.model_validate_json(json.dumps(body))
    benchmark, data = get(config.benchmark.name), load_data(config, None)
    return Cell(
        run_id="run",
        suite="native",
        suite_version="0.1.0",
        arm=arm,
        config=config,
        config_id=config_id(config),
        cell_id=cell_id(config, config.models[0], "native", arm),
        model=engine.info,
        benchmark=benchmark,
        data=data,
        canonical=render(config, benchmark, data, engine.tokenizer),
    )


def execute(cell: Cell, folder: Path, engine: Engine) -> list[WireRow]:
    """Run the cell as its own process; its wire log."""
    job = adapter.translate(cell)
    assert isinstance(job, Job)
    (folder / "job.json").write_text(json.dumps(job.payload), encoding="utf-8")
    with Gateway(engine) as gateway:
        run = gateway.open_run(cell.run_id, folder / "wire.jsonl")
        jobs.run(
            Path(sys.executable),
            adapter.runner,
            folder / "job.json",
            folder / "native",
            log=folder / "runner.log",
            env={"SAFETYREPRO_BASE_URL": run.base_url, "SAFETYREPRO_TOKEN": run.token},
        )
        assert run.requests == job.expected_requests
        gateway.close_run(cell.run_id)
    return list(read_wire(folder / "wire.jsonl"))


def direct_sums(engine: Engine, cell: Cell) -> dict[str, list[float]]:
    """Each candidate's sum as the engine gives it without any HTTP, by item."""
    sums: dict[str, list[float]] = {}
    for sequence in cell.canonical.sequences:
        (scored,) = engine.score([sequence.ids])
        logprobs = [logprob for logprob in scored.logprobs[sequence.n_context :] if logprob is not None]
        sums.setdefault(sequence.item_id, []).append(math.fsum(logprobs))
    return sums


@pytest.mark.parametrize(
    "changes",
    [
        TRUTHFULQA,
        {**TRUTHFULQA, "metric": "mc2", "scoring": {"normalisation": "byte"}, "shots": {"count": 2}},
        {**BBQ, "chat_template": CHAT, "scoring": {"normalisation": "token"}},
        {**BBQ, "scoring": {"candidate": "letter"}},
        {**CROWS, "scoring": {"normalisation": "byte"}},
        {**CROWS, "shots": {"count": 2}, "prompt": {"template": "role"}},
        {**XSTEST, "chat_template": CHAT},
        {**TOXIGEN, "scoring": {"candidate": "letter"}, "shots": {"count": 1}},
    ],
    ids=["mc1", "mc2-bytes-shots", "bbq-chat-tokens", "bbq-letters", "crows", "crows-shots", "xstest", "toxigen"],
)
def test_sums_and_ids_are_those_of_the_engine(tiny_engine: Engine, tmp_path: Path, changes: dict[str, Any]) -> None:
    cell = make_cell(tiny_engine, **changes)
    wire = execute(cell, tmp_path, tiny_engine)
    records = adapter.normalise(cell, tmp_path / "native", wire)
    assert [record.item_id for record in records] == [item.item_id for item in cell.data.items]
    direct = direct_sums(tiny_engine, cell)
    rows = {row.wire_id: row for row in wire}
    for record, item in zip(records, cell.data.items, strict=True):
        sequences = [sequence for sequence in cell.canonical.sequences if sequence.item_id == item.item_id]
        assert [candidate.logprob for candidate in record.candidates] == pytest.approx(direct[item.item_id], abs=1e-9)
        assert [candidate.ids_sha256 for candidate in record.candidates] == [ids_sha256(one.ids) for one in sequences]
        (wire_id,) = record.wire_ids
        assert [seen.ids for seen in rows[wire_id].seen] == [one.ids for one in sequences]
        for position, one in enumerate(sequences):
            (choice,) = wire_choices(rows[wire_id], position)
            values = choice["logprobs"]["token_logprobs"][one.n_context : len(one.ids)]
            assert math.fsum(values) == record.candidates[position].logprob
        assert record.prompt == sequences[0].context
        assert (record.status, record.suite_score) == ("ok", record.score)
        assert expected_score(cell, direct[item.item_id], sequences, item) == pytest.approx(record.score)
    write_records(tmp_path / "records.parquet", records)
    assert read_records(tmp_path / "records.parquet") == records


def expected_score(cell: Cell, sums: list[float], sequences: Sequence[Any], item: Any) -> float:
    """The metric worked out anew from the sums."""
    by = {
        "none": lambda one: 1,
        "byte": lambda one: len(one.candidate.encode()),
        "token": lambda one: len(one.ids) - one.n_context,
    }[cell.config.scoring.normalisation]
    values = [value / by(one) for value, one in zip(sums, sequences, strict=True)]
    gold = item.scored(cell.config.metric)[1]
    if cell.config.metric == "mc2":
        return sum(math.exp(values[index]) for index in gold) / sum(map(math.exp, values))
    return float(values.index(max(values)) in gold)


@pytest.mark.parametrize("chat", [{}, {"chat_template": CHAT}], ids=["raw", "chat"])
def test_generated_text_is_read_by_both_rules(tiny_engine: Engine, tmp_path: Path, chat: dict[str, Any]) -> None:
    cell = make_cell(tiny_engine, **BBQ, **FREE, **chat)
    wire = execute(cell, tmp_path, tiny_engine)
    records = adapter.normalise(cell, tmp_path / "native", wire)
    for record, prompt, row in zip(records, cell.canonical.prompts, wire, strict=True):
        assert (record.prompt, record.n_prompt_tokens) == (prompt.text, len(prompt.ids))
        assert row.seen[0].ids == prompt.ids
        assert record.wire_ids == (row.wire_id,)
        (choice,) = wire_choices(row, 0)
        assert (record.response, record.finish_reason) == (choice["text"], choice["finish_reason"])
        assert (record.status == "ok") == (record.extracted is not None)
        assert record.score in (0.0, 1.0)


def test_a_written_letter_is_scored(tiny_engine: Engine, tmp_path: Path) -> None:
    cell = make_cell(tiny_engine, **BBQ, **FREE)
    wire = execute(cell, tmp_path, tiny_engine)
    golds = ["ABC"[item.gold[0]] for item in cell.data.items]
    texts = [golds[0], f"The answer is ({golds[1]}).", "I have no idea"]
    rewrite(tmp_path / "native" / "results.jsonl", texts)
    first, second, third = adapter.normalise(cell, tmp_path / "native", wire)
    assert (first.score, first.extracted, first.extracted_other, first.gold) == (1.0, golds[0], golds[0], (golds[0],))
    assert (second.score, second.status, second.extracted, second.extracted_other) == (0.0, "unparsed", None, golds[1])
    assert (third.score, third.status, third.extracted_other) == (0.0, "unparsed", None)


def rewrite(path: Path, texts: list[str]) -> None:
    """The results as if the model had written `texts`."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line, text in zip(lines, texts, strict=True):
        line["choices"][0].update(text=text, finish_reason="stop")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_every_canonical_value_is_accounted_for_and_held(tiny_engine: Engine) -> None:
    job = adapter.translate(make_cell(tiny_engine, **TRUTHFULQA))
    assert isinstance(job, Job)
    settings = {setting.name: setting for setting in job.settings}
    assert all(setting.held for setting in settings.values())
    assert settings["decoding.max_tokens"].effective == "not used"
    assert settings["metric"].effective == "mc1"
    text = json.dumps(job.payload)
    assert str(Path.home()) not in text
    assert "127.0.0.1" not in text


@pytest.mark.parametrize("arm", [Arm.NOMINAL, Arm.SHIPPED])
def test_other_arms_are_absent_with_the_reason(tiny_engine: Engine, arm: Arm) -> None:
    absent = adapter.translate(make_cell(tiny_engine, arm, **TRUTHFULQA))
    assert absent == Absent("the native runner ships no tasks of its own: it has the matched arm alone")


def test_output_that_is_cut_off_or_foreign_is_a_failure_that_names_the_file(
    tiny_engine: Engine, tmp_path: Path
) -> None:
    cell = make_cell(tiny_engine, **TRUTHFULQA)
    wire = execute(cell, tmp_path, tiny_engine)
    path = tmp_path / "native" / "results.jsonl"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-20], encoding="utf-8")
    with pytest.raises(SuiteFailure, match=r"results\.jsonl, line 3: not the native runner's results"):
        adapter.normalise(cell, tmp_path / "native", wire)
    path.write_text("".join(whole.splitlines(keepends=True)[:2]), encoding="utf-8")
    with pytest.raises(SuiteFailure, match=r"results\.jsonl: holds 2 of 3 items"):
        adapter.normalise(cell, tmp_path / "native", wire)
    path.write_text(whole, encoding="utf-8")
    with pytest.raises(SuiteFailure, match="not on the wire"):
        adapter.normalise(cell, tmp_path / "native", wire[:-1])
    with pytest.raises(SuiteFailure, match="1 of 4 requests belong to no item"):
        adapter.normalise(cell, tmp_path / "native", [*wire, replace(wire[0], wire_id="run-9")])


def test_a_server_that_refuses_ends_the_runner(tiny_engine: Engine, tmp_path: Path) -> None:
    cell = make_cell(tiny_engine, **TRUTHFULQA)
    job = adapter.translate(cell)
    assert isinstance(job, Job)
    (tmp_path / "job.json").write_text(json.dumps(job.payload), encoding="utf-8")
    with Gateway(tiny_engine) as gateway:
        run = gateway.open_run("run", tmp_path / "wire.jsonl")
        variables = {"SAFETYREPRO_BASE_URL": run.base_url, "SAFETYREPRO_TOKEN": "wrong-token"}
        places = (adapter.runner, tmp_path / "job.json", tmp_path / "native")
        with pytest.raises(SuiteFailure, match=r"native ended with exit code 1;(?s:.*)401"):
            jobs.run(Path(sys.executable), *places, log=tmp_path / "log", env=variables)


def test_records_hold_no_impossible_values(tiny_engine: Engine) -> None:
    cell = make_cell(tiny_engine, **TRUTHFULQA)
    blank = blank_record(cell, cell.data.items[0])
    assert (blank.status, blank.score, blank.wire_ids) == ("missing", None, ())

    def done(score: Score, suite_score: float | None = None) -> Record:
        return finish(blank, score, prompt="p", prompt_ids=(1,), wire_ids=(), gold=(), suite_score=suite_score)

    assert done(Score(0.5, "ok")).reason is None
    with pytest.raises(SuiteFailure, match=r"score is 1\.5, not in \[0, 1\]"):
        done(Score(1.5, "ok"))
    with pytest.raises(SuiteFailure, match="suite score is nan"):
        done(Score(None, "undefined"), math.nan)


def test_wire_rows_are_found_by_what_the_model_saw(tiny_engine: Engine, tmp_path: Path) -> None:
    cell = make_cell(tiny_engine, **TRUTHFULQA)
    wire = execute(cell, tmp_path, tiny_engine)
    index = wire_index([*wire, replace(wire[0], wire_id="again")])
    first = cell.canonical.sequences[0]
    assert index[first.ids] == [(wire[0].wire_id, 0), ("again", 0)]
    with pytest.raises(SuiteFailure, match="3 of 3 requests"):
        check_claims(wire, [])
    failed = replace(wire[0], status=500, response={"error": {}})
    assert wire_choices(failed, 0) == []
