"""An item's score from what was read and what is right, where that reproduces the scores a log holds.

A log does not say how it scores. Where "what was read is the right answer" gives every score of both sides back, it is
taken to be the rule, and a cause can be undone by applying it to other readings or other right answers; where it does
not, nothing is re-scored this way.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.sides.exchange import Exchange, Side


def hit(extracted: Any, gold: Any, exchange: Exchange | None = None) -> float | None:
    """1 where what was read is a right answer, 0 where it is not, None where there is no right answer to hold it to.

    A letter is the option or the candidate that it stands for, a number its place from 0.
    """
    golds = gold if isinstance(gold, list) else [gold]
    right = {name for one in golds for name in _names(one, exchange)}
    if not right:
        return None
    return float(bool(right & _names(extracted, exchange)))


def _names(value: Any, exchange: Exchange | None) -> set[str]:
    if value is None or value == "" or isinstance(value, list | dict):
        return set()
    if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer()):
        index = int(value)
        names = {str(index)}
        letters = string.ascii_uppercase
        return names | ({letters[index].casefold()} if 0 <= index < len(letters) else set())
    text = " ".join(str(value).split()).casefold()
    names = {text}
    options = None if exchange is None else exchange.anatomy.options
    if options is not None:
        named = options.text_of(text.upper())
        names |= {" ".join(named.split()).casefold()} if named else set()
    if len(text) == 1 and text.isalpha():
        names.add(str(string.ascii_lowercase.find(text)))
    return names


def reproduces(side: Side) -> bool:
    """Whether `hit` gives every score of a side back."""
    told = 0
    for exchange in side.exchanges.values():
        if exchange.score is None:
            continue
        value = hit(exchange.extracted, exchange.gold, exchange)
        if value is None or abs(value - exchange.score) > TOLERANCE:
            return False
        told += 1
    return told > 0


def rescorer(comparison: Comparison) -> Callable[[Exchange, Any, Any], float | None] | None:
    """A function from (exchange, extracted, gold) to a score; None where no rule reproduces both sides."""
    if reproduces(comparison.a) and reproduces(comparison.b):
        return lambda exchange, extracted, gold: hit(extracted, gold, exchange)
    return None
