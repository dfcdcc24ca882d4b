"""Inspect AI at two releases as two runners of one comparison, before a model whose replies only one of them reads."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.config import Config, ModelSpec
from safetyrepro.crosspkg.experiment import Plan, run_experiment
from safetyrepro.crosspkg.releases import release_sentence
from safetyrepro.crosspkg.report import write_report
from safetyrepro.crosspkg.steps import next_steps
from safetyrepro.engine import load_tokenizer
from safetyrepro.engine.api import Engine
from safetyrepro.gateway import Gateway
from safetyrepro.progress import Progress
from tests.adapters.scripted import Replying

RUNNERS = ("inspect_ai", "inspect_ai@0.3.258")
FORMS = ("ANSWER: {}", "ANSWER: ({})", "ANSWER: ${}$", "The answer is {}.")
READ = {"inspect_ai": FORMS[:3], "inspect_ai@0.3.258": FORMS[:1]}
"""What each release's parser reads, of these."""
DATA = os.environ.get("SAFETYREPRO_DATA")


def reply(prompt: str) -> str:
    digit = int(hashlib.sha256(prompt.encode()).hexdigest(), 16)
    return FORMS[digit % len(FORMS)].format("AB"[digit // 7 % 2])


def config(model: str, url: str, tokenizer: Path) -> Config:
    body: dict[str, Any] = {
        "name": "two-releases",
        "benchmark": {"name": "truthfulqa", "source": "file" if DATA else "pocket", "items": {"count": 12, "seed": 0}},
        "metric": "mc1",
        "chat_template": {"enabled": True},
        "scoring": {"path": "free"},
        "decoding": {"stop": [], "max_tokens": 24},
        "models": [{"id": model, "upstream": url, "tokenizer": str(tokenizer)}],
        "suites": RUNNERS,
        "arms": ["nominal"],
    }
    return Config.model_validate_json(json.dumps(body))


def test_the_report_names_the_reason_why_two_releases_differ(
    tiny_engine: Engine, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = tmp_path / "tokenizer"
    load_tokenizer(ModelSpec(id=str(tiny_model))).hugging_face.save_pretrained(tokenizer)  # type: ignore[attr-defined]
    with Gateway(Replying(tiny_engine, reply), served_name="scripted") as served:
        run = served.open_run("scripted", tmp_path / "scripted.jsonl")
        monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", run.token)
        plan = Plan((config("scripted", run.base_url, tokenizer),), tmp_path / "out", Path(DATA) if DATA else None)
        experiment = run_experiment(plan, Progress(None))
    assert [(cell.facts.suite, cell.facts.state) for cell in experiment.cells] == [(name, "done") for name in RUNNERS]
    assert len({cell.facts.cell_id for cell in experiment.cells}) == 2
    versions = {cell.facts.suite: cell.facts.suite_version for cell in experiment.cells}
    report_file, page, _ = write_report(experiment, tmp_path / "out")
    (body,) = json.loads(report_file.read_text())
    (pair,) = body["arms"]["nominal"]["releases"]
    assert pair["versions"] == versions
    assert pair["items"] == pair["same_prompt"] == pair["same_answer"] == 12
    for cell in experiment.cells:
        for record in cell.records:
            form = str(record.response).replace("A", "{}").replace("B", "{}").replace("{}NSWER", "ANSWER")
            letter = "A" if "A" in str(record.response).removeprefix("ANSWER") else "B"
            assert record.extracted == (letter if form in READ[cell.facts.suite] else None), record.response
    expected = sum(str(record.response)[7:9] in (" (", " $") for record in experiment.cells[0].records)
    assert pair["read_differently"] == expected > 0
    sentence = release_sentence(pair)
    assert "the releases' extraction differs, not the model" in sentence
    assert any(sentence in step for step in next_steps([body])) == (pair["scores_differ"] > 0)
    assert sentence.split(";")[0] in page.read_text(encoding="utf-8")
