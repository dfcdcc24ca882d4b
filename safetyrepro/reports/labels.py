"""Short labels for figures that never make two names look the same."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from safetyrepro.reports.visible import plain

ELLIPSIS = "…"


def labels(names: Iterable[str], longest: int) -> dict[str, str]:
    """A label of at most `longest` characters for every name, different for different names.

    Tried in this order, each for all names alike: the whole name; without the owner before its last slash; cut in the
    middle, wherever that keeps them apart; without what all of them begin with. What no cut tells apart is numbered.

    Args:
        names: the names in one figure, as they come; hidden characters are named.
        longest: characters that there is room for, 8 or more.
    """
    whole = {name: plain(name, len(name)) for name in dict.fromkeys(names)}
    short = {name: text if " " in text else text.rsplit("/", 1)[-1] or text for name, text in whole.items()}
    for texts in (whole, short):
        if max(map(len, texts.values()), default=0) <= longest and _differ(texts):
            return texts
    for texts in (short, whole, _without_start(whole)):
        cuts = [{name: _middle(text, longest, tail) for name, text in texts.items()} for tail in _tails(longest)]
        apart = [found for found in cuts if _differ(found)]
        if apart:
            return min(apart, key=lambda found: sum(_inside_words(texts[name], found[name]) for name in texts))
    return {
        name: f"{_middle(text, longest - 2 - len(str(number)), 0)} #{number}"
        for number, (name, text) in enumerate(whole.items(), 1)
    }


def _differ(texts: dict[str, str]) -> bool:
    return len(set(texts.values())) == len(texts)


def _without_start(texts: dict[str, str]) -> dict[str, str]:
    start = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts.values(), strict=False)))
    return {name: ELLIPSIS + text[start:] for name, text in texts.items()}


def _tails(longest: int) -> list[int]:
    """How many characters of the end to keep, from about half of the room outwards."""
    middle = longest // 2
    return sorted(range(longest), key=lambda tail: abs(tail - middle))


def _inside_words(text: str, label: str) -> int:
    """How many of a label's two cuts fall inside a word or a number, where `70B` would read `0B`."""
    if label == text:
        return 0
    head, _, tail = label.rpartition(ELLIPSIS)
    after, before = text[len(head) :][:1], text[: len(text) - len(tail)][-1:]
    return (head[-1:].isalnum() and after.isalnum()) + (tail[:1].isalnum() and before.isalnum())


def _middle(text: str, longest: int, tail: int) -> str:
    if len(text) <= longest:
        return text
    head = longest - tail - len(ELLIPSIS)
    return text[:head] + ELLIPSIS + (text[-tail:] if tail else "")
