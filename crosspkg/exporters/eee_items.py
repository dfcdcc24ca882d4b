"""One record as a line of Every Eval Ever's instance-level file."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from safetyrepro.records import Record

RIGHT = 0.5
"""A score of this or more counts as right."""


def instance_line(record: Record, schema: str, identity: str, model_id: str, result_id: str) -> dict[str, Any]:
    """The line of a record that holds a score.

    Args:
        record: The record.
        schema: The schema's version.
        identity: The aggregate file's `evaluation_id`.
        model_id: The model's id there.
        result_id: The `evaluation_result_id` of the aggregate that the record adds to.
    """
    prompt, gold = record.prompt or "", list(record.gold)
    hashed = json.dumps([prompt, gold], ensure_ascii=False)
    answer = record.response if record.response is not None else record.extracted
    choices = [candidate.text for candidate in record.candidates]
    line: dict[str, Any] = {
        "schema_version": schema,
        "evaluation_id": identity,
        "model_id": model_id,
        "evaluation_name": record.benchmark,
        "evaluation_result_id": result_id,
        "sample_id": record.item_id,
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {
            "raw": prompt,
            **({"formatted": prompt} if record.prompt is not None else {}),
            "reference": gold,
            **({"choices": choices} if choices else {}),
        },
        "output": {"raw": [] if answer is None else [answer]},
        "answer_attribution": _attribution(record),
        "evaluation": {"score": record.score, "is_correct": (record.score or 0.0) >= RIGHT},
        "metadata": _metadata(record),
    }
    if record.status == "error":
        line["error"] = record.reason or "the request failed"
    return line


def _attribution(record: Record) -> list[dict[str, Any]]:
    if record.extracted is None:
        return []
    method = "argmax of the candidates' scores" if record.candidates else f"{record.suite}'s own"
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": record.extracted,
            "extraction_method": method,
            "is_terminal": True,
        }
    ]


def _metadata(record: Record) -> dict[str, str]:
    known = {
        "status": record.status,
        "reason": record.reason,
        "repeat": record.repeat,
        "cluster": record.cluster,
        "suite_score": record.suite_score,
        "finish_reason": record.finish_reason,
    }
    sums = [candidate.logprob for candidate in record.candidates]
    if sums:
        known["candidate_logprobs"] = json.dumps(sums)
    return {name: str(value) for name, value in known.items() if value is not None}
