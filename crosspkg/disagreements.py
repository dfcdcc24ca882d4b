"""Items on which the suites of an arm disagree, with what each sent and got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.outcomes import ItemScores
from safetyrepro.records import Record

LONGEST = 4_000
"""Characters of a text that report.json keeps; the whole stands in records.parquet and wire.jsonl."""


def clipped(text: str | None, *, keep: str = "start", longest: int = LONGEST) -> dict[str, Any] | None:
    """A text with its length, cut to its start or its end."""
    if text is None:
        return None
    return {"text": text[:longest] if keep == "start" else text[-longest:], "chars": len(text), "kept": keep}


def disagreements(
    cells: Mapping[str, ItemScores], items: Sequence[str], *, choices: bool, redact: bool
) -> dict[str, Any]:
    """Items whose score differs between suites, the furthest apart first.

    Args:
        cells: scores by suite.
        items: items that all of them scored.
        choices: also list items of equal score whose choice differs (where all suites score the same candidates).
        redact: leave out every text of a model or data set.
    """
    listed = []
    for item_id in items:
        scores = {suite: cell.scores[item_id] or 0.0 for suite, cell in cells.items()}
        apart = max(scores.values()) - min(scores.values())
        firsts = {suite: cell.records[item_id][0] for suite, cell in cells.items()}
        other_choice = choices and len({record.choice for record in firsts.values()}) > 1
        if apart > TOLERANCE or other_choice:
            listed.append((apart, item_id, firsts))
    listed.sort(key=lambda entry: -entry[0])
    return {
        "items": len(items),
        "differing": len(listed),
        "listed": [
            {
                "item_id": item_id,
                "cluster": next(iter(firsts.values())).cluster,
                "apart": apart,
                "suites": {suite: _side(record, redact) for suite, record in firsts.items()},
            }
            for apart, item_id, firsts in listed
        ],
    }


def _side(record: Record, redact: bool) -> dict[str, Any]:
    side: dict[str, Any] = {
        "score": record.score,
        "status": record.status,
        "scoring": record.scoring,
        "finish_reason": record.finish_reason,
        "n_prompt_tokens": record.n_prompt_tokens,
        "wire_ids": list(record.wire_ids),
        "choice": record.choice,
    }
    if redact:
        return side
    return side | {
        "reason": record.reason,
        "prompt": clipped(record.prompt, keep="end"),
        "candidates": [
            {"text": candidate.text[:LONGEST], "logprob": candidate.logprob, "n_tokens": candidate.n_tokens}
            for candidate in record.candidates
        ],
        "response": clipped(record.response),
        "extracted": clipped(record.extracted),
        "extracted_other": clipped(record.extracted_other),
        "gold": [text[:LONGEST] for text in record.gold],
    }
