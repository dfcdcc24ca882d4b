"""The parts of a job that every arm has alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safetyrepro.config import Config

BATCH = 8
"""Candidates a request; generation sends one prompt a request, so that no sampled text depends on its neighbours."""
TIMEOUT_SECONDS = 3600


def payload(client: str, task: dict[str, Any], docs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """What the runner reads.

    Args:
        client: `canonical`, or a client of the harness's by its own name.
        task: The task's configuration, or what is changed in the one that `include` names.
        docs: The items in the task's data schema, each with its `item_id`.
        more: Anything else; `client_options` and `evaluate` go to the client and to `simple_evaluate`.
    """
    return {
        "client": client,
        "client_options": {"max_retries": 1, "timeout": TIMEOUT_SECONDS, **more.pop("client_options", {})},
        "include": None,
        "split": "test",
        "process_results": None,
        "classes": [],
        "sequences": [],
        "prompts": [],
        "task": task,
        "docs": docs,
        "evaluate": more.pop("evaluate", {}),
        **more,
    }


def batch_size(config: Config) -> int:
    """Prompts a request."""
    return 1 if config.scoring.path == "free" else BATCH


def seeded(config: Config) -> dict[str, int]:
    """The canonical seeds under the harness's names."""
    seed = config.decoding.seed
    return {
        "random_seed": seed,
        "numpy_random_seed": seed,
        "torch_random_seed": seed,
        "fewshot_random_seed": config.shots.seed,
    }


def generation(config: Config) -> dict[str, Any]:
    """The canonical decoding under the harness's names."""
    decoding = config.decoding
    return {
        "until": list(decoding.stop),
        "max_gen_toks": decoding.max_tokens,
        "do_sample": decoding.temperature > 0,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
    }
