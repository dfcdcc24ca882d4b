"""What an import found, as `import --json` prints it and `import.json` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetyrepro.crosspkg.importers.base import Identity, Recorded
from safetyrepro.crosspkg.importers.tally import Mean

CAN_BE_ABSENT = (
    "suite_version",
    "arm",
    "model",
    "model_sha256",
    "numerics",
    "template",
    "decoding",
    "shots",
    "scoring",
    "prompt",
    "prompt_sha256",
    "n_prompt_tokens",
    "wire_ids",
    "candidates",
    "response",
    "finish_reason",
    "extracted",
    "gold",
    "choice",
    "score",
)
"""Fields of a record that a log may lack altogether."""
AGGREGATES = "recorded aggregates"


@dataclass(frozen=True)
class TaskSummary:
    """One task as it was imported."""

    identity: Identity
    source: str
    suite_version: str | None
    rows: int
    records: int
    items: int
    metric: str | None
    """The metric whose value is the records' score; None where the log holds none."""
    means: Mapping[str, Mean]
    recorded: Mapping[str, Recorded]
    beside: frozenset[str]
    """Metrics that are statistics of the run and no scores, such as a count of tokens."""
    absent: tuple[str, ...]
    """Fields that none of its records holds, and `recorded aggregates` where there are none."""
    disclosed: Mapping[str, Any]
    """What the log says of itself besides its rows, by the names that `disclosed.said` lists."""

    def as_json(self) -> dict[str, Any]:
        """The task as `import --json` has it."""
        metrics = {}
        for name in dict.fromkeys((*self.means, *self.recorded)):
            mean, recorded = self.means.get(name), self.recorded.get(name)
            metrics[name] = {
                "mean": None if mean is None else mean.mean,
                "n": 0 if mean is None else mean.n,
                "recorded": None if recorded is None else recorded.value,
                "items": 0 if mean is None else mean.items,
                "not_finite": 0 if mean is None else mean.not_finite,
                "not_numbers": 0 if mean is None else mean.not_numbers,
                "recorded_more": {} if recorded is None else dict(recorded.more),
            }
        return {
            "task": self.identity.task,
            "rows": self.rows,
            "items": self.items,
            "metrics": metrics,
            "records": self.records,
            "model": self.identity.model,
            "suite_version": self.suite_version,
            "config_id": self.identity.config_id,
            "score_metric": self.metric,
            "absent": list(self.absent),
            "disclosed": dict(self.disclosed),
            "source": self.source,
        }


@dataclass(frozen=True)
class Summary:
    """An import as a whole."""

    suite: str
    tasks: tuple[TaskSummary, ...]
    absent: tuple[str, ...]
    """What some task's log does not hold."""
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The summary as `import --json` has it."""
        versions = {task.suite_version for task in self.tasks}
        models = sorted({task.identity.model for task in self.tasks if task.identity.model is not None})
        return {
            "suite": self.suite,
            "suite_version": versions.pop() if len(versions) == 1 else None,
            "model": models[0] if len(models) == 1 else None,
            "tasks": [task.as_json() for task in self.tasks],
            "absent": list(self.absent),
            "warnings": list(self.warnings),
            "models": models,
            "records": sum(task.records for task in self.tasks),
        }
