"""A prompt taken apart by its own structure, without knowing whose it is.

Parts: the chat template with its system turn, the worked examples (shots), the options listed with the item, and the
rest, which is fixed words and the item's own text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from safetyrepro.crosspkg.sides.options import PLACE, Options, find_options
from safetyrepro.crosspkg.sides.turns import Turn, leading_bos, turns_of

_LABEL = re.compile(r"[ \t]*([A-Za-z][\w ]{0,24}?)[ \t]*:")
_BLANK = re.compile(r"\n[ \t]*\n\s*")


@dataclass(frozen=True)
class Anatomy:
    """A prompt in parts."""

    templated: bool
    """Whether a chat template was applied: turns were sent, or the text holds a template's markers."""
    system: str | None
    shots: tuple[str, ...]
    """Each worked example with its answer, white space normalised."""
    header: str
    """What opens the prompt (or the last turn) before the first worked example; empty where there is none."""
    shots_text: str
    """The worked examples of the prompt (or of the last turn) as they stand there."""
    item_text: str
    """The item itself, behind them."""
    shots_are_turns: bool
    """Whether worked examples are turns of their own."""
    body: str
    """All text that somebody wrote: every turn but the system's, or the raw prompt, without leading BOS."""
    rest: str
    """The body without shots, `PLACE` where its options stood."""
    options: Options | None
    n_bos: int
    """Tokens at the start of the text that open a sequence, written as text."""
    known: bool = True
    """Whether there was any text to take apart."""


def dissect(prompt: str | None, messages: Sequence[Turn] | None) -> Anatomy:
    """Take a prompt apart, given as raw text or as turns."""
    if messages is None and prompt is None:
        return Anatomy(False, None, (), "", "", "", False, "", "", None, 0, known=False)
    n_bos, text = leading_bos(prompt or "")
    turns = tuple(messages) if messages is not None else turns_of(text)
    if not turns:
        return _anatomy(False, None, (), split_shots(text), text, n_bos)
    system = "\n\n".join(turn.content for turn in turns if turn.role == "system") or None
    spoken = [turn for turn in turns if turn.role != "system"]
    while len(spoken) > 1 and spoken[-1].role == "assistant" and not spoken[-1].content.strip():
        spoken.pop()
    pairs, last = _pairs(spoken)
    body = "\n\n".join(turn.content for turn in spoken)
    return _anatomy(True, system, pairs, split_shots(last), body, n_bos)


def _anatomy(templated: bool, system: str | None, pairs: Sequence[str], split: Split, body: str, n_bos: int) -> Anatomy:
    rest = split.header + split.item
    options = find_options(rest)
    if options is not None:
        rest = rest[: options.start] + PLACE + rest[options.end :]
    return Anatomy(
        templated=templated,
        system=system,
        shots=(*pairs, *split.shots),
        header=split.header,
        shots_text=split.section,
        item_text=split.item,
        shots_are_turns=bool(pairs),
        body=body,
        rest=rest,
        options=options,
        n_bos=n_bos,
    )


def _pairs(spoken: Sequence[Turn]) -> tuple[list[str], str]:
    """Turns that show a question with its answer, and the text of the item's own."""
    pairs: list[str] = []
    index = 0
    while index + 2 < len(spoken) and (spoken[index].role, spoken[index + 1].role) == ("user", "assistant"):
        pairs.append(_normal(f"{spoken[index].content} {spoken[index + 1].content}"))
        index += 2
    return pairs, "\n".join(turn.content for turn in spoken[index:])


@dataclass(frozen=True)
class Split:
    """A text with worked examples: joined, header, section and item are the text."""

    shots: tuple[str, ...]
    header: str
    section: str
    item: str


def split_shots(text: str) -> Split:
    """Part the worked examples in front of an item from what opens the prompt, and from the item.

    The item's last line opens with a cue such as `Answer:`; every earlier line that opens with it ends an example.
    Where the item ends without a cue, the label that it begins with (`Question:`) parts the examples instead.
    """
    cue = _cue(text)
    if cue is not None:
        answers = list(re.finditer(rf"(?m)^[ \t]*{re.escape(cue)}[ \t]*:", text))[:-1]
        if answers:
            return _by_answers(text, [_answer_end(text, match.end(), cue) for match in answers])
    return _by_labels(text)


def _cue(text: str) -> str | None:
    last = text.rstrip().rpartition("\n")[2]
    match = _LABEL.match(last)
    return None if match is None else match[1]


def _answer_end(text: str, start: int, cue: str) -> int:
    """Where an example's answer ends: at a blank line, else at its line's end."""
    line = text.find("\n", start)
    blank = _BLANK.search(text, start)
    if blank is None:
        return len(text) if line < 0 else line
    following = re.compile(rf"(?m)^[ \t]*{re.escape(cue)}[ \t]*:").search(text, start)
    return blank.start() if following is None or blank.start() < following.start() else line


def _by_answers(text: str, ends: Sequence[int]) -> Split:
    final = text[ends[-1] :]
    item = final.lstrip()
    first = _LABEL.match(item)
    begins = _first_start(text[: ends[0]], None if first is None else first[1], len(_BLANK.split(item.strip())))
    starts = [begins, *ends[:-1]]
    shots = tuple(_normal(text[start:end]) for start, end in zip(starts, ends, strict=True))
    return Split(shots, text[:begins], text[begins : len(text) - len(item)], item)


def _first_start(block: str, label: str | None, paragraphs: int) -> int:
    """Where the first example begins behind the prompt's opening words."""
    if label is not None:
        match = re.search(rf"(?m)^[ \t]*{re.escape(label)}[ \t]*:", block)
        if match is not None:
            return match.start()
    breaks = [match.end() for match in _BLANK.finditer(block)]
    return breaks[-paragraphs] if len(breaks) >= paragraphs else 0


def _by_labels(text: str) -> Split:
    paragraphs = [match.end() for match in _BLANK.finditer(text)]
    for begins in reversed(paragraphs):
        label = _LABEL.match(text[begins:])
        if label is None:
            continue
        starts = [m.start() for m in re.finditer(rf"(?m)^[ \t]*{re.escape(label[1])}[ \t]*:", text)]
        if len(starts) > 1 and starts[-1] == begins:
            shots = tuple(_normal(text[a:b]) for a, b in itertools.pairwise(starts))
            return Split(shots, text[: starts[0]], text[starts[0] : begins], text[begins:])
    return Split((), "", "", text)


def _normal(text: str) -> str:
    return " ".join(text.split())
