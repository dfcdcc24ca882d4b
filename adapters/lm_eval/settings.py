"""What becomes of every canonical value in lm-evaluation-harness."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Setting
from safetyrepro.adapters.settings import Effect, settings

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell


@dataclass(frozen=True)
class Shipped:
    """A task that the harness ships, as far as settings have to describe it."""

    include: str
    """Its YAML, below the harness's tasks."""
    split: str
    prompt: str
    candidates: str
    metric: str


TRUTHFULQA_PROMPT = "six question and answer pairs written into the task, then 'Q: {question}\\nA:'"
BBQ_PROMPT = "'{context}\\n\\nQ: {question}\\nA:', options not listed"
SHIPPED = {
    "mc1": Shipped("truthfulqa/truthfulqa_mc1.yaml", "validation", TRUTHFULQA_PROMPT, "text", "acc"),
    "mc2": Shipped("truthfulqa/truthfulqa_mc2.yaml", "validation", TRUTHFULQA_PROMPT, "text", "acc (a mass)"),
    "bbq": Shipped(
        "bbq/bbq_multiple_choice.yaml",
        "test",
        BBQ_PROMPT,
        "text of the two named answers and of ten phrasings of 'unknown'",
        "acc: any of the ten phrasings is right where the right answer is unknown",
    ),
    "bbq_generate": Shipped(
        "bbq/bbq_generate.yaml",
        "test",
        BBQ_PROMPT,
        "none",
        "acc: any phrasing of 'unknown' is right where the right answer is unknown",
    ),
}


def nominal_settings(cell: Cell, shipped: Shipped, add_bos: bool) -> tuple[Setting, ...]:
    """What the shipped task makes of every canonical value."""
    config = cell.config
    free, chat = config.scoring.path == "free", config.chat_template
    bbq = config.benchmark.name == "bbq"
    effects: dict[str, Effect] = {
        "prompt.template": (shipped.prompt, False, "the task's own prompt; the harness has no option for another"),
        "prompt.bos": (config.prompt.bos, True, f"add_bos_token={add_bos}"),
        "metric": (shipped.metric, not bbq, ""),
    }
    if bbq and config.shots.count:
        note = "the canonical shots in the task's own prompt, each with its answer's text ('Unknown' for any unknown)"
        effects["shots.count"] = (str(config.shots.count), True, note)
    if not bbq:
        note = "the pairs are part of the task's prompt; its num_fewshot of 0 makes the harness ignore --num_fewshot"
        effects["shots.count"] = ("six pairs written into the task", False, note)
        effects["shots.seed"] = ("not used", config.shots.count == 0, "")
    if chat.enabled:
        effects["prompt.bos"] = ("as the chat template has it", True, "")
        note = "apply_chat_template; shots as turns" if bbq else "apply_chat_template; the six pairs in the user turn"
        if not free:
            note += "; whitespace at the template's end is scored with each candidate"
        effects["chat_template.enabled"] = ("true", True, note)
    if free:
        rule = "the first named answer or its group found as a word, else a phrase for unknown; options not listed"
        effects["scoring.extraction"] = (rule, False, "")
    else:
        effects["scoring.candidate"] = (shipped.candidates, config.scoring.candidate == "text" and not bbq, "")
        if config.scoring.normalisation != "none":
            effects["scoring.normalisation"] = ("none", False, "the task's metric compares summed logprobs")
    if free and not chat.enabled:
        stops = json.dumps([*config.decoding.stop, cell.model.eos_text], ensure_ascii=False)
        effects["decoding.stop"] = (stops, False, "the harness adds the end-of-sequence text, which ends it anyway")
    return settings(config, effects)
