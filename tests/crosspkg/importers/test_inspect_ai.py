"""Logs of Inspect AI, archives and JSON, made here small."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from safetyrepro.crosspkg.importers.inspect_ai.archive import ZSTD
from safetyrepro.errors import InputError
from tests.crosspkg.importers.importing import command, imported, metrics, said, summary, write_json

PROMPT = "Is it so? " * 20


def sample(name: Any, value: Any, epoch: int = 1, **more: Any) -> dict[str, Any]:
    """A sample that one scorer scored."""
    return {
        "id": name,
        "epoch": epoch,
        "input": "Is it so?",
        "target": " Yes",
        "messages": [],
        "output": {"choices": [{"message": {"role": "assistant", "content": "Yes"}, "stop_reason": "stop"}]},
        "scores": None if value is None else {"match": {"value": value, "answer": "Yes"}},
        **more,
    }


def header(accuracy: float | None, items: list[Any], epochs: int = 1, **more: Any) -> dict[str, Any]:
    """The header of a log whose one scorer recorded `accuracy`."""
    scored = {"name": "match", "scorer": "match", "metrics": {"accuracy": {"name": "accuracy", "value": accuracy}}}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": "eval1",
            "created": "2026-03-11T00:46:22+00:00",
            "task": "quiz",
            "model": "org/model",
            "dataset": {"samples": len(set(items)), "sample_ids": list(dict.fromkeys(items))},
            "config": {"epochs": epochs},
            "packages": {"inspect_ai": "0.3.180"},
        },
        "plan": {"steps": [{"solver": "generate", "params": {}}], "config": {"temperature": 0.5}},
        "results": {"total_samples": len(items), "scores": [] if accuracy is None else [scored]},
        **more,
    }


def write_eval(path: Path, head: dict[str, Any] | None, samples: list[dict[str, Any]], method: int = ZSTD) -> Path:
    """An archive as Inspect writes it, zstd or deflated."""
    members = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
    if head is None:
        members["_journal/start.json"] = {key: header(None, [])[key] for key in ("version", "eval", "plan")}
    else:
        members["header.json"] = head
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            if method == ZSTD:
                _write_zstd(archive, name, json.dumps(body).encode())
            else:
                archive.writestr(name, json.dumps(body))
    return path


def _write_zstd(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """What Inspect writes since 0.3.206: method 93, which this Python's zipfile can neither write nor read."""
    packed = zstandard.ZstdCompressor().compress(data)
    info = zipfile.ZipInfo(name)
    info.compress_type, info.CRC = ZSTD, zlib.crc32(data)
    info.file_size, info.compress_size, info.header_offset = len(data), len(packed), archive.fp.tell()
    archive.fp.write(info.FileHeader(zip64=False) + packed)
    archive.start_dir = archive.fp.tell()
    archive.filelist.append(info)
    archive.NameToInfo[name] = info
    archive._didModify = True


def whole(head: dict[str, Any], samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A log in one object."""
    return {**head, "samples": samples}


@pytest.mark.parametrize("form", ["zstd", "deflate", "json", "json.gz", "samples first", "misnamed"])
def test_every_form_of_a_log_reads_alike(form: str, tmp_path: Path) -> None:
    samples = [sample(1, "C"), sample("b", "I"), sample("c", "P")]
    head = header(0.5, [1, "b", "c"])
    path = tmp_path / "log.json"
    if form in ("zstd", "deflate", "misnamed"):
        path = write_eval(tmp_path / "log.eval", head, samples, ZSTD if form == "zstd" else zipfile.ZIP_DEFLATED)
        if form == "misnamed":
            path = path.rename(tmp_path / "log.json")
    elif form == "json.gz":
        path = tmp_path / "log.json.gz"
        path.write_bytes(gzip.compress(json.dumps(whole(head, samples)).encode()))
    else:
        body = whole(head, samples)
        write_json(path, dict(reversed(body.items())) if form == "samples first" else body)
    for place in (path, tmp_path):
        body = summary("inspect_ai", place)
        assert (body["suite_version"], body["model"]) == ("0.3.180", "org/model")
        found = metrics(body)["match"]
        assert (found["mean"], found["n"], found["recorded"]) == (0.5, 3, 0.5)
        assert body["warnings"] == []


def test_epochs_are_repeats_and_the_mean_is_over_items(tmp_path: Path) -> None:
    values = {("a", 1): "C", ("a", 2): "C", ("a", 3): "I", ("b", 1): "I", ("b", 2): "I", ("b", 3): "I"}
    samples = [sample(name, value, epoch) for (name, epoch), value in values.items()]
    path = write_eval(tmp_path / "log.eval", header(1 / 3, ["a", "b"] * 3, 3), samples)
    body, records = imported("inspect_ai", path, tmp_path / "out")
    (task,) = body["tasks"]
    assert (task["rows"], task["items"]) == (6, 2)
    assert task["metrics"]["match"]["mean"] == pytest.approx(1 / 3)
    assert task["metrics"]["match"]["items"] == 2
    assert [(record.item_id, record.repeat) for record in records][:3] == [("a", 0), ("a", 1), ("a", 2)]
    assert records[0].gold == (" Yes",)
    assert records[0].decoding == "T=0.5"


def test_epochs_reduced_otherwise_are_told(tmp_path: Path) -> None:
    head = header(1.0, ["a", "a"], 2)
    head["results"]["scores"][0]["reducer"] = "max"
    path = write_eval(tmp_path / "log.eval", head, [sample("a", "C", 1), sample("a", "I", 2)])
    assert said(summary("inspect_ai", path), "the rows' mean is 0.5", "by 'max'")


def test_scorers_and_keys_of_a_score_stay_apart(tmp_path: Path) -> None:
    scores = {
        "one": {"value": "C"},
        "two": {"value": {"helpful": 1, "harmless": "I"}},
        "three": {"value": {"helpful": 0}},
    }
    head = header(1.0, ["a"])
    head["results"]["scores"] = [
        {"name": name, "scorer": scorer, "metrics": {"mean": {"value": value}}}
        for name, scorer, value in [
            ("one", "one", 1.0),
            ("helpful", "two", 1.0),
            ("harmless", "two", 0.0),
            ("helpful", "three", 0.0),
        ]
    ]
    path = write_eval(tmp_path / "log.eval", head, [sample("a", None, scores=scores)])
    body, (record,) = imported("inspect_ai", path, tmp_path / "out")
    found = {name: (one["mean"], one["recorded"]) for name, one in metrics(body).items()}
    assert found == {
        "one": (1.0, 1.0),
        "two.helpful": (1.0, 1.0),
        "harmless": (0.0, 0.0),
        "three.helpful": (0.0, 0.0),
    }
    assert (record.metric, record.score, record.extra["metric:harmless"]) == ("one", 1.0, "0.0")


def test_errors_leave_the_denominator_and_both_figures_are_said(tmp_path: Path) -> None:
    samples = [sample(i, "C" if i < 8 else "I") for i in range(9)]
    samples.append(sample(9, None, error={"message": "connection lost", "traceback": ""}))
    path = write_eval(tmp_path / "log.eval", header(8 / 9, list(range(10))), samples)
    body, records = imported("inspect_ai", path, tmp_path / "out")
    found = metrics(body)["match"]
    assert (found["mean"], found["n"]) == (pytest.approx(8 / 9), 9)
    assert said(body, "1 of 10 samples ended in an error")
    assert said(body, "0.8 of 10")
    assert (records[-1].status, records[-1].reason, records[-1].score) == ("error", "connection lost", None)


@pytest.mark.parametrize("status", ["cancelled", "error"])
def test_a_run_that_did_not_end_is_said_to_be_incomplete(status: str, tmp_path: Path) -> None:
    head = header(1.0, [1, 2, 3], status=status, error={"message": "out of money"})
    head["eval"]["dataset"]["samples"] = 100
    body = summary("inspect_ai", write_eval(tmp_path / "log.eval", head, [sample(1, "C")]))
    assert said(body, repr(status), "out of money", "holds 1 of 3")
    assert said(body, "3 of the data set's 100")


def test_a_stopped_run_that_holds_all_samples_is_not_called_incomplete(tmp_path: Path) -> None:
    head = header(1.0, [1, 2], status="cancelled")
    body = summary("inspect_ai", write_eval(tmp_path / "log.eval", head, [sample(1, "C"), sample(2, "C")]))
    assert said(body, "'cancelled'", "and yet the log holds all 2 planned samples")
    assert not said(body, "incomplete")


def test_a_name_that_the_log_contradicts_is_said_to_be_unused(tmp_path: Path) -> None:
    log = write_eval(tmp_path / "log.eval", header(1.0, [1]), [sample(1, "C")])
    assert said(command("inspect_ai", log, "--model", "mine"), "--model 'mine' is not used", "'org/model'")
    assert not said(command("inspect_ai", log, "--model", "org/model"), "not used")


def test_a_crashed_run_has_its_journal_only(tmp_path: Path) -> None:
    body = summary("inspect_ai", write_eval(tmp_path / "log.eval", None, [sample(1, "C")]))
    assert (metrics(body)["match"]["mean"], metrics(body)["match"]["recorded"]) == (1.0, None)
    assert said(body, "'started'")
    assert "recorded aggregates" in body["absent"]


def test_words_nan_and_lists(tmp_path: Path) -> None:
    values = ["yes", "FALSE", "0.25", True, "N", "unclear", math.nan, [1, 2]]
    path = write_json(
        tmp_path / "log.json", whole(header(0.5, list(range(8))), [sample(i, v) for i, v in enumerate(values)])
    )
    found = metrics(summary("inspect_ai", path))["match"]
    assert found["mean"] == pytest.approx(2.25 / 5)
    assert (found["n"], found["not_finite"], found["not_numbers"]) == (5, 1, 2)


def test_pooled_messages_and_attachments_are_put_back(tmp_path: Path) -> None:
    events = [
        {"event": "model", "input_refs": [[0, 1]], "call": {"request": {"n": 1}, "call_refs": [[0, 1], [1, 2]]}},
        {"event": "span_begin", "type": "scorers"},
        {"event": "model", "input": [{"role": "user", "content": "Grade this."}]},
    ]
    pools = {
        "messages": [{"role": "user", "content": "attachment://0a"}],
        "calls": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "attachment://0a"}],
    }
    held = sample(1, "C", events=events, events_data=pools, attachments={"0a": PROMPT})
    _, (record,) = imported("inspect_ai", write_eval(tmp_path / "log.eval", header(1.0, [1]), [held]), tmp_path / "out")
    assert json.loads(record.prompt or "") == [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": PROMPT},
    ]
    assert (record.response, record.finish_reason) == ("Yes", "stop")


def test_a_sample_in_chunks_reads_like_one_in_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    body = sample("a", "C")
    del body["messages"]
    event = {"event": "model", "input_refs": [[1, 2]], "config": {"temperature": 0}}
    parts = {
        "sample.json": body,
        "messages/0.json": [{"role": "user", "content": "first"}],
        "messages/1.json": [{"role": "user", "content": "attachment://1"}],
        "events/0.json": [event],
        "events/stats.json": {"chunks": []},
        "attachments/0.json": ["other", PROMPT],
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header(1.0, ["a"])))
        for name, value in parts.items():
            archive.writestr(f"samples/a_epoch_1/{name}", json.dumps(value))
    body, (record,) = imported("inspect_ai", path, tmp_path / "out")
    assert json.loads(record.prompt or "") == [{"role": "user", "content": PROMPT}]
    assert (record.decoding, metrics(body)["match"]["n"]) == ("greedy", 1)


def test_the_first_layout_has_one_score_and_a_transcript(tmp_path: Path) -> None:
    old = sample(1, None, score={"value": "C", "answer": "Yes"})
    del old["scores"]
    old["transcript"] = {
        "events": [{"event": "model", "input": [{"role": "user", "content": "tc://x"}]}],
        "content": {"x": PROMPT},
    }
    head = header(None, [1])
    head["results"] = {"scorer": {"name": "match"}, "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}
    body, (record,) = imported("inspect_ai", write_json(tmp_path / "log.json", whole(head, [old])), tmp_path / "out")
    assert (metrics(body)["match"]["mean"], metrics(body)["match"]["recorded"]) == (1.0, 1.0)
    assert PROMPT in (record.prompt or "")


def test_refusals_and_unread_answers_have_their_status(tmp_path: Path) -> None:
    def reply(reason: str) -> dict[str, Any]:
        return {"choices": [{"message": {"content": "Y"}, "stop_reason": reason}]}

    unread = {"match": {"value": "I", "answer": ""}}
    samples = [
        sample(1, "I", output=reply("content_filter")),
        sample(2, None, scores=unread, output=reply("max_tokens")),
        sample(3, None, scores=unread, output=reply("stop")),
        sample(4, "C", choices=["no", "yes"], scores={"match": {"value": "C", "answer": "B"}}),
    ]
    _, records = imported(
        "inspect_ai", write_eval(tmp_path / "l.eval", header(0.25, [1, 2, 3, 4]), samples), tmp_path / "o"
    )
    assert [record.status for record in records] == ["refused", "truncated", "unparsed", "ok"]
    assert [record.score for record in records] == [0.0, 0.0, 0.0, 1.0]
    assert (records[3].choice, records[3].extracted) == (1, "B")


def test_of_two_runs_of_the_same_the_later_is_taken(tmp_path: Path) -> None:
    for name, created, value in (("a", "2026-03-11", "I"), ("b", "2026-03-12", "C")):
        head = header(None, [1])
        head["eval"]["created"] = created
        write_eval(tmp_path / f"{name}.eval", head, [sample(1, value)])
    write_json(tmp_path / "listing.json", {"a.eval": {"task": "quiz"}})
    body = summary("inspect_ai", tmp_path)
    assert metrics(body)["match"]["mean"] == 1.0
    assert said(body, "left out", "a.eval")


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_eval(tmp_path / "log.eval", header(1.0, [1]), [sample(1, "C", input="x" * 50_000)])
    monkeypatch.setattr("safetyrepro.crosspkg.importers.inspect_ai.archive.MAX_VALUE", 20_000)
    with pytest.raises(InputError, match=r"samples/1_epoch_1.json.*unpacks to more than"):
        summary("inspect_ai", path)


def test_names_in_an_archive_name_no_path(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header(1.0, ["../../x"])))
        archive.writestr("samples/../../../escaped.json", json.dumps(sample("../../x", "C")))
        archive.writestr("samples/..json", json.dumps(sample("../../x", "C")))
    head = tmp_path / "deep" / "out"
    _, records = imported("inspect_ai", path, head)
    assert [record.item_id for record in records] == ["../../x"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["deep", "log.eval"]
    assert sorted(one.name for one in (tmp_path / "deep").iterdir()) == ["out"]
