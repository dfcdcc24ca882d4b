"""Turns a cell into the native runner's job: the canonical token ids, and how to decode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Job
from safetyrepro.adapters.record import by_item
from safetyrepro.adapters.settings import prompt_effects, settings
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell


def translate(cell: Cell) -> Job | Absent:
    """The job of a matched cell; the other arms are absent."""
    if cell.arm is not Arm.MATCHED:
        return Absent("the native runner ships no tasks of its own: it has the matched arm alone")
    config, canonical = cell.config, cell.canonical
    if config.scoring.path == "logprob":
        sequences = by_item(canonical.sequences)
        requests = [
            {"item_id": item.item_id, "prompt": [list(sequence.ids) for sequence in sequences[item.item_id]]}
            for item in cell.data.items
        ]
        body: dict[str, Any] = {"max_tokens": 0, "temperature": 0.0, "echo": True, "logprobs": 1}
    else:
        requests = [{"item_id": prompt.item_id, "prompt": [list(prompt.ids)]} for prompt in canonical.prompts]
        decoding = config.decoding
        body = {
            "max_tokens": decoding.max_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "stop": list(decoding.stop),
            "seed": decoding.seed,
        }
    effects = prompt_effects(config, "in the canonical token ids, which are sent as they are")
    effects["metric"] = (config.metric, True, "the benchmark's own definition")
    return Job({"body": body, "requests": requests}, settings(config, effects), len(requests))
