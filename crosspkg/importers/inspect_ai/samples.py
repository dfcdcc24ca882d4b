"""From a logged sample to a record."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.adapters.inspect_ai.log import LETTERS, Problem
from safetyrepro.crosspkg.importers.base import Identity, Row, decoding_label, unscored
from safetyrepro.crosspkg.importers.chat import as_chat, content
from safetyrepro.crosspkg.importers.inspect_ai.transcript import Called, attached, attachments_of, last_call
from safetyrepro.crosspkg.importers.values import MAX_KEPT, clean, finite, mapping, number, sequence, text_of, whole

_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Words that Inspect's accuracy takes for a number."""
_UNKNOWN = (None, "unknown")


def score_value(value: Any) -> float | None:
    """A score's value as Inspect's accuracy counts it; None for words that it has no number for, and for lists."""
    if isinstance(value, str):
        known = LETTERS.get(value, _WORDS.get(value.lower()))
        return known if known is not None else number(value)
    return number(value)


def read_sample(
    sample: Mapping[str, Any],
    identity: Identity,
    run_id: str,
    version: str | None,
    temperature: float | None,
    names: Mapping[tuple[str, str | None], str],
) -> Row:
    """One sample.

    Args:
        sample: As the log holds it.
        identity: Task, model and configuration.
        run_id: The log's own id.
        version: Inspect's release.
        temperature: What the log as a whole says of it; None where it does not.
        names: The name that a scorer, or a key of its score, has in the summary.
    """
    scores = _scores(sample)
    values = _values(scores, names)
    attachments = attachments_of(sample)
    first = mapping(next(iter(scores.values()), None))
    call = last_call(sample)
    reply = mapping(next(iter(sequence(mapping(sample.get("output")).get("choices"))), None))
    response = attached(content(mapping(reply.get("message")).get("content")), attachments)
    if call is not None and call.only_scores:
        response = None
    answer = text_of(attached(first.get("answer"), attachments))
    choices = [text_of(one) or "" for one in sequence(sample.get("choices"))]
    status, reason = _status(sample, reply, answer if "answer" in first else None, bool(values))
    called = None if call is None else finite(call.config.get("temperature"))
    facts = unscored(
        run_id,
        "inspect_ai",
        version,
        identity,
        str(text_of(sample["id"])),
        repeat=max((whole(sample.get("epoch")) or 1) - 1, 0),
        scoring=None if response is None else "free",
        decoding=decoding_label(temperature if called is None else called),
        prompt=_prompt(sample, call, attachments),
        response=text_of(response),
        finish_reason=_finish_reason(call, reply),
        extracted=answer or None,
        gold=_gold(sample),
        choice=_choice(answer, choices),
        status=status,
        reason=reason,
        extra=_extra(sample, scores, choices),
    )
    return Row(facts, values)


def _scores(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Scores by scorer; early logs hold one without a name."""
    if isinstance(sample.get("score"), dict) and not sample.get("scores"):
        return {"": sample["score"]}
    return mapping(sample.get("scores"))


def _values(scores: Mapping[str, Any], names: Mapping[tuple[str, str | None], str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for scorer, score in scores.items():
        value = mapping(score).get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            for key, part in value.items():
                values[clean(names.get((scorer, key), f"{scorer}.{key}"))] = score_value(part)
        elif value is not None:
            values[clean(names.get((scorer, None), scorer or "score"))] = score_value(value)
    return values


def _status(
    sample: Mapping[str, Any], reply: Mapping[str, Any], answer: str | None, scored: bool
) -> tuple[str, str | None]:
    error = sample.get("error")
    if error is not None:
        message = mapping(error).get("message") if isinstance(error, dict) else error
        return "error", Problem(message=text_of(message) or "no message").cause
    if not scored:
        return "missing", "the log holds no score for this sample"
    if reply.get("stop_reason") == "content_filter":
        return "refused", "the server's content filter withheld the answer"
    if answer == "":
        if reply.get("stop_reason") == "max_tokens":
            return "truncated", "the scorer read no answer; the text was cut at its limit"
        return "unparsed", "the scorer read no answer"
    return "ok", None


def _prompt(sample: Mapping[str, Any], call: Called | None, attachments: Mapping[str, Any]) -> str | None:
    if call is not None:
        return call.prompt
    asked = attached(sample.get("input"), attachments)
    return as_chat(asked) if isinstance(asked, list) else text_of(asked)


def _finish_reason(call: Called | None, reply: Mapping[str, Any]) -> str | None:
    if call is not None and call.finish_reason is not None:
        return call.finish_reason
    reason = reply.get("stop_reason")
    return None if reason in _UNKNOWN else text_of(reason)


def _gold(sample: Mapping[str, Any]) -> tuple[str, ...]:
    target = sample.get("target")
    held = target if isinstance(target, list) else [target]
    return tuple(found for one in held if (found := text_of(one)) is not None and found != "")


def _choice(answer: str | None, choices: Sequence[str]) -> int | None:
    shown = string.ascii_uppercase[: len(choices)]
    return shown.index(answer) if answer and len(answer) == 1 and answer in shown else None


def _extra(sample: Mapping[str, Any], scores: Mapping[str, Any], choices: Sequence[str]) -> dict[str, str]:
    extra: dict[str, str] = {}
    if choices:
        shown = zip(string.ascii_uppercase, choices, strict=False)
        extra["options"] = "\n".join(f"{letter}) {option}" for letter, option in shown)
    limit = sample.get("limit")
    if limit is not None:
        extra["limit"] = text_of(mapping(limit).get("type") or limit) or ""
    if sequence(sample.get("error_retries")):
        extra["error_retries"] = str(len(sample["error_retries"]))
    for scorer, score in list(scores.items())[1:]:
        answer = text_of(mapping(score).get("answer"))
        if answer:
            extra[clean(f"answer:{scorer}")] = answer[:MAX_KEPT]
    return extra
