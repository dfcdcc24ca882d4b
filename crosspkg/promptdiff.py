"""Prompts of one item side by side: which words all suites sent, and which are a suite's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

TOKEN = re.compile(r"(\s*)(\w+|[^\w\s]|\Z)")
SHORTEST_RUN = 3
"""Runs of fewer equal words are chance (a colon, a full stop), not a common part."""
LONGEST = 8_000
"""Characters of a prompt that are compared; the end is kept, where the item stands."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a prompt."""

    text: str
    common: bool
    """Whether all suites sent it, in the same order."""


@dataclass(frozen=True)
class Word:
    """A word or a sign, with the white space before it."""

    space: str
    text: str


def compare_prompts(prompts: Mapping[str, str]) -> dict[str, tuple[Segment, ...]]:
    """Split each suite's prompt into what all sent and its own boilerplate.

    Words are matched between the first prompt and each of the others, and what all hold is common; white space is
    common where it stands between two common words and is the same in all.

    Args:
        prompts: prompt text by suite.

    Returns:
        Segments by suite; joined they are the prompt (its last `LONGEST` characters).
    """
    words = {suite: [Word(*pair) for pair in TOKEN.findall(text[-LONGEST:])] for suite, text in prompts.items()}
    if len(words) < 2:
        return {suite: (Segment(text[-LONGEST:], True),) for suite, text in prompts.items()}
    first, *others = words
    partners = {suite: _matches(words[first], words[suite]) for suite in others}
    kept = [index for index in range(len(words[first])) if all(index in partners[suite] for suite in others)]
    places = {first: {index: index for index in kept}}
    places |= {suite: {index: partners[suite][index] for index in kept} for suite in others}
    spaces = {index for index in kept if _same_space(index, words, places)}
    return {
        suite: _segments(
            words[suite],
            {places[suite][index] for index in kept},
            {places[suite][index] for index in spaces},
        )
        for suite in words
    }


def _matches(a: Sequence[Word], b: Sequence[Word]) -> dict[int, int]:
    matcher = SequenceMatcher(None, [word.text for word in a], [word.text for word in b], autojunk=False)
    return {
        block.a + k: block.b + k
        for block in matcher.get_matching_blocks()
        if block.size >= SHORTEST_RUN
        for k in range(block.size)
    }


def _same_space(index: int, words: Mapping[str, Sequence[Word]], places: Mapping[str, Mapping[int, int]]) -> bool:
    if not all(place.get(index - 1) == place[index] - 1 for place in places.values()):
        return False
    return len({words[suite][place[index]].space for suite, place in places.items()}) == 1


def _segments(words: Sequence[Word], common: set[int], common_space: set[int]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for index, word in enumerate(words):
        for text, is_common in ((word.space, index in common_space), (word.text, index in common)):
            if not text:
                continue
            if segments and segments[-1].common == is_common:
                segments[-1] = Segment(segments[-1].text + text, is_common)
            else:
                segments.append(Segment(text, is_common))
    return tuple(segments)
