"""Run folders of HELM, made here small."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.crosspkg.importers.importing import imported, metrics, said, summary, write_json

ADAPTER = {"method": "generation", "model": "org/model", "model_deployment": "x/model", "max_train_instances": 2}


def state(name: str | None, text: str, *, split: str = "test", trial: int = 0, **more: Any) -> dict[str, Any]:
    """A request state; `more` replaces its parts."""
    instance = {
        "input": {"text": f"question of {name}"},
        "references": [{"output": {"text": "yes"}, "tags": ["correct"]}, {"output": {"text": "no"}, "tags": []}],
        "split": split,
        **({} if name is None else {"id": name}),
        **more.pop("instance", {}),
    }
    return {
        "instance": instance,
        "train_trial_index": trial,
        "request": {"prompt": f"Q: question of {name}\nA:", "temperature": 0.0},
        "result": {"success": True, "completions": [{"text": text, "logprob": 0, "tokens": []}]},
        "num_train_instances": 2,
        "prompt_truncated": False,
        **more,
    }


def stats(name: str, values: dict[str, Any], *, split: str = "test", trial: int = 0, **more: Any) -> dict[str, Any]:
    """An entry of per_instance_stats.json."""
    held = [
        {"name": {"name": key, "split": split, **more}, "count": 1, "sum": value, "mean": value}
        for key, value in values.items()
    ]
    return {"instance_id": name, "train_trial_index": trial, "stats": held, **more}


def recorded(key: str, mean: Any, *, split: str = "test", **more: Any) -> dict[str, Any]:
    """An entry of stats.json."""
    return {"name": {"name": key, "split": split, **more}, "count": 1, "sum": mean, "mean": mean}


def write_run(folder: Path, states: list[Any], instance_stats: list[Any], aggregates: list[Any], **spec: Any) -> Path:
    write_json(folder / "run_spec.json", {"name": "quiz:model=org_model", "adapter_spec": ADAPTER, **spec})
    write_json(folder / "scenario_state.json", {"adapter_spec": ADAPTER, "request_states": states})
    write_json(folder / "per_instance_stats.json", instance_stats)
    write_json(folder / "stats.json", aggregates)
    return folder


def test_statistics_of_several_metrics_are_merged_by_instance(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "runs" / "v1" / "quiz",
        [state("id0", "yes"), state("id1", "no")],
        [
            stats("id0", {"exact_match": 1}),
            stats("id1", {"exact_match": 0}),
            stats("id1", {"num_output_tokens": 7}),
            stats("id0", {"num_output_tokens": 5}),
        ],
        [recorded("exact_match", 0.5), recorded("num_output_tokens", 6.0), recorded("perplexity", 1.5)],
    )
    for path in (run, run / "scenario_state.json", tmp_path):
        body = summary("helm", path)
        found = {name: (one["mean"], one["recorded"]) for name, one in metrics(body).items()}
        assert found == {
            "test|exact_match": (0.5, 0.5),
            "test|num_output_tokens": (6.0, 6.0),
            "test|perplexity": (None, 1.5),
        }
        assert (body["suite_version"], body["model"], body["warnings"]) == (None, "org/model", [])
        assert "suite_version" in body["absent"]
    _, records = imported("helm", run, tmp_path / "out")
    first = records[0]
    assert (first.metric, first.score, first.response, first.gold) == ("exact_match", 1.0, "yes", ("yes",))
    assert (first.decoding, first.shots, first.benchmark) == ("greedy", 2, "quiz")


def test_splits_and_perturbations_have_means_of_their_own(tmp_path: Path) -> None:
    typos = {"perturbation": {"name": "typos", "robustness": True, "computed_on": "perturbed"}}
    worst = {"perturbation": {"name": "robustness", "computed_on": "worst"}}
    run = write_run(
        tmp_path / "quiz",
        [state("id0", "yes"), state("id0", "no", instance=typos), state("id1", "yes", split="valid")],
        [
            stats("id0", {"exact_match": 1}),
            stats("id0", {"exact_match": 0}, **typos),
            stats("id1", {"exact_match": 1}, split="valid"),
        ],
        [recorded("exact_match", 1.0), recorded("exact_match", 0.0, **typos), recorded("exact_match", 0.0, **worst)],
    )
    body, records = imported("helm", run, tmp_path / "out")
    found = {name: (one["mean"], one["recorded"]) for name, one in metrics(body).items()}
    assert found == {
        "test|exact_match": (1.0, 1.0),
        "test|exact_match|typos": (0.0, 0.0),
        "valid|exact_match": (1.0, None),
    }
    assert said(body, "1 test", "1 valid")
    assert len({record.config_id for record in records}) == 3
    assert (body["tasks"][0]["rows"], body["tasks"][0]["items"]) == (3, 2)


def test_trials_are_repeats(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "quiz",
        [state("id0", "yes", trial=trial) for trial in range(2)],
        [stats("id0", {"exact_match": 1 - trial}, trial=trial) for trial in range(2)],
        [recorded("exact_match", 0.5)],
    )
    body, records = imported("helm", run, tmp_path / "out")
    assert [(record.repeat, record.score) for record in records] == [(0, 1.0), (1, 0.0)]
    assert (metrics(body)["test|exact_match"]["n"], body["tasks"][0]["items"]) == (2, 1)


def test_a_failed_request_may_have_a_score_which_no_record_takes_for_the_models(tmp_path: Path) -> None:
    blocked = {"success": False, "error": "Content blocked: reason 4", "completions": [{"text": "", "tokens": []}]}
    broken = {"success": False, "error": "timeout", "completions": []}
    run = write_run(
        tmp_path / "quiz",
        [state("id0", "", result=blocked), state("id1", "", result=broken)],
        [stats("id0", {"safe": 1.0}), stats("id1", {"safe": 0.0})],
        [recorded("safe", 0.5)],
    )
    body, records = imported("helm", run, tmp_path / "out")
    assert metrics(body)["test|safe"]["mean"] == 0.5
    assert [(r.status, r.score, r.suite_score) for r in records] == [("refused", 1.0, 1.0), ("error", None, 0.0)]
    assert said(body, "2 instances failed", "2 of them have scores")


def test_options_of_a_joint_prompt_and_references_asked_apart(tmp_path: Path) -> None:
    letters = {"A": "yes", "B": "no"}
    joint = write_run(
        tmp_path / "joint",
        [state("id0", " A", output_mapping=letters), state("id1", " A.", output_mapping=letters)],
        [stats("id0", {"exact_match": 1}), stats("id1", {"exact_match": 0})],
        [recorded("exact_match", 0.5)],
    )
    _, records = imported("helm", joint, tmp_path / "out-joint")
    assert [(one.extracted, one.gold, one.status) for one in records] == [
        ("A", ("A",), "ok"),
        (None, ("A",), "unparsed"),
    ]
    tokens = [{"text": "Q:", "logprob": -9.0}, {"text": " ye", "logprob": -1.0}, {"text": "s", "logprob": -0.5}]
    asked = [
        state(
            "id0",
            "",
            reference_index=index,
            request_mode="original",
            request={"prompt": f"Q: {text}", "echo_prompt": True},
            result={"success": True, "completions": [{"text": "", "tokens": tokens if index == 0 else []}]},
        )
        for index, text in enumerate(["yes", "no"])
    ]
    apart = write_run(
        tmp_path / "apart",
        asked,
        [stats("id0", {"exact_match": 1, "predicted_index": 0})],
        [recorded("exact_match", 1.0)],
    )
    body, (record,) = imported("helm", apart, tmp_path / "out-apart")
    assert [(one.text, one.logprob) for one in record.candidates] == [(" yes", -1.5), (" no", None)]
    assert (record.prompt, record.choice, record.extracted, record.scoring) == ("Q:", 0, "yes", "logprob")
    assert (body["tasks"][0]["rows"], body["tasks"][0]["records"]) == (2, 1)


def test_a_statistic_of_several_requests_weighs_as_in_helm(tmp_path: Path) -> None:
    def counted(name: str, total: float, count: int) -> dict[str, Any]:
        stat = {"name": {"name": "logprob_x", "split": "test"}, "count": count, "sum": total, "mean": total / count}
        return {"instance_id": name, "train_trial_index": 0, "stats": [stat]}

    states = [state("id0", "yes"), state("id1", "no")]
    run = write_run(tmp_path / "q", states, [counted("id0", 3, 3), counted("id1", 0, 1)], [recorded("logprob_x", 0.75)])
    body = summary("helm", run)
    assert metrics(body)["test|logprob_x"]["mean"] == 0.75
    assert body["warnings"] == []


def test_nan_and_differences_are_told(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "quiz",
        [state("id0", "yes"), state("id1", "no")],
        [stats("id0", {"exact_match": 1}), stats("id1", {"exact_match": math.nan})],
        [recorded("exact_match", 0.25), recorded("f1", math.nan), recorded("num_instances", 3)],
    )
    body, records = imported("helm", run, tmp_path / "out")
    assert metrics(body)["test|f1"]["recorded"] is None
    assert said(body, "test|exact_match is NaN or infinite in 1 rows")
    assert said(body, "the rows' mean is 1", "recorded 0.25", "fewer than were run")
    assert said(body, "HELM counted 3 instances, the log holds 2")
    assert [record.status for record in records] == ["ok", "undefined"]


def test_what_the_web_pages_show_is_enough(tmp_path: Path) -> None:
    run = tmp_path / "quiz"
    shown = {"instance_id": "id0", "train_trial_index": 0, "predicted_text": "yes", "stats": {"exact_match": 1.0}}
    write_json(run / "display_predictions.json", [shown])
    request = {"prompt": "Q: is it?", "model": "org/model", "temperature": 0}
    write_json(run / "display_requests.json", [{"instance_id": "id0", "train_trial_index": 0, "request": request}])
    write_json(run / "stats.json", [recorded("exact_match", 1.0)])
    body, (record,) = imported("helm", run, tmp_path / "out", model="org/model")
    assert (metrics(body)["test|exact_match"]["mean"], metrics(body)["test|exact_match"]["recorded"]) == (1.0, 1.0)
    assert (record.prompt, record.response, record.model) == ("Q: is it?", "yes", "org/model")


def test_instances_without_an_id_stay_apart(tmp_path: Path) -> None:
    one, other = state(None, "a"), state(None, "b")
    other["instance"]["input"] = {"text": "another question"}
    run = write_run(tmp_path / "quiz", [one, other], [], [])
    _, records = imported("helm", run, tmp_path / "out")
    assert len({record.item_id for record in records}) == 2
    assert {record.status for record in records} == {"missing"}


@pytest.mark.parametrize("name", ["stats.json", "per_instance_stats.json", "scenario_state.json"])
def test_a_run_with_one_file_is_read_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "all", [state("id0", "yes")], [stats("id0", {"exact_match": 1})], [recorded("exact_match", 1.0)]
    )
    alone = tmp_path / "alone" / name
    alone.parent.mkdir()
    (run / name).rename(alone)
    body = summary("helm", alone.parent)
    assert body["tasks"][0]["rows"] == (0 if name == "stats.json" else 1)
    found = metrics(body).get("test|exact_match", {})
    assert (found.get("mean"), found.get("recorded")) == {
        "stats.json": (None, 1.0),
        "per_instance_stats.json": (1.0, None),
        "scenario_state.json": (None, None),
    }[name]
