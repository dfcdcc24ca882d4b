"""Less was sent, or seen by the model, than was logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.exchange import Exchange, Ids

FEWEST = 2
"""A single token less at the start is a BOS, not a cut."""
_LOGGED = ("logged_tokens", "prompt_tokens_logged", "n_prompt_tokens", "prompt_tokens", "logged_prompt_tokens")
_LOGGED_TEXTS = ("prompt", "logged_prompt", "full_prompt")
_COUNTS_APART = 3


def _detect(comparison: Comparison) -> Iterator[Finding]:
    heads = {head for pair in comparison.pairs if (head := _lost_head(pair)) is not None}
    cuts = {id(pair): _cut(pair, within_line=len(heads) > 1) for pair in comparison.pairs}
    items = comparison.touched(lambda pair: cuts[id(pair)] is not None)
    if items:
        yield Finding("truncation.sent", items, {"examples": comparison.examples(items, lambda pair: cuts[id(pair)])})


def _cut(pair: Pair, *, within_line: bool) -> dict[str, Any] | None:
    """Both lengths, where one is what is left of the other; None where nothing was cut.

    Args:
        pair: the item.
        within_line: whether a text cut between two words counts: where all items lack the same words at the start
            those are fixed words of the prompt, not a cut.
    """
    if pair.a.prompt_tokens is not None and pair.a.prompt_tokens == pair.b.prompt_tokens:
        return None if pair.template_differs else _by_text(pair, within_line=within_line)
    lost = _inside(pair.a), _inside(pair.b)
    if (lost[0] is None) != (lost[1] is None) or (lost[0] and lost[1] and lost[0] != lost[1]):
        return {"a": lost[0] or {"sent": _length(pair.a)}, "b": lost[1] or {"sent": _length(pair.b)}}
    if pair.template_differs:
        return None
    return _by_ids(pair) or _by_text(pair, within_line=within_line) or _by_counts(pair)


def _length(exchange: Exchange) -> int | None:
    ids = exchange.ids or exchange.sent_ids
    return len(ids) if ids else exchange.prompt_tokens


def _inside(exchange: Exchange) -> dict[str, int] | None:
    """Where one side's own numbers show that less was seen than logged."""
    if exchange.candidates and exchange.path == "logprob":
        return None
    sent = exchange.prompt or ""
    for name in _LOGGED_TEXTS:
        text = exchange.meta.get(name)
        if isinstance(text, str) and sent and len(text) > len(sent) and text.endswith(sent):
            return {"logged_chars": len(text), "sent_chars": len(sent)}
    counts = [len(exchange.ids)] if exchange.ids else []
    counts += [exchange.prompt_tokens] if exchange.prompt_tokens is not None else []
    logged = [value for name in _LOGGED if isinstance(value := exchange.meta.get(name), int)]
    logged += [len(exchange.sent_ids)] if exchange.sent_ids else []
    logged += counts[:1] if len(counts) > 1 else []
    if counts and logged and max(logged) - min(counts) >= FEWEST:
        return {"logged": max(logged), "sent": min(counts)}
    return None


def _by_ids(pair: Pair) -> dict[str, Any] | None:
    if pair.seen is None or pair.a.path != pair.b.path or (pair.texts_known and not pair.bodies_agree):
        return None
    a, b = pair.seen
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if len(longer) - len(shorter) < FEWEST or not shorter or _opened(longer, shorter):
        return None
    if pair.a.messages is not None:
        # A turn that the template puts in front leaves an end that opens like the whole; a cut one does not.
        found = longer[-len(shorter) :] == shorter and longer[0] != shorter[0]
    else:
        behind_first = len(shorter) > 1 and longer[0] == shorter[0] and longer[1 - len(shorter) :] == shorter[1:]
        found = longer[-len(shorter) :] == shorter or longer[: len(shorter)] == shorter or behind_first
    return {"a": {"tokens": len(a)}, "b": {"tokens": len(b)}} if found else None


def _opened(longer: Ids, shorter: Ids) -> bool:
    """Whether all that is more is the same token again and again at the start."""
    more = longer[: len(longer) - len(shorter)]
    return len(set(more)) == 1 and longer[len(more) :] == shorter


def _lost_head(pair: Pair) -> str | None:
    """What one side's prompt has in front of the other's whole prompt, where the two part within a line."""
    if pair.template_differs or not pair.texts_known:
        return None
    a, b = pair.a.anatomy.body, pair.b.anatomy.body
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if not shorter.strip() or len(longer) == len(shorter) or not longer.endswith(shorter):
        return None
    head = longer[: len(longer) - len(shorter)]
    return None if head[-1] == "\n" or shorter[0] == "\n" else head


def _by_text(pair: Pair, *, within_line: bool) -> dict[str, Any] | None:
    head = _lost_head(pair)
    if head is None:
        return None
    a, b = pair.a.anatomy.body, pair.b.anatomy.body
    within_word = head[-1].isalnum() and min(a, b, key=len)[0].isalnum()
    if not within_word and not within_line:
        return None
    return {"a": {"chars": len(a)}, "b": {"chars": len(b)}, "lost": visible(head[-60:])}


def _by_counts(pair: Pair) -> dict[str, Any] | None:
    """The same raw prompt, no ids, and one server counted far fewer tokens."""
    counts = (pair.a.prompt_tokens, pair.b.prompt_tokens)
    if pair.seen is not None or pair.a.messages is not None or not pair.bodies_agree or None in counts:
        return None
    if abs((counts[0] or 0) - (counts[1] or 0)) < _COUNTS_APART:
        return None
    return {"a": {"tokens": counts[0]}, "b": {"tokens": counts[1]}}


DETECTOR = Detector(
    "truncation_sent",
    ("truncation.sent",),
    "ids or text that are the end (or start) of the other side's; logged lengths against those the server counted",
    _detect,
)
