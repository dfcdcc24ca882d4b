"""One item and repeat on both sides, compared: what every detector asks about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.hunks import TextDiff, diff_texts
from safetyrepro.crosspkg.sides.exchange import Exchange, Ids, ScoredText
from safetyrepro.crosspkg.sides.options import PLACE

LOGPROB_TOLERANCE = 1e-4
"""Nats: log-probabilities that are closer than this are the same number written twice."""
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
MOVING = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH},? \d{{4}}\b|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b"
    r"|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b\d{1,2}:\d{2}(?::\d{2})?\b"
    r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{16,64}\b|\b1[5-9]\d{8,11}\b",
)
"""Dates, times and ids of runs: text that is another one on another day."""
_MAY_MOVE = re.compile(r"\d|day\b")
"""What all of them hold: most prompts need no second look."""
_MASK = "\ufffe"


class Pair:
    """An exchange of side A beside the one of side B."""

    def __init__(self, a: Exchange, b: Exchange) -> None:
        self.a = a
        self.b = b
        self.masked = False
        """Whether dates and ids of runs are left out of the comparison of texts (they have a class of their own)."""

    @property
    def item_id(self) -> str:
        """The item."""
        return self.a.item_id

    @property
    def texts_known(self) -> bool:
        """Whether both prompts are known as text."""
        return self.a.anatomy.known and self.b.anatomy.known

    @property
    def template_differs(self) -> bool:
        """Whether one side alone went through a chat template."""
        return self.texts_known and self.a.anatomy.templated != self.b.anatomy.templated

    @cached_property
    def bodies_agree(self) -> bool:
        """Whether both sides sent the same prompt (the same turns, text or token ids)."""
        a, b = self.a, self.b
        if a.messages is not None or b.messages is not None:
            return a.messages == b.messages
        if a.prompt is not None and b.prompt is not None:
            return a.prompt == b.prompt
        return a.prompt == b.prompt and a.sent_ids is not None and a.sent_ids == b.sent_ids

    @cached_property
    def rests(self) -> tuple[str, str]:
        """Both prompts without template, shots and options; a raw one without the other's system text in front."""
        a, b = self.a.anatomy, self.b.anatomy
        rest_a, rest_b = a.rest, b.rest
        if a.templated != b.templated:
            rest_a, rest_b = _without(rest_a, b.system), _without(rest_b, a.system)
        return rest_a, rest_b

    @property
    def system_in_prompt(self) -> bool:
        """Whether the raw prompt of one side holds the other side's system text."""
        a, b = self.a.anatomy, self.b.anatomy
        if a.templated == b.templated:
            return False
        raw, chat = (b, a) if a.templated else (a, b)
        return bool(chat.system) and raw.body.lstrip().startswith((chat.system or "").strip())

    @cached_property
    def moving(self) -> tuple[tuple[str, str], ...]:
        """Dates and ids of runs that differ at the same place of the fixed words on both sides."""
        found = []
        for one, other in (self.rests, (self.a.anatomy.system or "", self.b.anatomy.system or "")):
            if one == other or not (_MAY_MOVE.search(one) and _MAY_MOVE.search(other)):
                continue
            spans, spans_other = MOVING.findall(one), MOVING.findall(other)
            if len(spans) == len(spans_other):
                found += [(x, y) for x, y in zip(spans, spans_other, strict=True) if x != y]
        return tuple(found)

    @cached_property
    def text_diff(self) -> TextDiff:
        """The rests compared."""
        if not self.texts_known:
            return TextDiff()
        a, b = self.rests
        if self.masked:
            a, b = mask(a), mask(b)
        return diff_texts(a, b)

    @cached_property
    def aligned(self) -> tuple[tuple[ScoredText, ScoredText], ...]:
        """Candidates that both sides scored: by text without outer space, else by place."""
        a, b = self.a.candidates, self.b.candidates
        names_a, names_b = [c.bare for c in a], [c.bare for c in b]
        if None not in names_a and None not in names_b and len(set(names_a)) == len(a):
            places = {name: index for index, name in reversed(list(enumerate(names_b)))}
            found = [(c, b[places[c.bare]]) for c in a if c.bare in places]
            if found:
                return tuple(found)
        return tuple(zip(a, b, strict=True)) if len(a) == len(b) else ()

    @cached_property
    def seen(self) -> tuple[Ids, Ids] | None:
        """Token ids that both models saw for the same text; None where a log does not tell."""
        if self.a.path == self.b.path == "logprob" and self.aligned:
            for one, other in self.aligned:
                if one.ids is not None and other.ids is not None:
                    return one.ids, other.ids
        ids_a, ids_b = self.a.ids or self.a.sent_ids, self.b.ids or self.b.sent_ids
        return None if not ids_a or not ids_b else (ids_a, ids_b)

    @property
    def outputs_known(self) -> bool:
        """Whether both sides hold what the model answered."""
        return bool(
            (self.a.output is not None and self.b.output is not None)
            or (self.sums and self.a.path == self.b.path == "logprob")
        )

    @cached_property
    def sums(self) -> tuple[tuple[float, float], ...]:
        """Summed logprobs of the candidates that both sides scored."""
        return tuple(
            (one.logprob, other.logprob)
            for one, other in self.aligned
            if one.logprob is not None and other.logprob is not None
        )

    @cached_property
    def logprob_difference(self) -> float:
        """The largest difference between log-probabilities of the same tokens or candidates, in nats."""
        return max(_differences(self.a, self.b, self.sums), default=0.0)

    @cached_property
    def outputs_differ(self) -> bool:
        """Whether the model answered differently, as far as both logs tell."""
        return exchanges_differ(self.a, self.b, self.sums)

    @property
    def outputs_equal(self) -> bool:
        """Whether both sides hold the model's answer, and it is the same."""
        return self.outputs_known and not self.outputs_differ

    @property
    def readings_differ(self) -> bool:
        """Whether other answers were read."""
        return bool(value_key(self.a.extracted) != value_key(self.b.extracted))

    @property
    def golds_differ(self) -> bool:
        """Whether both name right answers, and not the same."""
        a, b = value_key(self.a.gold), value_key(self.b.gold)
        return a is not None and b is not None and a != b

    @property
    def scores_differ(self) -> bool:
        """Whether both hold a score, and not the same."""
        a, b = self.a.score, self.b.score
        return a is not None and b is not None and abs(a - b) > TOLERANCE


def exchanges_differ(a: Exchange, b: Exchange, sums: tuple[tuple[float, float], ...] | None = None) -> bool:
    """Whether two exchanges got other answers from the model: other text, or other log-probabilities."""
    if a.output is not None and b.output is not None and a.output != b.output:
        return True
    if sums is None:
        pairs = zip(a.candidates, b.candidates, strict=False)
        sums = tuple((x.logprob, y.logprob) for x, y in pairs if x.logprob is not None and y.logprob is not None)
    return max(_differences(a, b, sums), default=0.0) > LOGPROB_TOLERANCE


def _differences(a: Exchange, b: Exchange, sums: tuple[tuple[float, float], ...]) -> Iterator[float]:
    yield from (abs(x - y) for x, y in sums)
    if a.output == b.output and len(a.token_logprobs) == len(b.token_logprobs):
        yield from (abs(x - y) for x, y in zip(a.token_logprobs, b.token_logprobs, strict=True))


def value_key(value: Any) -> Any:
    """An extracted or a right answer so that equal ones compare equal; None where there is none."""
    if value is None or value == "" or value == []:
        return None
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, list):
        keys = tuple(value_key(entry) for entry in value)
        return keys[0] if len(keys) == 1 else tuple(sorted(map(str, keys)))
    return value if isinstance(value, str) else str(value)


def mask(text: str) -> str:
    """Text with dates, times and ids of runs replaced by one sign."""
    return MOVING.sub(_MASK, text)


def is_place(text: str) -> bool:
    """Whether a changed stretch is nothing but the place of the options."""
    return text.strip() == PLACE


def _without(rest: str, system: str | None) -> str:
    head = (system or "").strip()
    return rest.lstrip().removeprefix(head).lstrip() if head and rest.lstrip().startswith(head) else rest
