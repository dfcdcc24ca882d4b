"""The card of a third party's log: what it says, and what it misses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.analysis.card.fact import Given, NotDisclosed, Unverified
from safetyrepro.analysis.card.openness import counts, gaps
from safetyrepro.crosspkg.importers import import_logs
from safetyrepro.progress import Progress
from tests.card.conftest import Run, card_of
from tests.crosspkg.importers.importing import write_json
from tests.crosspkg.importers.test_helm import recorded, state, stats, write_run
from tests.crosspkg.importers.test_lm_eval import choosing, results

DATA = os.environ.get("SAFETYREPRO_DATA")
PUBLIC = sorted(path.parent for path in Path(DATA, "logs").glob("*/*/expect.json")) if DATA else []
SUITES = {"lm_eval": "lm_eval", "helm": "helm", "inspect": "inspect_ai"}


def own(folder: Path) -> Path:
    return write_run(
        folder / "helm" / "own",
        [state("id0", "yes"), state("id1", "no")],
        [stats("id0", {"exact_match": 1}), stats("id1", {"exact_match": 0})],
        [recorded("exact_match", 0.5), recorded("num_instances", 2)],
    )


@pytest.mark.parametrize("log", [None, *PUBLIC], ids=lambda path: "own" if path is None else path.name)
def test_a_log_gets_a_card_that_shows_what_it_misses(log: Path | None, tmp_path: Path) -> None:
    place = own(tmp_path) if log is None else log
    import_logs(SUITES[place.parent.name], place, tmp_path / "imported", Progress(None))
    card = card_of(tmp_path / "imported")
    assert card.kind == "import"
    open_fields = {gap.label: gap for gap in gaps(card)}
    for label in ("weights hash", "seal", "lock hash", "dataset hash", "cells planned"):
        assert open_fields[label].state == "not disclosed"
    assert counts(gaps(card))["decisive"] >= 5
    # The logs hold one model each, and a card does not make a verdict of that.
    assert all(one.verdict == "not testable" for one in card.stability.benchmarks)
    assert str(place) not in card.model_dump_json()


def lm_eval(folder: Path, **more: Any) -> Path:
    """A log whose results file says much of itself."""
    write_json(folder / "results_2026-01-01T00-00-00.json", results({"arc": {"acc,none": 0.5}}, **more))
    rows = [choosing(0, [-1.0, -2.0], 0, 1.0), choosing(1, [-1.0, -2.0], 1, 0.0)]
    path = folder / "samples_arc_2026-01-01T00-00-00.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


SAID = {
    "config": {"model": "hf", "model_args": "pretrained=org/m", "model_sha": "a" * 40, "model_dtype": "torch.bfloat16"},
    "configs": {
        "arc": {"dataset_path": "allenai/arc", "dataset_kwargs": {"revision": "abc"}, "doc_to_text": "Q: {{q}}"}
    },
    "versions": {"arc": 1.0},
    "chat_template": None,
    "git_hash": "1234567",
    "pretty_env_info": "OS: Linux\nCPU:\nSome CPU\nGPU models and configuration: GPU 0: H100\n",
    "transformers_version": "4.50.0",
}


def test_what_a_log_says_of_itself_is_given(tmp_path: Path) -> None:
    import_logs("lm_eval", lm_eval(tmp_path / "log", **SAID), tmp_path / "imported", Progress(None))
    card = card_of(tmp_path / "imported")
    model, benchmark = card.models[0], card.benchmarks[0]
    assert (model.revision.value, model.compute_dtype.value) == ("a" * 40, "torch.bfloat16")
    assert (benchmark.dataset.value, benchmark.revision.value) == ("allenai/arc", "abc")
    assert benchmark.chat_template.value == ("off",)
    assert benchmark.scoring_path.value == ("logprob",)
    assert card.run.code_commit.value == "1234567"
    assert card.run.hardware.value == (
        {"as the log has it": "OS: Linux; GPU models and configuration: GPU 0: H100; CPU: Some CPU"},
    )
    assert isinstance(model.weights_sha256, NotDisclosed)
    assert isinstance(benchmark.decoding, Given) is False


def test_what_a_log_does_not_say_is_not_guessed(tmp_path: Path) -> None:
    import_logs("lm_eval", lm_eval(tmp_path / "log"), tmp_path / "imported", Progress(None))
    card = card_of(tmp_path / "imported")
    for fact in (
        card.models[0].compute_dtype,
        card.benchmarks[0].chat_template,
        card.run.code_commit,
        card.run.hardware,
    ):
        assert isinstance(fact, NotDisclosed)
        assert fact.value == "not disclosed"
        assert fact.reason == "the log does not say"


def test_an_import_of_before_says_that_it_kept_nothing(tmp_path: Path) -> None:
    import_logs("lm_eval", lm_eval(tmp_path / "log", **SAID), tmp_path / "imported", Progress(None))
    path = tmp_path / "imported" / "import.json"
    body = json.loads(path.read_text())
    for task in body["tasks"]:
        del task["disclosed"]
    path.write_text(json.dumps(body))
    fact = card_of(tmp_path / "imported").models[0].compute_dtype
    assert isinstance(fact, NotDisclosed)
    assert "import the log again" in fact.reason


def test_a_temperature_alone_is_no_decoding(tmp_path: Path) -> None:
    import_logs("helm", own(tmp_path), tmp_path / "imported", Progress(None))
    decoding = card_of(tmp_path / "imported").benchmarks[0].decoding
    assert isinstance(decoding, (Unverified, NotDisclosed))
    assert "does not say" in decoding.reason


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"tasks": []}', '{"tasks": [1]}', "[" * 100_000],
    ids=["empty", "list", "no-tasks", "no-task", "number", "deep"],
)
def test_a_broken_summary_is_one_sentence(content: str, tmp_path: Path, run: Run) -> None:
    import_logs("helm", own(tmp_path), tmp_path / "imported", Progress(None))
    (tmp_path / "imported" / "import.json").write_text(content)
    code, _, err = run(tmp_path / "imported")
    assert code == 2
    assert "import.json" in err
    assert not (tmp_path / "imported" / "card.json").exists()


def test_hostile_statements_are_kept_out(tmp_path: Path) -> None:
    import_logs("helm", own(tmp_path), tmp_path / "imported", Progress(None))
    path = tmp_path / "imported" / "import.json"
    body = json.loads(path.read_text())
    for task in body["tasks"]:
        task["disclosed"] = {
            "seeds": "no json",
            "software": "[" * 50_000,
            "decoding": {"top_p": "NaN", "max_tokens": 1e400, "stop": [None, {"a": 1}]},
            "compute_dtype": {"nested": True},
        }
    path.write_text(json.dumps(body))
    card = card_of(tmp_path / "imported")
    assert card.benchmarks[0].seeds.value == {}
    assert card.run.software.value == {}
