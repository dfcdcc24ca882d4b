"""Logs of lm-evaluation-harness in the layouts that its releases wrote, made here small."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.errors import InputError
from tests.crosspkg.importers.importing import command, imported, metrics, said, summary, write_json, write_lines

STAMP = "2025-05-31T14-30-51.983293"
OLDER = "2025-05-30T10-00-00.000001"


def generated(doc_id: int, score: Any, *, name: str = "none", answer: str = "42", **more: Any) -> dict[str, Any]:
    """A row of a generation, as releases from 0.4.3 on write it."""
    return {
        "doc_id": doc_id,
        "doc": {"question": f"q{doc_id}"},
        "target": "42",
        "arguments": {"gen_args_0": {"arg_0": f"Q: q{doc_id}\nA:", "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [[f" it is {answer}"]],
        "filtered_resps": [answer],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": f"hash{doc_id}",
        "exact_match": score,
        **more,
    }


def choosing(doc_id: int, sums: list[float], target: int, acc: float, **more: Any) -> dict[str, Any]:
    """A row of a multiple choice; numbers of the model are text."""
    return {
        "doc_id": doc_id,
        "target": str(target),
        "arguments": {f"gen_args_{i}": {"arg_0": "Q:", "arg_1": f" option {i}"} for i in range(len(sums))},
        "resps": [[[str(one), "False"]] for one in sums],
        "filtered_resps": [[str(one), "False"] for one in sums],
        "filter": "none",
        "metrics": ["acc"],
        "acc": acc,
        **more,
    }


def results(tasks: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A results file."""
    return {
        "results": {name: {"alias": name, **found} for name, found in tasks.items()},
        "configs": {name: {"task": name, "num_fewshot": 5, "target_delimiter": " "} for name in tasks},
        "n-shot": dict.fromkeys(tasks, 5),
        "config": {"model": "hf", "model_args": "pretrained=org/model,dtype=bfloat16"},
        "lm_eval_version": "0.4.8",
        "model_name": "org/model",
        **more,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder as recent releases write it: one results file, two tasks, one of them with two filters."""
    home = tmp_path / "logs" / "org__model"
    rows = [generated(i, float(i < 3), name="strict-match", answer="[invalid]" if i > 2 else "42") for i in range(4)]
    rows += [generated(i, 1.0, name="flexible-extract") for i in range(4)]
    write_lines(home / f"samples_gsm8k_{STAMP}.jsonl", rows)
    write_lines(home / f"samples_quiz_{STAMP}.jsonl", [choosing(0, [-3, -1], 1, 1.0), choosing(1, [-1, -1.5], 1, 0.0)])
    recorded = {
        "gsm8k": {"exact_match,strict-match": 0.75, "exact_match,flexible-extract": 1.0},
        "quiz": {"acc,none": 0.5, "acc_stderr,none": "N/A"},
    }
    write_json(home / f"results_{STAMP}.json", results(recorded))
    return tmp_path / "logs"


def test_filters_are_metrics_and_configurations_of_their_own(folder: Path, tmp_path: Path) -> None:
    body, records = imported("lm_eval", folder, tmp_path / "out")
    tasks = {task["task"]: task for task in body["tasks"]}
    assert (tasks["gsm8k"]["rows"], tasks["gsm8k"]["items"]) == (8, 4)
    assert tasks["gsm8k"]["metrics"]["exact_match,strict-match"]["mean"] == 0.75
    assert tasks["gsm8k"]["metrics"]["exact_match,flexible-extract"]["recorded"] == 1.0
    assert body["model"] == "org/model"
    assert body["suite_version"] == "0.4.8"
    assert body["warnings"] == []
    own = [record for record in records if record.benchmark == "gsm8k"]
    assert len({record.config_id for record in own}) == 2
    assert {record.repeat for record in own} == {0}
    unread = [record for record in own if record.status == "unparsed"]
    assert [(record.item_id, record.extracted, record.score) for record in unread] == [("3", None, 0.0)]
    assert {record.shots for record in records} == {5}


def test_candidates_choice_and_gold_come_from_the_rows(folder: Path, tmp_path: Path) -> None:
    _, records = imported("lm_eval", folder / "org__model" / f"samples_quiz_{STAMP}.jsonl", tmp_path / "out")
    first = records[0]
    assert [(one.text, one.logprob, one.n_chars) for one in first.candidates] == [
        (" option 0", -3, 8),
        (" option 1", -1, 8),
    ]
    assert (first.choice, first.extracted, first.gold, first.prompt) == (1, "option 1", ("option 1",), "Q:")
    assert (first.scoring, first.response, first.model_sha256, first.prompt_sha256) == ("logprob", None, None, None)


def test_a_target_that_contradicts_acc_is_no_gold(tmp_path: Path) -> None:
    """A task that counts from 1, or that takes several candidates for right."""
    path = write_lines(tmp_path / "samples_quiz.jsonl", [choosing(0, [-3, -1], 0, 1.0), choosing(1, [-3, -1], 1, 1.0)])
    body, records = imported("lm_eval", path, tmp_path / "out")
    assert [record.gold for record in records] == [(), (" option 1",)]
    assert said(body, "gold is null")


@pytest.mark.parametrize("layout", ["lists", "flat", "array", "old"])
def test_layouts_of_earlier_releases(layout: str, tmp_path: Path) -> None:
    row: dict[str, Any] = {"doc_id": 0, "target": "b", "resps": [[[-2.0, False]], [[-1.0, True]]], "acc": 1.0}
    if layout == "old":
        rows = [
            {
                "doc_id": 0,
                "prompt_0": "Q: a",
                "logit_0": -2.0,
                "prompt_1": "Q: b",
                "logit_1": -1.0,
                "truth": 1,
                "acc": "1.0",
            }
        ]
        path = write_json(tmp_path / "quiz_write_out_info.json", rows)
    elif layout == "array":
        path = tmp_path / "pretrained__org__m_quiz.jsonl"
        path.write_text(json.dumps([{**row, "arguments": [["Q:", " a"], ["Q:", " b"]]}], indent=2))
    else:
        arguments = [["Q:", " a"], ["Q:", " b"]] if layout == "lists" else ["Q:", " a"]
        path = write_lines(tmp_path / "pretrained=org__m_quiz.jsonl", [{**row, "arguments": arguments}])
    body, records = imported("lm_eval", path, tmp_path / "out")
    (task,) = body["tasks"]
    assert (task["task"], task["rows"], task["metrics"]["acc"]["mean"]) == ("quiz", 1, 1.0)
    if layout in ("lists", "array"):
        assert [one.text for one in records[0].candidates] == [" a", " b"]
        assert records[0].choice == 1
    else:
        assert records[0].candidates == ()
        assert "candidates" in body["absent"]
        assert json.loads(records[0].extra["logprobs"]) == [-2.0, -1.0]
    assert body["model"] == (None if layout == "old" else "org/m")


def test_what_a_file_name_tells_is_said_to_come_from_there(tmp_path: Path) -> None:
    for task in ("trivia_qa.nocontext", "winogrande"):
        write_lines(tmp_path / f"pretrained=org__my_model_{task}.jsonl", [generated(0, 1)])
    body = summary("lm_eval", tmp_path)
    assert {(task["task"], task["model"]) for task in body["tasks"]} == {
        ("trivia_qa.nocontext", "org/my_model"),
        ("winogrande", "org/my_model"),
    }
    assert said(body, "winogrande", "read from the file's or folder's name")


def test_keys_that_are_no_metric_are_named_and_left_out(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_t.jsonl", [generated(0, 1, hallucination="truthful")])
    body = summary("lm_eval", path)
    assert list(metrics(body)) == ["exact_match"]
    assert said(body, "'hallucination'")


def test_values_that_are_no_number_hold_no_score(tmp_path: Path) -> None:
    values = ["1.0", True, math.nan, math.inf, "tc_0", None, [1, 0], 0]
    path = write_lines(tmp_path / "samples_t.jsonl", [generated(i, value) for i, value in enumerate(values)])
    body, records = imported("lm_eval", path, tmp_path / "out")
    found = metrics(body)["exact_match"]
    assert (found["mean"], found["n"], found["not_finite"], found["not_numbers"]) == (2 / 3, 3, 2, 3)
    assert [record.status for record in records] == ["ok", "ok", *["undefined"] * 5, "ok"]
    assert [record.score for record in records] == [1.0, 1.0, None, None, None, None, None, 0.0]


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (0.5, None),
        (50.0, "scale of 100"),
        (0.25, "fewer than were run"),
    ],
)
def test_a_difference_from_the_recorded_aggregate_is_told_with_its_reason(
    recorded: float, reason: str | None, tmp_path: Path
) -> None:
    write_lines(tmp_path / f"samples_t_{STAMP}.jsonl", [generated(0, 1), generated(1, 0)])
    counts = {"n-samples": {"t": {"original": 8, "effective": 4}}} if recorded == 0.25 else {}
    write_json(tmp_path / f"results_{STAMP}.json", results({"t": {"exact_match,none": recorded}}, **counts))
    body = summary("lm_eval", tmp_path)
    assert metrics(body)["exact_match"]["recorded"] == recorded
    assert said(body, "the rows' mean is 0.5", reason) if reason else not said(body, "the rows' mean")
    assert not counts or said(body, "4 of the task's 8 items")


def test_another_aggregation_and_another_filter_are_reasons(tmp_path: Path) -> None:
    rows = [generated(0, 1, f1=1), generated(1, 0, f1=0)]
    rows = [{**row, "metrics": ["exact_match", "f1"]} for row in rows]
    rows += [generated(0, 1, name="other"), generated(1, 1, name="other")]
    write_lines(tmp_path / f"samples_t_{STAMP}.jsonl", rows)
    body = results({"t": {"exact_match,none": 1.0, "f1,none": 0.667}})
    body["configs"]["t"]["metric_list"] = [{"metric": "f1", "aggregation": "weighted_f1"}]
    write_json(tmp_path / f"results_{STAMP}.json", body)
    found = summary("lm_eval", tmp_path)
    assert said(found, "f1: the rows' mean is 0.5", "'weighted_f1'")
    assert said(found, "exact_match: the rows' mean is 0.5", "that of exact_match,other")


def test_of_several_times_the_latest_is_taken_and_the_others_are_named(tmp_path: Path) -> None:
    for stamp, score in ((OLDER, 0), (STAMP, 1)):
        write_lines(tmp_path / f"samples_t_{stamp}.jsonl", [generated(0, score)])
        write_json(tmp_path / f"results_{stamp}.json", results({"t": {"exact_match,none": float(score)}}))
    body = summary("lm_eval", tmp_path)
    assert metrics(body)["exact_match"]["mean"] == metrics(body)["exact_match"]["recorded"] == 1.0
    assert said(body, "imported the latest", f"left out {tmp_path / f'samples_t_{OLDER}.jsonl'}")
    older = summary("lm_eval", tmp_path / f"samples_t_{OLDER}.jsonl")
    assert metrics(older)["exact_match"]["recorded"] == 0.0


def test_a_results_file_with_a_name_of_its_own_is_paired_by_time(tmp_path: Path) -> None:
    write_lines(tmp_path / f"samples_t_{STAMP}.jsonl", [generated(0, 1)])
    named = write_json(tmp_path / f"mine_{STAMP}.json", results({"t": {"exact_match,none": 1.0}}))
    write_json(tmp_path / f"results_{OLDER}.json", results({"t": {"exact_match,none": 0.0}}))
    for path in (named, tmp_path / f"samples_t_{STAMP}.jsonl"):
        body = summary("lm_eval", path)
        assert (metrics(body)["exact_match"]["mean"], metrics(body)["exact_match"]["recorded"]) == (1.0, 1.0)


def test_aggregates_without_samples_are_shown_and_make_no_records(tmp_path: Path) -> None:
    path = write_json(tmp_path / "results.json", results({"t": {"acc": 0.25, "acc_stderr": 0.1}}))
    body = command("lm_eval", path)
    assert metrics(body)["acc"] | {"mean": None, "n": 0, "recorded": 0.25} == metrics(body)["acc"]
    assert metrics(body)["acc"]["recorded_more"] == {"stderr": 0.1}
    with pytest.raises(InputError, match="records are made of items"):
        command("lm_eval", path, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.iterdir()) == [path]


def test_gzip_bom_and_windows_newlines_change_nothing(tmp_path: Path) -> None:
    lines = "\r\n".join(json.dumps(generated(i, 1)) for i in range(3)) + "\r\n\r\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "samples_t.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + lines.encode()))
    assert summary("lm_eval", tmp_path / "a")["tasks"][0]["rows"] == 3


def test_rows_that_lack_a_metric_are_counted(tmp_path: Path) -> None:
    lacking = generated(1, 0)
    del lacking["exact_match"]
    body, records = imported(
        "lm_eval", write_lines(tmp_path / "samples_t.jsonl", [generated(0, 1), lacking]), tmp_path / "o"
    )
    assert (metrics(body)["exact_match"]["mean"], metrics(body)["exact_match"]["n"]) == (1.0, 1)
    assert said(body, "1 of 2 rows hold no exact_match")
    assert (records[1].status, records[1].score) == ("missing", None)


def test_an_item_twice_is_a_repeat(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_t.jsonl", [generated(0, 1), generated(1, 0), generated(0, 1)])
    body, records = imported("lm_eval", path, tmp_path / "out")
    assert [(record.item_id, record.repeat) for record in records] == [("0", 0), ("1", 0), ("0", 1)]
    assert metrics(body)["exact_match"]["mean"] == 0.5
    assert said(body, "more than once", "'0'")


def test_another_metric_can_be_taken_and_scores_off_the_scale_are_none(tmp_path: Path) -> None:
    rows = [{**generated(i, i), "metrics": ["bleu", "exact_match"], "bleu": 40.0 + i} for i in range(2)]
    path = write_lines(tmp_path / "samples_t.jsonl", rows)
    body, records = imported("lm_eval", path, tmp_path / "out")
    assert body["tasks"][0]["score_metric"] == "exact_match"
    assert records[1].extra["metric:bleu"] == "41.0"
    _, records = imported("lm_eval", path, tmp_path / "bleu", metric="bleu")
    assert [(record.score, record.suite_score, record.status) for record in records] == [
        (None, 40.0, "undefined"),
        (None, 41.0, "undefined"),
    ]
    with pytest.raises(InputError, match=r"no row holds the metric 'f1'; there are exact_match, bleu"):
        summary("lm_eval", path, metric="f1")


def test_the_same_task_has_one_config_id_for_two_models(tmp_path: Path) -> None:
    for model in ("org/a", "org/b"):
        home = tmp_path / model.replace("/", "__")
        write_lines(home / f"samples_t_{STAMP}.jsonl", [generated(0, 1)])
        write_json(home / f"results_{STAMP}.json", results({"t": {}}, model_name=model))
    body, records = imported("lm_eval", tmp_path, tmp_path / "out")
    assert body["model"] is None
    assert body["models"] == ["org/a", "org/b"]
    assert len({record.config_id for record in records}) == 1
    assert len({record.cell_id for record in records}) == 2
