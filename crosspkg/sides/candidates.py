"""Candidates out of scoring requests: where the context ends, and what the model gave each text behind it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from safetyrepro.crosspkg.sides.exchange import Ids, ScoredText
from safetyrepro.crosspkg.sides.responses import Answer

_BREAK = re.compile(r"[:\n>?\]]")
_WORD_START = re.compile(r"\s+\S*\Z")


@dataclass(frozen=True)
class Asked:
    """One scored sequence as it was sent and answered."""

    text: str | None
    """The whole text."""
    ids: Ids | None
    """The whole sequence's token ids, as seen or as sent."""
    answer: Answer
    hint: str | None = None
    """The candidate, where the log names it."""


S = TypeVar("S", str, Ids)


def common_start(sequences: Sequence[S]) -> S:
    """What all of at least one text (or list of ids) begin with."""
    low, high = min(sequences), max(sequences)
    shared = next((i for i, (x, y) in enumerate(zip(low, high, strict=False)) if x != y), min(len(low), len(high)))
    return low[:shared]


def context_of(texts: Sequence[str], known: Sequence[str]) -> str:
    """The context that `texts` share.

    It ends with the last cue (a colon, a line end or the like) that all have in common, so that the white space in
    front of a candidate belongs to the candidate; a text that is known to be a candidate says where it ends.

    Args:
        texts: whole sequences of one item.
        known: texts that may be one of its candidates, such as the gold one.
    """
    shared = common_start(texts)
    for candidate in sorted((text.strip() for text in known if text.strip()), key=len, reverse=True):
        for text in texts:
            cut = len(text) - len(candidate)
            if text.endswith(candidate) and cut > 0 and (len(texts) == 1 or cut <= len(shared)):
                return text[:cut].rstrip(" \t")
    if len(texts) == 1:
        last = [match.end() for match in _BREAK.finditer(shared.rstrip()) if match.end() < len(shared.rstrip())]
        return shared[: last[-1]] if last else shared
    breaks = [match.end() for match in _BREAK.finditer(shared)]
    if breaks:
        return shared[: breaks[-1]]
    word = _WORD_START.search(shared)
    return shared if word is None else shared[: word.start()]


def scored_texts(sequences: Sequence[Asked], context: str | None) -> tuple[ScoredText, ...]:
    """Each sequence's candidate with its summed logprob."""
    ids = [sequence.ids for sequence in sequences if sequence.ids is not None]
    shared_ids = len(common_start(ids)) if len(ids) > 1 else None
    return tuple(_scored(sequence, context, shared_ids) for sequence in sequences)


def _scored(sequence: Asked, context: str | None, shared_ids: int | None) -> ScoredText:
    text, answer = sequence.hint, sequence.answer
    if sequence.text is not None and context is not None and sequence.text.startswith(context):
        behind = sequence.text[len(context) :]
        text = behind or text
    start = _first_token(sequence, context, shared_ids)
    end = len(answer.logprobs)
    if sequence.ids is not None and start is not None and len(sequence.ids) > start:
        end = min(end, len(sequence.ids))
    if start is None:
        # Nothing was echoed: the answer holds the candidate alone.
        start = 0
    values = [value for value in answer.logprobs[start:end] if value is not None]
    if text is None and answer.tokens and start:
        text = "".join(answer.tokens[start:end])
    return ScoredText(text, math.fsum(values) if values else None, len(values) or None, sequence.ids)


def _first_token(sequence: Asked, context: str | None, shared_ids: int | None) -> int | None:
    """Which token of an echoed answer is the candidate's first."""
    answer = sequence.answer
    echoed = sequence.text is not None and (answer.text or "").startswith(sequence.text[: len(context or "")] or "\0")
    if context is not None and (echoed or (answer.logprobs and answer.logprobs[0] is None)):
        ends = [*answer.offsets[1:], math.inf] if answer.offsets else _ends(answer.tokens)
        for index, end in enumerate(ends):
            if end > len(context.rstrip()):
                return index
    if shared_ids is not None and answer.logprobs and answer.logprobs[0] is None:
        return shared_ids
    return None


def _ends(tokens: Sequence[str]) -> list[float]:
    ends: list[float] = []
    total = 0
    for token in tokens:
        total += len(token)
        ends.append(total)
    return ends
