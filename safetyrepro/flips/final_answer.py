r"""The final answer of a worked solution, and whether two of them are the same.

GSM8K's solutions end in `#### 42`, MATH's hold the answer in the last `\boxed{}`. A model that was asked for `Answer:`
may write any of the three.
"""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 100_000
"""Characters of a text that are looked at, from its end."""
_STATED = re.compile(r"(?:\banswer\b[ \t]{0,4}(?:is)?[ \t]{0,4}[:=]?|####)[ \t]{0,8}([^\n]{1,200})", re.IGNORECASE)
_NUMBER = re.compile(r"-?\$?\d[\d,]{0,40}(?:\.\d{1,40})?(?:/\d{1,20})?%?")
_FRACTION = re.compile(r"\\d?frac\{(-?\d{1,20})\}\{(-?\d{1,20})\}")


def final_answer(text: str) -> str:
    r"""What stands after `####`, else in the last `\boxed{}`, else the whole text."""
    if "####" in text:
        return text.rsplit("####", 1)[1].strip()
    return _boxed(text[-LONGEST:]) or text.strip()


def read_answer(text: str) -> str | None:
    r"""The answer that a model's text gives: the last `\boxed{}`, else the last stated one, else the last number."""
    text = text[-LONGEST:]
    boxed = _boxed(text)
    if boxed:
        return boxed
    stated = _STATED.findall(text)
    if stated:
        number = _NUMBER.search(stated[-1])
        return number.group() if number else str(stated[-1]).strip().rstrip(".")
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def same_answer(one: str, other: str) -> bool:
    """Whether two answers are the same number, or the same text but for spaces, `$` and a final stop."""
    a, b = _value(one), _value(other)
    return a == b if a is not None and b is not None else _plain(one) == _plain(other)


def _boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{}` whose braces close."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 1, start + len("\\boxed{")
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[begin:place].strip() or None
    return None


def _value(text: str) -> Fraction | None:
    plain = _FRACTION.sub(r"\1/\2", _plain(text)).replace(",", "").removesuffix("%")
    try:
        return Fraction(plain) if len(plain) <= 60 and "e" not in plain.lower() else None
    except (ValueError, ZeroDivisionError):
        return None


def _plain(text: str) -> str:
    stripped = text.replace("$", "").replace("\\!", "").replace("\\,", "").strip().rstrip(".")
    return re.sub(r"\s+", "", stripped)
