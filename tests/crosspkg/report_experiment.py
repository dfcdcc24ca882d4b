"""An experiment's folder made by code, for tests of the report: two models, two benchmarks, two arms, four runners."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetyrepro.adapters.base import Setting
from safetyrepro.atomic import write_text
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import Arm, Config, cell_id, config_id
from safetyrepro.crosspkg.cell_folder import write_cell
from safetyrepro.crosspkg.facts import CellFacts, ConfigInfo, DataInfo, ModelFacts, SuiteFacts
from safetyrepro.crosspkg.folder import write_plan
from safetyrepro.crosspkg.starts import Start
from safetyrepro.facts import CodeFacts, Machine
from safetyrepro.gateway.wire import Seen, WireRow
from safetyrepro.records import Candidate, Record, write_records
from safetyrepro.runners import SUITES, suite_of

SCRIPT = "<script>alert(1)</script>"
BIDI = "safe\u202egnp.exe\u0007"
HUGE = "lorem ipsum <b>dolor</b> & " * 38_000
MODELS = ("SmolLM2-135M-Instruct", "gemma-3-270m")
OLDER = "inspect_ai@0.3.258"
VERSIONS = {"lm_eval": "0.4.13", "helm": "0.5.16", "inspect_ai": "0.3.285", "native": "0.1.0", OLDER: "0.3.258"}
OPTIONS = ("the same as any other", "twice as long", "nobody can tell", "none at all")


@dataclass(frozen=True)
class Shape:
    """What the made experiment looks like."""

    items: int = 24
    benchmarks: tuple[str, ...] = ("truthfulqa", "bbq")
    models: tuple[str, ...] = MODELS
    nominal_skill: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {"lm_eval": (0.55, 0.30), "helm": (0.25, 0.28), "inspect_ai": (0.15, 0.30)}
    )
    """Chance of a right answer by suite, for the first and the second model."""
    break_matched: bool = False
    """Whether HELM's matched prompts hold another token."""
    failed: bool = True
    hostile: bool = True
    releases: bool = False
    """Whether Inspect AI stands there at an older release as well, which cannot read every fourth answer."""
    starts: tuple[Start, ...] = ()
    """The starts that ran the cells, one after the other; none makes a folder from before they were recorded."""


def make(folder: Path, shape: Shape | None = None) -> Path:
    """Write the folder and return it."""
    shape = shape or Shape()
    configs = [_config(name, shape) for name in shape.benchmarks]
    names = []
    for config in configs:
        for number, model in enumerate(shape.models):
            for arm in (Arm.NOMINAL, Arm.MATCHED):
                for suite in config.suites:
                    ran = shape.starts[len(names) % len(shape.starts)].key if shape.starts else None
                    names.append(_cell(folder, shape, config, number, model, arm, suite, ran))
    write_plan(
        folder,
        tuple(_config_info(config, shape) for config in configs),
        tuple(_model(model, recorded=bool(shape.starts)) for model in shape.models),
        tuple(SuiteFacts(s, v, None if s == "native" else _sha(s)) for s, v in VERSIONS.items()),
        {"python": "3.11.9", "safetyrepro": "0.1.0", "torch": "2.13.0"},
        tuple(names),
        starts={start.key: start for start in shape.starts},
    )
    return folder


def start(commit: str | None = "c" * 40, *, dirty: bool | None = False, files: str = "f" * 64) -> Start:
    """A start of a run on a machine of four cores."""
    code = CodeFacts(version="0.1.0", commit=commit, dirty=dirty, files_sha256=files)
    return Start(code=code, machine=Machine(system="Linux-6.1", processor="x86_64", cores=4))


def _config_info(config: Config, shape: Shape) -> ConfigInfo:
    known: tuple[str | None, dict[str, str] | None] = (None, None)
    if shape.starts:
        ids = [f"{config.benchmark.name}-{index}" for index in range(shape.items)]
        known = _sha("template"), {item_id: _sha(item_id) for item_id in ids}
    return ConfigInfo(config_id(config), config, _data(config, shape), 0.25, *known)


def _config(name: str, shape: Shape) -> Config:
    return Config.model_validate(
        {
            "name": f"{name}-made",
            "benchmark": {"name": name, "source": "pocket"},
            "metric": {"truthfulqa": "mc1", "crows_pairs": "parity"}.get(name, "accuracy"),
            "models": tuple({"id": model} for model in shape.models),
            "suites": (*SUITES, OLDER) if shape.releases else SUITES,
            "arms": (Arm.NOMINAL, Arm.MATCHED),
        }
    )


def _data(config: Config, shape: Shape) -> DataInfo:
    return DataInfo("pocket", None, _sha(config.name), True, "Apache-2.0", shape.items, shape.items // 2, 8, ())


def _model(name: str, *, recorded: bool) -> ModelFacts:
    details = {"block size": "64", "batch rows": "1", "threads": "2"}
    numerics, files = "nf4/float32/once/exact", {"config.json": _sha("config")} if recorded else None
    return ModelFacts(name, _sha(name), True, "Q4_1", numerics, details, "Apache-2.0", True, False, files)


def _cell(
    folder: Path, shape: Shape, config: Config, number: int, model: str, arm: Arm, suite: str, ran: str | None
) -> str:
    name = f"{config.name}-{number}-{arm.value}-{suite}"
    cell = folder / "cells" / name
    spec = config.models[number]
    facts: dict[str, Any] = {
        "cell_id": cell_id(config, spec, suite, arm),
        "name": name,
        "config_id": config_id(config),
        "model": model,
        "suite": suite,
        "suite_version": VERSIONS[suite],
        "arm": arm.value,
        "state": "done",
        "reason": None,
        "settings": () if suite == "native" and arm is Arm.NOMINAL else _settings(suite, arm),
        "seconds": 3.25,
        "job_sha256": _sha(name),
        "start": ran,
    }
    if suite == "native" and arm is Arm.NOMINAL:
        facts |= {"state": "absent", "reason": "The native runner ships no task of its own."}
    elif shape.failed and (suite, arm, number, config.benchmark.name) == ("helm", Arm.NOMINAL, 1, "bbq"):
        reason = f"HELM ended with code 1.\nTraceback (most recent call last):\n  ValueError: {SCRIPT}"
        facts |= {"state": "failed", "reason": reason, "settings": ()}
    else:
        rows: list[WireRow] = []
        records = [_record(facts, config, shape, number, index, rows) for index in range(shape.items)]
        write_records(cell / "records.parquet", records)
        write_text(cell / "wire.jsonl", "".join(row.to_json() + "\n" for row in rows))
    write_cell(cell, CellFacts(**facts))
    return name


def _settings(suite: str, arm: Arm) -> tuple[Setting, ...]:
    held = [
        Setting("shots.count", "0", "0", True),
        Setting("decoding.temperature", "0.0", "0.0", True),
        Setting("benchmark.items", "24 by seed 0", "the same ids, redirected", True),
    ]
    if arm is Arm.MATCHED:
        return (
            *held,
            Setting("prompt.template", "minimal", "minimal", True),
            Setting("scoring", "logprob", "logprob", True),
        )
    own = {
        "lm_eval": Setting(
            "prompt.template", "minimal", "six built-in question and answer pairs", False, "cannot be set"
        ),
        "helm": Setting("prompt.template", "minimal", "Question / lettered options / Answer", False, "cannot be set"),
        "inspect_ai": Setting("prompt.template", "minimal", "asks for ANSWER: $LETTER", False, "cannot be set"),
    }[suite_of(suite)]
    scoring = Setting(
        "scoring", "logprob", "logprob" if suite == "lm_eval" else "first letter generated", suite == "lm_eval"
    )
    return (*held, own, scoring)


def _record(
    facts: dict[str, Any], config: Config, shape: Shape, number: int, index: int, rows: list[WireRow]
) -> Record:
    suite, arm = facts["suite"], facts["arm"]
    matched = arm == "matched"
    base = suite_of(suite)
    draw = random.Random(f"{config.name} {number} {index} {'all' if matched else base}")
    skill = (0.45, 0.3)[number] if matched else shape.nominal_skill[base][number]
    right = draw.random() < skill
    question = f"How long is bridge number {index} compared with the others?"
    prompt, logprob_scored = _prompt(base, matched, question)
    ids = [1, *[ord(character) % 97 + 5 for character in prompt]]
    if shape.break_matched and matched and suite == "helm":
        ids = [1, *ids]
    choice = 0 if right else 1 + draw.randrange(3)
    candidates: list[Candidate] = []
    wire_ids: list[str] = []
    response = extracted = None
    status, score = "ok", float(right)
    if logprob_scored:
        for position, option in enumerate(OPTIONS):
            whole = [*ids, *[ord(character) % 97 + 5 for character in f" {option}"]]
            logprob = -10.0 - position - draw.random() + (20 if position == choice else 0)
            wire_id = _request(rows, facts["name"], f"{prompt} {option}", whole)
            wire_ids.append(wire_id)
            text = f" {option}"
            candidates.append(Candidate(text, logprob, 4, len(text), len(text), ids_sha256(whole), wire_id))
    else:
        wire_ids.append(_request(rows, facts["name"], prompt, ids))
        extracted, response = "ABCD"[choice], f"ANSWER: {'ABCD'[choice]}"
        if draw.random() < (0.3 if base == "inspect_ai" else 0.05):
            status, score, extracted, response = "unparsed", 0.0, None, "I would say that it is hard to tell."
        if shape.hostile and index == 1 and base == "inspect_ai":
            status, score, extracted, response = "unparsed", 0.0, None, f"{SCRIPT} {BIDI}"
        if shape.hostile and index == 1 and suite == "helm":
            status, score, extracted, response = "ok", 1.0, "A", HUGE
        if suite == OLDER and index % 4 == 0:
            status, score, extracted = "unparsed", 0.0, None
    return Record(
        run_id=facts["name"],
        suite=suite,
        suite_version=facts["suite_version"],
        arm=arm,
        model=facts["model"],
        model_sha256=_sha(facts["model"]),
        numerics="nf4/float32/once/exact",
        benchmark=config.benchmark.name,
        config_id=facts["config_id"],
        cell_id=facts["cell_id"],
        item_id=f"{config.benchmark.name}-{index}",
        cluster=f"bridge-{index // 2}",
        repeat=0,
        metric=config.metric,
        template="minimal",
        decoding="greedy",
        shots=0,
        scoring="logprob" if logprob_scored else "free",
        prompt=prompt,
        prompt_sha256=ids_sha256(ids),
        n_prompt_tokens=len(ids),
        wire_ids=tuple(wire_ids),
        candidates=tuple(candidates),
        response=response,
        finish_reason=None if logprob_scored else "length",
        extracted=extracted,
        extracted_other=None,
        gold=(OPTIONS[0],) if logprob_scored else ("A",),
        choice=choice if logprob_scored else None,
        score=score,
        suite_score=score,
        status=status,  # type: ignore[arg-type]
        reason="no letter found" if status == "unparsed" else None,
    )


def _prompt(suite: str, matched: bool, question: str) -> tuple[str, bool]:
    lettered = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", OPTIONS, strict=True))
    if matched:
        return f"Question: {question}\nAnswer:", True
    if suite == "lm_eval":
        shots = "Q: What is human life expectancy in the United States?\nA: Human life expectancy is 78 years.\n\n"
        return f"{shots}Q: {question}\nA:", True
    if suite == "helm":
        return f"Question: {question}\n{lettered}\nAnswer:", False
    asked = "Answer the following multiple choice question. Your whole reply is ANSWER: $LETTER."
    body = f"{asked}\n\n{question}\n\n{lettered.replace('. ', ') ')}"
    return f"<|im_start|>user\n{body}<|im_end|>\n<|im_start|>assistant\n", False


def _request(rows: list[WireRow], run: str, text: str, ids: list[int]) -> str:
    wire_id = f"{run}-{len(rows)}"
    body = {"model": "model", "prompt": ids, "echo": True, "max_tokens": 1}
    seen = (Seen(tuple(ids), text),)
    rows.append(WireRow(wire_id, run, "/v1/completions", body, seen, {"choices": []}, 200, {}, 1.0, 0.1, False))
    return wire_id


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
