"""What a judge run's end leaves beside its logs: the verdict table, and counts, tokens and cost."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json, write_text
from safetyrepro.errors import InputError
from safetyrepro.judge.ledger import SUMMARY, TABLE, table_rows
from safetyrepro.judge.run import Outcome


def write_summary(folder: Path, outcome: Outcome, unchanged: Mapping[str, int], *, priced: bool) -> dict[str, Any]:
    """Write summary.json and verdicts.csv.

    Args:
        folder: of the run.
        outcome: what became of it.
        unchanged: by edit, answers in which it found nothing to change.
        priced: whether prices were given, so that the cost means something.
    """
    summary = {
        "planned": outcome.planned,
        "kept": outcome.kept,
        "recovered": outcome.recovered,
        "statuses": outcome.statuses,
        "requests": outcome.requests,
        "prompt_tokens": outcome.tokens.prompt,
        "completion_tokens": outcome.tokens.completion,
        "calls_with_unknown_usage": outcome.unknown_usage,
        "cost": round(outcome.cost, 6) if priced else None,
        "stopped": outcome.stopped,
        "failures": outcome.failures,
        "edits_without_change": dict(unchanged),
    }
    rows = [row for _, row in table_rows(folder)]
    if rows:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        buffer = io.StringIO(newline="")
        writer = csv.DictWriter(buffer, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(folder / TABLE, buffer.getvalue())
    write_json(folder / SUMMARY, summary)
    return summary


def read_summary(path: Path) -> dict[str, Any] | None:
    """The summary of a run's folder; None for a plain verdict table, or a run that has not ended yet.

    Raises:
        InputError: the file is no summary.
    """
    file = path / SUMMARY
    if not path.is_dir() or not file.is_file():
        return None
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("statuses"), dict):
        raise InputError(f"{file}: is no summary of a judge run; the same `judge run` writes it again.")
    return body
