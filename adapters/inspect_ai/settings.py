"""What becomes of every canonical value in Inspect AI."""

from __future__ import annotations

from safetyrepro.adapters.base import Cell, Setting
from safetyrepro.adapters.settings import Effect, canonical_values, prompt_effects, settings

PROMPTS = {
    "truthfulqa": "Inspect's multiple-choice instruction ('ANSWER: $LETTER'), the question, lettered options",
    "bbq": "Inspect's multiple-choice instruction ('ANSWER: $LETTER'), the context, the question, lettered options",
}
PARSER = "Inspect's own: the last 'ANSWER: <letter>', in any case; a bare letter is not read"


def matched_settings(cell: Cell) -> tuple[Setting, ...]:
    """The matched arm sends the canonical token ids, so every value that plays a part is held."""
    effects = prompt_effects(cell.config, "in the canonical token ids, which are sent as they are to /v1/completions")
    effects["metric"] = (cell.config.metric, True, "computed by a scorer in Inspect")
    return settings(cell.config, effects)


def nominal_settings(cell: Cell) -> tuple[Setting, ...]:
    """The shipped task takes decoding, chat template and system text; the rest is its own."""
    values = canonical_values(cell.config)
    # Inspect generates on either path, so decoding plays its part where the canonical run has no use for it.
    decoding: dict[str, Effect] = {name: (values[name], True, "") for name in values if name.startswith("decoding.")}
    return settings(cell.config, decoding | _nominal_effects(cell))


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
