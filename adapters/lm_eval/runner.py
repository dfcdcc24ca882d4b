"""Runs one job in lm-evaluation-harness: `python -P runner.py JOB_JSON OUT_DIR`, inside the suite's environment.

It builds the job's task, hands it with a stock completions or chat client to `simple_evaluate`, and saves what comes
back with the suite's own tracker. The matched arm's client has the canonical token ids in place of its own encoding.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import lm_eval
import numpy as np
from lm_eval.api.task import ConfigurableTask
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

SHIPPED = Path(lm_eval.__file__).parent / "tasks"


class CanonicalCompletions(LocalCompletionsAPI):  # type: ignore[misc]
    """The stock completions client, sending given token ids for given texts and adding no stop string."""

    eos_string = None

    def __init__(self, sequences: Sequence[dict[str, Any]], prompts: Sequence[dict[str, Any]], **options: Any) -> None:
        super().__init__(**options)
        self._pairs = {
            (row["context"], row["continuation"]): (row["ids"][: row["n_context"]], row["ids"][row["n_context"] :])
            for row in sequences
        }
        self._prompts = {row["text"]: row["ids"] for row in prompts}

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        return self._pairs[context, continuation]

    def tok_encode(self, string: Sequence[str], **_: Any) -> list[list[int]]:
        """Token ids of whole prompts, which is all that generation asks for."""
        return [self._prompts[text] for text in string]


def argmax(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """1 where the candidate with the highest logprob by its divisor is a right one."""
    scaled = np.array([logprob for logprob, _ in results]) / np.array(doc["divisors"])
    return {"acc": float(int(np.argmax(scaled)) in doc["gold"])}


def mass(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """Probability of the right candidates under a softmax over all candidates."""
    scaled = np.array([logprob for logprob, _ in results]) / np.array(doc["divisors"])
    weights = np.exp(scaled - scaled.max())
    return {"acc": float(weights[doc["gold"]].sum() / weights.sum())}


def response_class(classes: Sequence[tuple[str, str, int]]) -> Callable[..., dict[str, float]]:
    """1 where the first class whose pattern is found in the response is a right one."""

    def process(doc: dict[str, Any], results: Sequence[str]) -> dict[str, float]:
        found = next((label for label, pattern, _ in classes if re.search(pattern, results[0])), None)
        return {"acc": float(found in doc["gold"])}

    return process


def build_task(job: dict[str, Any]) -> ConfigurableTask:
    """The job's task: a shipped one with overrides, or one of the job's own; its items come from the job."""
    config: dict[str, Any] = {}
    if job["include"] is not None:
        config = load_yaml(SHIPPED / job["include"], resolve_func=True)
        config.pop("tag", None)
    config |= job["task"]
    if job["process_results"] is not None:
        config["process_results"] = {"argmax": argmax, "mass": mass, "response_class": response_class(job["classes"])}[
            job["process_results"]
        ]

    def items(**_: Any) -> dict[str, datasets.Dataset]:
        return {job["split"]: datasets.Dataset.from_list(job["docs"])}

    config["custom_dataset"] = items
    return ConfigurableTask(config=config)


def client_options(job: dict[str, Any]) -> dict[str, Any]:
    """The client's options: the job's, and where the gateway and the tokenizer are."""
    url = os.environ["SAFETYREPRO_BASE_URL"]
    options = {"model": "model", **job["client_options"]}
    if job["client"] == "local-chat-completions":
        return {**options, "base_url": f"{url}/chat/completions"}
    tokenizer = os.environ["SAFETYREPRO_TOKENIZER"]
    return {
        **options,
        "base_url": f"{url}/completions",
        "tokenizer": tokenizer,
        "tokenizer_backend": "huggingface",
    }


def main(job_path: Path, out_dir: Path) -> None:
    """Run the job at `job_path` and leave lm-eval's results and samples files below `out_dir`."""
    os.environ["OPENAI_API_KEY"] = os.environ["SAFETYREPRO_TOKEN"]
    job = json.loads(job_path.read_text(encoding="utf-8"))
    options = client_options(job)
    canonical = job["client"] == "canonical"
    tracker = EvaluationTracker(output_path=str(out_dir))
    results = lm_eval.simple_evaluate(
        model=CanonicalCompletions(job["sequences"], job["prompts"], **options) if canonical else job["client"],
        model_args=options,
        tasks=[build_task(job)],
        task_manager=TaskManager(include_defaults=False),
        evaluation_tracker=tracker,
        bootstrap_iters=0,
        **job["evaluate"],
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task_name, rows in samples.items():
        tracker.save_results_samples(task_name=task_name, samples=rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
