"""Hybrid prompts: the text of one runner with the shots, the template and the candidates of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.crosspkg.attribution import Infeasible
from safetyrepro.crosspkg.attribution_components import Choice
from safetyrepro.crosspkg.divergence.normalisation import gold_places
from safetyrepro.crosspkg.divergence.options_listed import MARKS, place_of
from safetyrepro.crosspkg.sides.candidates import common_start
from safetyrepro.crosspkg.sides.exchange import Exchange, Ids
from safetyrepro.crosspkg.sides.options import Options
from safetyrepro.crosspkg.sides.turns import leading_bos

if TYPE_CHECKING:
    from safetyrepro.engine.api import Tokenizer


@dataclass(frozen=True)
class Frame:
    """What stands around the text that somebody wrote."""

    before: str
    after: str


@dataclass(frozen=True)
class ScoredPrompt:
    """One item's candidates as token ids."""

    sequences: tuple[Ids, ...]
    starts: tuple[int, ...]
    """Where each candidate begins."""
    right: frozenset[int]
    """Places of the right ones."""


@dataclass(frozen=True)
class FreePrompt:
    """One item's prompt of a generation."""

    ids: Ids
    gold: tuple[str, ...]
    """The right answers as they are to be read."""


class Item:
    """One item as both runners asked it."""

    def __init__(self, a: Exchange, b: Exchange, tokenizer: Tokenizer) -> None:
        """Take both exchanges and the model's tokenizer."""
        self._sides = {"a": a, "b": b}
        self._tokenizer = tokenizer
        self.frames = {name: _frame(exchange, tokenizer) for name, exchange in self._sides.items()}

    def side(self, name: str) -> Exchange:
        """One of the two exchanges."""
        return self._sides[name]

    def text(self, chosen: Choice) -> str:
        """The prompt of a hybrid.

        Raises:
            Infeasible: the parts do not fit together.
        """
        wording, shots, template = (self.side(name) for name in (chosen.text, chosen.shots, chosen.template))
        if chosen.shots != chosen.template and (shots.anatomy.shots_are_turns or template.anatomy.shots_are_turns):
            raise Infeasible("worked examples that are turns cannot be had without their template")
        section = "" if shots.anatomy.shots_are_turns else shots.anatomy.shots_text
        frame = self.frames[chosen.template]
        return frame.before + wording.anatomy.header + section + wording.anatomy.item_text + frame.after

    def scored(self, chosen: Choice) -> ScoredPrompt:
        """The candidates of a hybrid behind its prompt.

        Raises:
            Infeasible: the parts do not fit together.
        """
        source = self.side(chosen.candidates)
        texts = [candidate.text for candidate in source.candidates]
        if len(texts) < 2 or None in texts:
            raise Infeasible("the log does not hold the texts that were scored")
        right = self._right(chosen, source)
        kept = [candidate.ids for candidate in source.candidates if candidate.ids is not None]
        if {chosen.text, chosen.shots, chosen.template} == {chosen.candidates} and len(kept) == len(texts):
            start = len(common_start(kept))
            text = self.text(chosen)
            context = tuple(self._tokenizer.encode(text))
            starts = tuple(len(context) if ids[: len(context)] == context else start for ids in kept)
            return ScoredPrompt(tuple(kept), starts, right)
        context_text = self.text(chosen)
        context = tuple(self._tokenizer.encode(context_text))
        sequences = tuple(tuple(self._tokenizer.encode(context_text + (text or ""))) for text in texts)
        return ScoredPrompt(sequences, tuple(_start(context, ids) for ids in sequences), right)

    def free(self, chosen: Choice) -> FreePrompt:
        """The prompt of a generation, and what is right in it.

        Raises:
            Infeasible: a letter is to be read where no options are listed.
        """
        source, wording = self.side(chosen.path), self.side(chosen.text)
        golds = source.gold if isinstance(source.gold, list) else [source.gold]
        named = tuple(_as_listed(str(gold), source.anatomy.options, wording.anatomy.options) for gold in golds if gold)
        same = {chosen.text, chosen.shots, chosen.template} == {chosen.path}
        if same and source.ids is not None:
            return FreePrompt(source.ids, named)
        return FreePrompt(tuple(self._tokenizer.encode(self.text(chosen))), named)

    def _right(self, chosen: Choice, source: Exchange) -> frozenset[int]:
        texts = [candidate.bare or "" for candidate in source.candidates]
        letters = all(len(text) == 1 and text.isupper() for text in texts)
        if not letters:
            return frozenset(gold_places(source))
        golds = source.gold if isinstance(source.gold, list) else [source.gold]
        options = self.side(chosen.text).anatomy.options
        named = {_as_listed(str(gold), source.anatomy.options, options) for gold in golds}
        return frozenset(index for index, text in enumerate(texts) if text in named)


def _as_listed(gold: str, own: Options | None, listed: Options | None) -> str:
    """The right answer's name in a prompt: a letter follows its option to where another prompt lists it."""
    if place_of(gold) is None or not gold.isalpha():
        return gold
    if listed is None:
        raise Infeasible("a letter names nothing where no options are listed")
    if own is None or own is listed:
        return gold
    meant = _key(own.text_of(gold) or "")
    labels = [label for label, text in zip(listed.labels, listed.texts, strict=True) if _key(text) == meant]
    if not labels:
        raise Infeasible("the option that a letter stands for is not listed in the other prompt")
    return labels[0]


def _key(text: str) -> str:
    return " ".join(text.strip(MARKS).casefold().split())


def _start(context: Ids, ids: Ids) -> int:
    """Where the candidate begins; where it merges with its context, at the first token that differs."""
    return len(context) if ids[: len(context)] == context else max(1, len(common_start([context, ids])))


def _frame(exchange: Exchange, tokenizer: Tokenizer) -> Frame:
    anatomy = exchange.anatomy
    if not anatomy.known:
        raise Infeasible("a prompt is known as token ids alone")
    if exchange.messages is not None:
        turns: Sequence[dict[str, str]] = [{"role": turn.role, "content": turn.content} for turn in exchange.messages]
        text = tokenizer.chat(turns)
    else:
        text = exchange.prompt or ""
    written = anatomy.header + anatomy.shots_text + anatomy.item_text
    at = text.rfind(written)
    if at < 0:
        written = written.strip()
        at = text.rfind(written)
    if at < 0 or not written:
        raise Infeasible("a template changes the text that it is given")
    return Frame(_opened(exchange, text[:at], tokenizer), text[at + len(written) :])


def _opened(exchange: Exchange, before: str, tokenizer: Tokenizer) -> str:
    """What stands before the text, with the tokens that the model saw in front of it."""
    ids, bos = exchange.ids or exchange.sent_ids, tokenizer.bos_id
    if not ids or bos is None:
        return before
    seen = next((index for index, token in enumerate(ids) if token != bos), len(ids))
    written, rest = leading_bos(before)
    if rest.startswith(tokenizer.token_text(bos)):
        return before
    return tokenizer.token_text(bos) * max(0, seen - written) + before
