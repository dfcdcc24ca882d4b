"""What the records of imported logs hold of each task, beside its scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.card.stability import UNNAMED
from safetyrepro.crosspkg.exporters.source import iterate_batches, record_files

_COLUMNS = ("suite", "suite_version", "model", "benchmark", "metric", "item_id", "shots", "scoring", "decoding")
_LETTER = re.compile(r"\W*[A-Za-z]\W*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass
class TaskRecords:
    """One task, scored by one metric."""

    task: str
    """As the records call it."""
    suites: dict[str, set[str]]
    """Versions by suite."""
    models: set[str]
    metrics: set[str]
    items: set[str]
    hashes: dict[str, str]
    """SHA-256 of an item's content by its id, where the log has one."""
    shots: set[int | None]
    scoring: set[str | None]
    decoding: set[str | None]
    candidates: set[str]
    """`letter` or `text`."""


def task_records(folder: Path) -> dict[str, TaskRecords]:
    """By the name that `grid` gives a benchmark: with the metric where the records are scored by several.

    Raises:
        InputError: the folder holds no records, or damaged ones.
    """
    by_metric: dict[tuple[str, str], TaskRecords] = {}
    for path in record_files(folder):
        for batch in iterate_batches(path, (*_COLUMNS, "candidates", "extra")):
            for row in batch.to_pylist():
                key = (str(row["benchmark"]), str(row["metric"] or ""))
                if key not in by_metric:
                    by_metric[key] = TaskRecords(key[0], {}, set(), set(), set(), {}, set(), set(), set(), set())
                _note(by_metric[key], row)
    several = {task for task, _ in by_metric if sum(other == task for other, _ in by_metric) > 1}
    return {f"{task} {metric}" if task in several else task: one for (task, metric), one in by_metric.items()}


def _note(seen: TaskRecords, row: Mapping[str, Any]) -> None:
    seen.suites.setdefault(str(row["suite"]), set()).update({row["suite_version"]} - {None})
    seen.models.add(row["model"] or UNNAMED)
    seen.metrics.add(row["metric"] or "")
    seen.items.add(row["item_id"])
    seen.shots.add(row["shots"])
    seen.scoring.add(row["scoring"])
    seen.decoding.add(row["decoding"])
    sha256 = dict(row["extra"] or []).get("doc_hash")
    if sha256 is not None and _SHA256.fullmatch(sha256):
        seen.hashes[row["item_id"]] = sha256
    texts = [one["text"] for one in row["candidates"] or ()]
    if texts:
        seen.candidates.add("letter" if all(_LETTER.fullmatch(text) for text in texts) else "text")
