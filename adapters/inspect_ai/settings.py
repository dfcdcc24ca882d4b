"""What becomes of every canonical value in Inspect AI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Cell, Setting

if TYPE_CHECKING:
    from safetyrepro.config import Config

Effect = tuple[str, bool, str]
"""What Inspect does, whether that is the canonical value, and a note."""

PROMPTS = {
    "truthfulqa": "Inspect's multiple-choice instruction ('ANSWER: $LETTER'), the question, lettered options",
    "bbq": "Inspect's multiple-choice instruction ('ANSWER: $LETTER'), the context, the question, lettered options",
}
PARSER = "Inspect's own: the last 'ANSWER: <letter>', in any case; a bare letter is not read"


def matched_settings(cell: Cell) -> tuple[Setting, ...]:
    """The matched arm sends the canonical token ids, so every value that plays a part is held."""
    values = _canonical(cell.config)
    sent = "in the canonical token ids, which are sent as they are to /v1/completions"
    notes = {name: sent for name in values if name.startswith(("prompt.", "shots.", "chat_template."))}
    notes["metric"] = "computed by a scorer in Inspect"
    unused = _unused(cell.config)
    return tuple(
        Setting(name, value, "not used" if name in unused else value, True, notes.get(name, ""))
        for name, value in values.items()
    )


def nominal_settings(cell: Cell) -> tuple[Setting, ...]:
    """The shipped task takes decoding, chat template and system text; the rest is its own."""
    effects = _nominal_effects(cell)
    return tuple(
        Setting(name, value, *effects.get(name, (value, True, ""))) for name, value in _canonical(cell.config).items()
    )


def _canonical(config: Config) -> dict[str, str]:
    chat, decoding, scoring = config.chat_template, config.decoding, config.scoring
    return {
        "prompt.template": config.prompt.template,
        "prompt.bos": config.prompt.bos,
        "shots.count": str(config.shots.count),
        "shots.seed": str(config.shots.seed),
        "chat_template.enabled": str(chat.enabled).lower(),
        "chat_template.system": "none" if chat.system is None else chat.system,
        "decoding.temperature": str(decoding.temperature),
        "decoding.top_p": str(decoding.top_p),
        "decoding.max_tokens": str(decoding.max_tokens),
        "decoding.stop": json.dumps(list(decoding.stop), ensure_ascii=False),
        "decoding.seed": str(decoding.seed),
        "scoring.path": scoring.path,
        "scoring.candidate": scoring.candidate,
        "scoring.normalisation": scoring.normalisation,
        "scoring.extraction": scoring.extraction,
        "metric": config.metric,
    }


def _unused(config: Config) -> set[str]:
    """Values without a part in the canonical run."""
    if config.scoring.path == "logprob":
        unused = {"scoring.extraction", *(name for name in _canonical(config) if name.startswith("decoding."))}
    else:
        unused = {"scoring.candidate", "scoring.normalisation"}
    return unused if config.shots.count else {*unused, "shots.seed"}


def _nominal_effects(cell: Cell) -> dict[str, Effect]:
    config = cell.config
    scoring, chat, zero_shot = config.scoring, config.chat_template, config.shots.count == 0
    logprob, mc2 = scoring.path == "logprob", config.metric == "mc2"
    effects: dict[str, Effect] = {
        "prompt.template": (
            PROMPTS[cell.benchmark.name],
            False,
            "the task has no option for another",
        ),
        "prompt.bos": _bos(cell),
        "shots.count": ("0", zero_shot, "" if zero_shot else "the task has no few-shot option"),
        "shots.seed": ("not used", zero_shot, ""),
        "chat_template.enabled": (
            str(chat.enabled).lower(),
            True,
            "openai-api, /v1/chat/completions" if chat.enabled else "openai-api-completions, the text as a raw prompt",
        ),
        "scoring.extraction": (PARSER, False, ""),
    }
    if mc2:
        rule = "1 where exactly the true answers are named, else 0"
        effects["metric"] = (rule, False, "the task's mc2 is no probability mass: another measure by the same name")
    else:
        effects["metric"] = (config.metric, True, "share of right letters; an answer that is not read counts as wrong")
    if logprob:
        generated = "the task has no scoring by likelihood: the model writes its answer under the canonical decoding"
        effects["scoring.path"] = ("free", False, generated)
        effects["scoring.candidate"] = ("letters" if mc2 else "letter", scoring.candidate == "letter", "as written")
        effects["scoring.normalisation"] = ("not used", scoring.normalisation == "none", "")
        limit = config.decoding.max_tokens
        effects["decoding.max_tokens"] = (str(limit), True, "an answer may be cut off before its letter")
    if chat.system is not None:
        effects["chat_template.system"] = (chat.system, True, "by the option system_message")
    return effects


def _bos(cell: Cell) -> Effect:
    rule = cell.config.prompt.bos
    if cell.config.chat_template.enabled:
        return "as the chat template has it", True, ""
    if cell.model.adds_bos:
        return "added by the server", rule == "auto", "the task sends text, which the server encodes with BOS"
    return "none: the tokenizer adds none", True, ""
