"""Where two texts differ: words that were changed, and white space between words that were not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_SPACE = "\\s\u200b\u200c\u200d\u2060\ufeff"
_WORD = re.compile(rf"([{_SPACE}]*)([^\W\u200b]+|[^\w{_SPACE}]|\Z)")
SHORTEST_RUN = 3
"""Fewer equal words in a row between changed ones are chance, and the white space among them says nothing."""
_SHOWN_AROUND = 24


@dataclass(frozen=True)
class Hunk:
    """Words that stand on one side only, or in another form on the other."""

    a: str
    b: str


@dataclass(frozen=True)
class Space:
    """White space that differs between two words that both sides have."""

    before: str
    a: str
    b: str
    after: str
    """The word behind it; empty at the end of the text."""

    def shown(self) -> tuple[str, str, str]:
        """Where it stands, and how it looks on both sides."""
        where = f"behind {self.before!r}" if self.before else "at the start"
        a, b = (visible(f"{self.before}{space}{self.after}") for space in (self.a, self.b))
        return where, a, b


@dataclass(frozen=True)
class TextDiff:
    """Two texts compared."""

    hunks: tuple[Hunk, ...] = ()
    spaces: tuple[Space, ...] = ()


@dataclass(frozen=True)
class _Word:
    space: str
    text: str


def diff_texts(a: str, b: str) -> TextDiff:
    """Compare two texts word by word; white space beside a changed word belongs to the change."""
    if a == b:
        return TextDiff()
    words_a, words_b = _words(a), _words(b)
    matcher = SequenceMatcher(None, [w.text for w in words_a], [w.text for w in words_b], autojunk=False)
    codes = matcher.get_opcodes() if len(words_a) * len(words_b) < 4_000_000 else _trimmed(words_a, words_b)
    whole = all(code[0] == "equal" for code in codes)
    hunks: list[Hunk] = []
    spaces: list[Space] = []
    for name, a1, a2, b1, b2 in codes:
        if name != "equal":
            hunks.append(Hunk(_joined(words_a[a1:a2]), _joined(words_b[b1:b2])))
            continue
        anchored = a1 == b1 == 0 or a2 == len(words_a)
        if not whole and not anchored and a2 - a1 < SHORTEST_RUN:
            continue
        first = 0 if a1 == b1 == 0 else 1
        for offset in range(first, a2 - a1):
            one, other = words_a[a1 + offset], words_b[b1 + offset]
            if one.space != other.space:
                before = "" if a1 + offset == 0 else words_a[a1 + offset - 1].text
                spaces.append(Space(before, one.space, other.space, one.text))
    return TextDiff(tuple(hunks), tuple(spaces))


def visible(text: str, longest: int = 120) -> str:
    """Text on one line: spaces as `·`, line ends as `⏎`, tabs as `⇥`, what shows nothing by its code point."""
    marks = {" ": "·", "\n": "⏎", "\t": "⇥"}
    shown = "".join(
        marks[character]
        if character in marks
        else f"[U+{ord(character):04X}]"
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
        else character
        for character in text[:longest]
    )
    return shown + ("…" if len(text) > longest else "")


def first_difference(a: str, b: str) -> dict[str, str | int]:
    """Where two texts part, with a few characters around, made visible."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, at - _SHOWN_AROUND)
    end = at + _SHOWN_AROUND
    return {"at": at, "a": visible(a[start:end]), "b": visible(b[start:end])}


def _words(text: str) -> list[_Word]:
    return [_Word(*match) for match in _WORD.findall(text)]


def _joined(words: Sequence[_Word]) -> str:
    return "".join(word.space + word.text for word in words).strip()


def _trimmed(a: Sequence[_Word], b: Sequence[_Word]) -> list[tuple[str, int, int, int, int]]:
    """Opcodes of texts too long to be matched word by word: both ends in common, all between them changed."""
    head = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x.text != y.text), min(len(a), len(b)))
    room = min(len(a), len(b)) - head
    tail = next((i for i in range(room) if a[-1 - i].text != b[-1 - i].text), room)
    codes = [("equal", 0, head, 0, head), ("replace", head, len(a) - tail, head, len(b) - tail)]
    return [*codes, ("equal", len(a) - tail, len(a), len(b) - tail, len(b))]
