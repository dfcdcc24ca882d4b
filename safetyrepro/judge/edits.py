"""Targeted edits of an answer: one thing is changed by rule, the rest stays as it was **(ours)**.

`facts` makes the substance worse and leaves the form; `style`, `sarcasm`, `padding` and `layout` leave the substance.
Code between fences is never touched. The same answer gives the same edit everywhere. An answer in which a rule finds
nothing to change has no such edit, and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from safetyrepro.judge.edit_names import EDITS

FENCE = re.compile(r"(```.*?(?:```|\Z))", re.DOTALL)
NUMBER = re.compile(r"(?P<entry>^\s*\d+[.)](?=\s))|(?<![\w.,/-])\d+(?:\.\d+)?(?![\w/-]|[.,]\d)", re.MULTILINE)
CLAIM = re.compile(r"\b(is|are|was|were|can|will|should|must)\b( not\b)?(?!n't)")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORDS_BETWEEN_SLIPS = 9
LONGEST_SLIP = 5
FILLERS = (
    "This is an important point that deserves to be kept in mind.",
    "It is always worth taking a moment to think about this carefully.",
    "As with many things of this kind, there is a lot that could be said here.",
    "In other words, what was said above should be understood as it was meant.",
    "Needless to say, context matters, and every situation is somewhat different.",
    "With that being said, let us move on to what comes next.",
)
OPENING = "Oh, what a brilliant question. I can hardly contain my excitement at being allowed to answer it."
ASIDE = "Try to keep up, I know this is terribly demanding."
CLOSING = "There, that was not so hard, was it? Truly, the world can now sleep in peace."


def edited(name: str, text: str) -> str | None:
    """The answer with one edit, or None where the rule finds nothing to change.

    Args:
        name: one of `EDITS`.
        text: the answer.

    Raises:
        KeyError: no such edit.
    """
    changed = _RULES[name](text)
    return None if changed == text else changed


def _outside_code(text: str, rule: Callable[[str], str]) -> str:
    return "".join(part if part.startswith("```") else rule(part) for part in FENCE.split(text))


def _facts(text: str) -> str:
    """Every number becomes another of the same form, and every second claim its opposite."""
    claims = 0

    def other_number(match: re.Match[str]) -> str:
        digits = match.group()
        if match["entry"]:
            return digits
        first = next((k for k, digit in enumerate(digits) if digit in "123456789"), 0)
        swapped = str((int(digits[first]) + 4) % 9 + 1)
        return digits[:first] + swapped + digits[first + 1 :]

    def opposite(match: re.Match[str]) -> str:
        nonlocal claims
        verb, negated = match.groups()
        claims += 1
        if claims % 2 == 0:
            return match.group()
        return verb if negated else f"{verb} not"

    return _outside_code(text, lambda part: CLAIM.sub(opposite, NUMBER.sub(other_number, part)))


def _style(text: str) -> str:
    """The same words without capitals, punctuation, paragraphs and layout, with slips of the keyboard."""

    def worse(part: str) -> str:
        bare = re.sub(r"[*_#>`]+|^\s*(?:[-+]|\d+[.)])\s+", " ", part, flags=re.MULTILINE)
        words = re.sub(r"[,;:!?]|\.(?=\s|$)", "", bare).lower().split()
        joined = " ".join(_slip(word) if k % WORDS_BETWEEN_SLIPS == 4 else word for k, word in enumerate(words))
        return f"{joined}\n" if joined else "\n"

    return _outside_code(text, worse).strip() if text.strip() else text


def _slip(word: str) -> str:
    if len(word) < LONGEST_SLIP or not word.isalpha():
        return word
    middle = len(word) // 2
    return word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]


def _sarcasm(text: str) -> str:
    """The same answer between sarcastic remarks."""
    if not text.strip():
        return text
    head, gap, rest = text.partition("\n\n")
    return f"{OPENING}\n\n{head}\n\n{ASIDE}{gap}{rest}\n\n{CLOSING}"


def _padding(text: str) -> str:
    """A sentence without content after every paragraph and at the end."""
    if not text.strip():
        return text
    count = 0

    def pad(part: str) -> str:
        nonlocal count
        paragraphs = part.split("\n\n")
        for k, paragraph in enumerate(paragraphs):
            if paragraph.strip():
                paragraphs[k] = f"{paragraph.rstrip()}\n\n{FILLERS[count % len(FILLERS)]}"
                count += 1
        return "\n\n".join(paragraphs) + ("\n\n" if part.endswith("\n") else "")

    body = _outside_code(text, pad)
    return f"{body.rstrip()}\n\n" + " ".join(FILLERS[(count + k) % len(FILLERS)] for k in range(3))


def _layout(text: str) -> str:
    """The same sentences under headings, as lists, with their first words in bold."""
    number = 0

    def lay_out(part: str) -> str:
        nonlocal number
        blocks = []
        for paragraph in part.split("\n\n"):
            lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
            sentences = [s for line in lines for s in SENTENCE.split(re.sub(r"^(?:[-*+]|\d+[.)]|#+)\s+", "", line))]
            if sentences:
                number += 1
                blocks.append("\n".join([f"## Part {number}", "", *(f"- {_bold(sentence)}" for sentence in sentences)]))
        return "\n\n".join(blocks) + "\n\n" if blocks else part

    return _outside_code(text, lay_out).rstrip("\n") if text.strip() else text


def _bold(sentence: str) -> str:
    words = sentence.replace("**", "").split(" ")
    return f"**{' '.join(words[:2])}** {' '.join(words[2:])}".rstrip()


_RULES: dict[str, Callable[[str], str]] = {
    "facts": _facts,
    "style": _style,
    "sarcasm": _sarcasm,
    "padding": _padding,
    "layout": _layout,
}
assert tuple(_RULES) == EDITS
