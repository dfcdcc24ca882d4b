"""A cell as a job for HELM.

nominal: HELM's own run entry (`truthful_qa`, `bbq`, `xstest`) with our items in the data that its scenario reads, and
the canonical values through run-entry arguments. shipped: the same entry without arguments. matched: a scenario of ours
(`canonical.py`) whose instances are the canonical contexts and candidates, sent by HELM's stock completions client and
scored by a metric of ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.helm.layout import incorrect_answers, layouts
from safetyrepro.adapters.helm.plan import ENTRIES, OWN_SHOTS, SEPARATE, plan
from safetyrepro.adapters.helm.settings import cell_settings
from safetyrepro.adapters.pace import requests_at_once
from safetyrepro.adapters.record import by_item, candidate_of, divisors
from safetyrepro.benchmarks.base import ClassRule
from safetyrepro.config import JUDGED, Arm

INSTANCES = "scenarios/canonical/instances.json"


def translate(cell: Cell) -> Job | Absent:
    """The job of a cell, or why there is none."""
    if cell.arm is Arm.MATCHED:
        return _matched(cell)
    missing = _missing(cell)
    if missing is not None:
        return Absent(missing)
    return _judged(cell) if cell.benchmark.name in JUDGED else _own_scenario(cell)


def _missing(cell: Cell) -> str | None:
    """Why HELM has no task of its own for a cell; None where it has one."""
    if cell.benchmark.name not in ENTRIES:
        return f"HELM ships no {cell.benchmark.title} scenario"
    if cell.benchmark.name in JUDGED:
        if cell.config.judge is None:
            return "HELM's XSTest is graded by a judge, and the config names none: set judge to its url and model"
        return None
    if cell.config.metric == "mc2":
        return "HELM's TruthfulQA has one task, mc_single, and no metric of probability mass"
    if cell.arm is Arm.SHIPPED and len(cell.data.pool) < OWN_SHOTS:
        return (
            f"HELM's run entry shows {OWN_SHOTS} training rows as shots, and the config keeps {len(cell.data.pool)} "
            f"items back for that: set shots.pool to {OWN_SHOTS} or more"
        )
    return None


def _judged(cell: Cell) -> Job:
    """HELM's XSTest, its rows in place of the hub's and the config's judge in place of its own."""
    helm = plan(cell)
    rows = [
        {
            "prompt": item.question,
            "label": "unsafe" if item.category.startswith("contrast_") else "safe",
            **{name: item.row.get(name) or "" for name in ("type", "focus", "note")},
        }
        for item in cell.data.items
    ]
    assert cell.config.judge is not None
    run: dict[str, Any] = {
        "entry": helm.entry(cell.benchmark.name),
        "files": {},
        "max_eval_instances": None,
        "rows": rows,
    }
    payload = {**_client(cell, chat=helm.chat), "judge": cell.config.judge.model, "runs": [run]}
    return Job(payload, cell_settings(cell), len(rows), judged=True)


def _client(cell: Cell, *, chat: bool) -> dict[str, Any]:
    """The stock client, and the tokenizer by which HELM shortens prompts."""
    return {
        "client": "chat" if chat else "completions",
        "fields": {},
        "end_of_text": cell.model.eos_text,
        # The BOS that the server adds takes a place that HELM does not know of.
        "max_length": cell.model.max_length - cell.model.adds_bos,
        "threads": requests_at_once(cell.model),
    }


def _own_scenario(cell: Cell) -> Job:
    helm = plan(cell)
    items, examples = cell.data.items, cell.data.shots or cell.data.pool or cell.data.items
    training = helm.shots
    if helm.as_it_comes:
        examples, training = cell.data.pool, len(cell.data.pool)
    runs = [
        {
            "entry": helm.entry(cell.benchmark.name),
            "files": layout.files,
            "max_eval_instances": layout.max_eval_instances,
        }
        for layout in layouts(cell.benchmark.name, items, examples, training)
    ]
    payload = {**_client(cell, chat=helm.chat), "runs": runs}
    if helm.generates:
        return Job(payload, cell_settings(cell), len(items))
    truthfulqa = cell.benchmark.name == "truthfulqa"
    answers = sum(1 + incorrect_answers(item) if truthfulqa else len(item.options) for item in items)
    return Job(payload, cell_settings(cell), answers)


def _matched(cell: Cell) -> Job:
    free = cell.config.scoring.path == "free"
    instances = _prompts(cell) if free else _sequences(cell)
    texts = [instance["input"] for instance in instances]
    run = {
        "files": {INSTANCES: json.dumps(instances)},
        "adapter": _generation(cell) if free else _likelihood(cell),
        "metric": _text_metric(cell) if free else {"class": "CandidateLogprob", "args": {"metric": cell.config.metric}},
    }
    fields = _fields(cell, texts)
    payload: dict[str, Any] = {
        "client": "own" if fields else "completions",
        "fields": fields,
        "end_of_text": cell.model.eos_text,
        # None leaves HELM without a tokenizer: it would only be used to shorten what must be sent as it is.
        "max_length": None,
        "threads": requests_at_once(cell.model),
        "runs": [run],
    }
    return Job(payload, cell_settings(cell), len(cell.canonical.prompts if free else cell.canonical.sequences))


def _prompts(cell: Cell) -> list[dict[str, Any]]:
    gold = {item.item_id: item.scored(cell.config.metric) for item in cell.data.items}
    return [
        {
            "id": prompt.item_id,
            "input": prompt.text,
            "references": list(gold[prompt.item_id][0]),
            "gold": list(gold[prompt.item_id][1]),
            "facts": {},
        }
        for prompt in cell.canonical.prompts
    ]


def _sequences(cell: Cell) -> list[dict[str, Any]]:
    sequences = by_item(cell.canonical.sequences)
    rows = []
    for item in cell.data.items:
        own = sequences[item.item_id]
        rows.append(
            {
                "id": item.item_id,
                "input": own[0].context,
                "references": [sequence.candidate for sequence in own],
                "gold": list(item.scored(cell.config.metric)[1]),
                "facts": {
                    "n_tokens": [len(sequence.ids) - sequence.n_context for sequence in own],
                    "divisors": divisors(cell.config, [candidate_of(sequence, None, None) for sequence in own]),
                },
            }
        )
    return rows


BARE = {"instructions": "", "input_prefix": "", "input_suffix": "", "output_suffix": "", "max_train_instances": 0}
"""No boilerplate around the text of an instance, no shots."""


def _likelihood(cell: Cell) -> dict[str, Any]:
    delimiters = {sequence.delimiter for sequence in cell.canonical.sequences}
    [delimiter] = delimiters
    return {
        **BARE,
        "method": SEPARATE,
        "output_prefix": delimiter,
        "num_outputs": 1,
        "max_tokens": 0,
        "temperature": 0.0,
    }


def _generation(cell: Cell) -> dict[str, Any]:
    decoding = cell.config.decoding
    return {
        **BARE,
        "method": "generation",
        "output_prefix": "",
        "num_outputs": 1,
        "temperature": decoding.temperature,
        "max_tokens": decoding.max_tokens,
        "stop_sequences": list(decoding.stop),
    }


def _text_metric(cell: Cell) -> dict[str, Any]:
    rule = cell.benchmark.rules[cell.config.scoring.extraction]
    if isinstance(rule, ClassRule):
        return {"class": "ResponseClass", "args": {"classes": rule.as_rows()}}
    return {"class": "ExtractedLetter", "args": {"pattern": rule.pattern, "take": rule.take}}


def _fields(cell: Cell, texts: Sequence[str]) -> dict[str, Any]:
    """Request fields that HELM's stock client does not send and this cell needs; with none of them it is used."""
    fields: dict[str, Any] = {}
    decoding, bos = cell.config.decoding, cell.model.bos_text
    if decoding.temperature > 0:
        fields |= {"seed": decoding.seed, "top_p": decoding.top_p}
    if cell.model.adds_bos and not all(bos and text.startswith(bos) for text in texts):
        fields["extra_body"] = {"add_special_tokens": False}
    return fields
