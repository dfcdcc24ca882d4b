"""Turns a cell into the native runner's job: the canonical token ids, and how to decode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Job, Setting
from safetyrepro.adapters.record import by_item
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.config import Config


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
    return Job({"body": body, "requests": requests}, _settings(config), len(requests))


def _settings(config: Config) -> tuple[Setting, ...]:
    """Every canonical value; all of them are held, or play no part on this scoring path."""
    chat, decoding, scoring = config.chat_template, config.decoding, config.scoring
    sent = "in the canonical token ids, which are sent as they are"
    values = {
        "prompt.template": (config.prompt.template, sent),
        "prompt.bos": (config.prompt.bos, sent),
        "shots.count": (str(config.shots.count), sent),
        "shots.seed": (str(config.shots.seed), sent),
        "chat_template.enabled": (str(chat.enabled).lower(), sent),
        "chat_template.system": ("none" if chat.system is None else chat.system, sent),
        "decoding.temperature": (str(decoding.temperature), ""),
        "decoding.top_p": (str(decoding.top_p), ""),
        "decoding.max_tokens": (str(decoding.max_tokens), ""),
        "decoding.stop": (json.dumps(list(decoding.stop), ensure_ascii=False), ""),
        "decoding.seed": (str(decoding.seed), ""),
        "scoring.path": (scoring.path, ""),
        "scoring.candidate": (scoring.candidate, ""),
        "scoring.normalisation": (scoring.normalisation, ""),
        "scoring.extraction": (scoring.extraction, ""),
        "metric": (config.metric, "the benchmark's own definition"),
    }
    if scoring.path == "logprob":
        unused = {"scoring.extraction", *(name for name in values if name.startswith("decoding."))}
    else:
        unused = {"scoring.candidate", "scoring.normalisation"}
    if config.shots.count == 0:
        unused.add("shots.seed")
    return tuple(
        Setting(name, value, "not used", True) if name in unused else Setting(name, value, value, True, note)
        for name, (value, note) in values.items()
    )
