"""Which rule a runner reads answers by, told from its own outputs and readings.

A log does not hold a suite's parser. Each of a few plain rules is tried on all outputs of a side, and the one that
gives most of its readings back stands for the parser; what it gives back otherwise shows as "not reproduced".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_uppercase

from safetyrepro.benchmarks.extraction import LENIENT, STRICT, extract
from safetyrepro.crosspkg.divergence.pair import value_key
from safetyrepro.crosspkg.sides.exchange import Side

Reader = Callable[[str], str | None]
_COLON = re.compile(r"(?i)answer\s*:\s*([A-Z])(?![A-Za-z])")
_LETTER = re.compile(r"(?<![A-Za-z])([A-Z])(?![A-Za-z])")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")


def _first(pattern: re.Pattern[str]) -> Reader:
    return lambda text: None if (match := pattern.search(text)) is None else match[match.re.groups and 1]


def _last(pattern: re.Pattern[str]) -> Reader:
    return lambda text: next((match[match.re.groups and 1] for match in reversed(list(pattern.finditer(text)))), None)


def _line(text: str) -> str | None:
    return text.strip().partition("\n")[0].strip() or None


READERS: dict[str, Reader] = {
    "strict": lambda text: extract(STRICT, text, len(ascii_uppercase), None).letter,
    "lenient": lambda text: extract(LENIENT, text, len(ascii_uppercase), None).letter,
    "answer with a colon": lambda text: None if (found := _last(_COLON)(text)) is None else found.upper(),
    "first letter": _first(_LETTER),
    "last letter": _last(_LETTER),
    "first number": _first(_NUMBER),
    "last number": _last(_NUMBER),
    "first line": _line,
    "without outer space": lambda text: text.strip() or None,
    "as it stands": lambda text: text or None,
}


def reader_of(side: Side) -> tuple[str, Reader]:
    """The rule that gives most of a side's readings back; the earlier one where two do as well."""
    read = [(e.output, value_key(e.extracted)) for e in side.exchanges.values() if e.output is not None]

    def agreement(name: str) -> int:
        return sum(READERS[name](output) == extracted for output, extracted in read)

    best = max(READERS, key=agreement)
    return best, READERS[best]
