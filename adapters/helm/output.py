"""HELM's native output: what a finished run folder holds, checked and typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.errors import SuiteFailure


@dataclass(frozen=True)
class Answered:
    """One request of an instance, answered."""

    prompt: str
    text: str
    token_logprobs: tuple[float, ...]
    """As HELM has them, in nats: 0 for the first token of an echo; empty from the chat client."""
    letters: Mapping[str, str]
    """Letter -> option, where options were listed."""
    shots: int
    truncated: bool
    """Whether HELM shortened the prompt."""
    annotations: Mapping[str, Any]
    """What each annotator, such as a judge, said of the answer."""


@dataclass(frozen=True)
class Instance:
    """One evaluated instance with its requests, a request a reference or one in all."""

    instance_id: str
    text: str
    references: tuple[str, ...]
    correct: tuple[int, ...]
    requests: tuple[Answered, ...]
    stats: Mapping[str, float]
    """Statistic -> value, those that HELM computed for this instance."""

    def stat(self, name: str) -> float:
        """One of the statistics.

        Raises:
            SuiteFailure: HELM computed none of that name.
        """
        if name not in self.stats:
            raise SuiteFailure(f"HELM's per_instance_stats.json has no {name} for instance {self.instance_id}.")
        return self.stats[name]


@dataclass(frozen=True)
class Run:
    """One run folder."""

    folder: Path
    adapter_spec: Mapping[str, Any]
    instances: tuple[Instance, ...]
    """In the order of HELM's own data: by the number in the id where ids are HELM's."""


def read_run(part: Path) -> Run:
    """The one run below an output folder of HELM.

    Raises:
        SuiteFailure: a file is missing, cut off or not what HELM writes; the file is named.
    """
    runs = part / "runs" / "safetyrepro"
    folders = [path for path in sorted(runs.glob("*")) if path.is_dir() and path.name != "eval_cache"]
    if len(folders) != 1:
        raise SuiteFailure(f"{runs}: found {len(folders)} run folders, it should be one: the run did not get that far.")
    [folder] = folders
    spec = _read(folder / "run_spec.json", dict)
    state_file, stats_file = folder / "scenario_state.json", folder / "per_instance_stats.json"
    states = _read(state_file, dict)
    try:
        stats = _stats(_read(stats_file, list))
    except (KeyError, TypeError, AttributeError) as error:
        raise _unreadable(stats_file, error) from None
    try:
        instances = _instances(states["request_states"], stats)
        return Run(folder, dict(spec["adapter_spec"]), instances)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise _unreadable(state_file, error) from None


def _read(path: Path, kind: type) -> Any:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteFailure(f"{path}: HELM left no such file ({error.strerror}); run the cell again.") from None
    except ValueError as error:
        raise SuiteFailure(f"{path}: cut off or no JSON ({error}); run the cell again.") from None
    if not isinstance(body, kind):
        raise SuiteFailure(f"{path}: holds a {type(body).__name__}, HELM writes a {kind.__name__}; run the cell again.")
    return body


def _unreadable(path: Path, error: Exception) -> SuiteFailure:
    return SuiteFailure(f"{path}: not what HELM 0.5 writes ({type(error).__name__}: {error}); run the cell again.")


def _stats(rows: list[Any]) -> dict[str, dict[str, float]]:
    """Statistics by instance: HELM appends a row for every metric."""
    merged: dict[str, dict[str, float]] = {}
    for row in rows:
        values = merged.setdefault(row["instance_id"], {})
        values |= {stat["name"]["name"]: float(stat["sum"]) for stat in row["stats"] if stat["count"] == 1}
    return merged


def _instances(states: list[Any], stats: Mapping[str, Mapping[str, float]]) -> tuple[Instance, ...]:
    by_instance: dict[str, list[dict[str, Any]]] = {}
    for state in states:
        by_instance.setdefault(state["instance"]["id"], []).append(state)
    return tuple(
        _instance(name, by_instance[name], stats.get(name, {})) for name in sorted(by_instance, key=_helm_number)
    )


def _helm_number(name: str) -> tuple[int, str]:
    digits = name.removeprefix("id")
    return (int(digits), "") if digits.isdigit() else (0, name)


def _instance(name: str, states: list[dict[str, Any]], stats: Mapping[str, float]) -> Instance:
    instance = states[0]["instance"]
    references = instance["references"]
    states = sorted(states, key=lambda state: state.get("reference_index", 0))
    if len(states) > 1 and [state["reference_index"] for state in states] != list(range(len(references))):
        raise ValueError(f"instance {name} has {len(states)} requests for {len(references)} references")
    return Instance(
        instance_id=name,
        text=instance["input"]["text"],
        references=tuple(reference["output"]["text"] for reference in references),
        correct=tuple(index for index, reference in enumerate(references) if "correct" in reference["tags"]),
        requests=tuple(_answered(state) for state in states),
        stats=stats,
    )


def _answered(state: dict[str, Any]) -> Answered:
    completion = state["result"]["completions"][0]
    return Answered(
        prompt=state["request"]["prompt"],
        text=completion["text"],
        token_logprobs=tuple(float(token["logprob"]) for token in completion["tokens"]),
        letters=state.get("output_mapping", {}),
        shots=state["num_train_instances"],
        truncated=state["prompt_truncated"],
        annotations=state.get("annotations") or {},
    )
