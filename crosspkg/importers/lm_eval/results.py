"""A results file: who ran, how, and the recorded aggregates. Layouts since release 0.3 are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.importers.base import Recorded
from safetyrepro.crosspkg.importers.json_stream import JsonStream
from safetyrepro.crosspkg.importers.reading import opened
from safetyrepro.crosspkg.importers.values import finite, mapping, number, sequence, short, text_of, whole

_KEPT = frozenset(
    {
        "results",
        "groups",
        "group_subtasks",
        "configs",
        "versions",
        "n-shot",
        "n-samples",
        "config",
        "date",
        "git_hash",
        "lm_eval_version",
        "transformers_version",
        "pretty_env_info",
        "model_name",
        "model_source",
        "chat_template",
        "system_instruction",
        "fewshot_as_multiturn",
    }
)
_NO_METRICS = frozenset({"alias", "name", "samples", "sample_len", "sample_count", " "})
_MODEL_KEYS = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Arguments of a model that name it, in the harness's own order."""
_MEANS = frozenset({"mean", "nanmean"})
_CONFIGURING = (
    "dataset_path",
    "dataset_name",
    "test_split",
    "validation_split",
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "description",
    "target_delimiter",
    "fewshot_delimiter",
    "output_type",
    "generation_kwargs",
    "filter_list",
    "repeats",
)
"""Settings of a task that belong to its configuration, whatever the model."""


@dataclass(frozen=True)
class Results:
    """One results file."""

    path: Path
    body: Mapping[str, Any]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with recorded metrics, groups of tasks left out."""
        groups = {name for name, members in mapping(self.body.get("group_subtasks")).items() if members}
        groups |= mapping(self.body.get("groups")).keys() - mapping(self.body.get("configs")).keys()
        return tuple(name for name in mapping(self.body.get("results")) if name not in groups and self.recorded(name))

    @property
    def model(self) -> str | None:
        """The model's name as the harness takes it from its arguments."""
        named = self.body.get("model_name")
        if isinstance(named, str) and named:
            return named
        config = mapping(self.body.get("config"))
        arguments = config.get("model_args")
        if isinstance(arguments, str):
            arguments = dict(part.split("=", 1) for part in arguments.split(",") if "=" in part)
        for key in _MODEL_KEYS:
            if mapping(arguments).get(key):
                return text_of(mapping(arguments)[key])
        return text_of(config.get("model") or self.body.get("model_source")) or None

    @property
    def version(self) -> str | None:
        """The release of the harness; None for files that hold a commit at most."""
        return text_of(self.body.get("lm_eval_version")) or None

    def shots(self, task: str) -> int | None:
        """How many examples the prompt shows."""
        for found in (
            mapping(self.body.get("n-shot")).get(task),
            self.task_config(task).get("num_fewshot"),
            mapping(self.body.get("config")).get("num_fewshot"),
        ):
            if whole(found) is not None:
                return whole(found)
        return None

    def task_config(self, task: str) -> Mapping[str, Any]:
        """The task's own settings; empty where the file does not hold them."""
        return mapping(mapping(self.body.get("configs")).get(task))

    def configuration(self, task: str) -> dict[str, Any]:
        """What sets this configuration of a task apart from others, the model left out."""
        config = self.task_config(task)
        return {
            **{name: config[name] for name in _CONFIGURING if config.get(name) is not None},
            "version": mapping(self.body.get("versions")).get(task),
            "shots": self.shots(task),
            "chat_template": bool(self.body.get("chat_template")),
            "system_instruction": self.body.get("system_instruction"),
            "fewshot_as_multiturn": bool(self.body.get("fewshot_as_multiturn")),
        }

    def samples(self, task: str) -> tuple[int | None, int | None]:
        """Items of the task, and how many of them were run."""
        counts = mapping(mapping(self.body.get("n-samples")).get(task))
        held = mapping(mapping(self.body.get("results")).get(task))
        effective = whole(counts.get("effective"))
        if effective is None:
            effective = whole(held.get("sample_len", held.get("samples")))
        return whole(counts.get("original")), effective

    def recorded(self, task: str) -> dict[str, Recorded]:
        """The task's aggregates by `metric`, or `metric,filter` where there is a filter."""
        held = mapping(mapping(self.body.get("results")).get(task))
        found: dict[str, Recorded] = {}
        for key, value in held.items():
            metric, _, name = key.partition(",")
            if metric in _NO_METRICS or metric.endswith("_stderr") or number(value) is None:
                continue
            error = held.get(f"{metric}_stderr,{name}" if name else f"{metric}_stderr")
            more = {} if finite(error) is None else {"stderr": finite(error) or 0.0}
            found[label(name, metric)] = Recorded(finite(value), self._why_not_mean(task, metric), more)
        return found

    def _why_not_mean(self, task: str, metric: str) -> str | None:
        for entry in sequence(self.task_config(task).get("metric_list")):
            if mapping(entry).get("metric") == metric:
                aggregation = mapping(entry).get("aggregation")
                if aggregation is not None and aggregation not in _MEANS:
                    return f"the task aggregates {metric} by {short(aggregation)!r}, not by the mean of the rows"
        return None


def label(name: str, metric: str) -> str:
    """A metric's name in the summary: with its filter, unless that is `none`."""
    return metric if name in ("", "none") else f"{metric},{name}"


def read_results(path: Path) -> Results | None:
    """The results file at `path`; None where it holds a JSON object of another kind.

    Raises:
        InputError: it is damaged.
    """
    body: dict[str, Any] = {}
    with opened(path) as stream:
        values = JsonStream(stream, path)
        if values.peek() != "{":
            return None
        for key in values.members():
            if key == "eval":
                return None
            if key in _KEPT:
                body[key] = values.value()
            else:
                values.skip()
    results = body.get("results")
    if not isinstance(results, dict) or not all(isinstance(one, dict) for one in results.values()):
        return None
    return Results(path, body)
