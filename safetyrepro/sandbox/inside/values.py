"""Values that cross between the code and its tests: plain data by value, everything else by a name or a number.

A message is one line of JSON. Nothing that arrives is executed: a value is rebuilt from its kind alone, so that the
code cannot send an object whose `==` says yes to everything.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, BinaryIO

LONGEST = 4 << 20
"""Bytes of a message."""
MOST = 100_000
"""Elements that are taken from an iterator."""


class Reference:
    """Something that stays on the code's side: a global by name, an object by number."""

    def __init__(self, key: str | int) -> None:
        self.key = key


class Untransferable(Exception):
    """A value that cannot cross; the message says why."""


def encode(value: object, keep: Callable[[object], object]) -> Any:
    """JSON for a value.

    Args:
        value: any object.
        keep: called with an object that is no plain data; gives what stands for it, a JSON value.

    Raises:
        Untransferable: it is nested too deep.
    """
    try:
        return _encode(value, keep)
    except RecursionError:
        raise Untransferable("the value is nested too deep") from None


def decode(body: Any, find: Callable[[Any], object]) -> Any:
    """The value of what `encode` gave; `find` gives the object for what `keep` had put in its place."""
    if not isinstance(body, list):
        return body
    kind, content = body
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decode(part, find) for part in content)
    if kind == "dict":
        return {decode(key, find): decode(value, find) for key, value in content}
    if kind in _TEXTS:
        return _TEXTS[kind](content)
    if kind == "complex":
        return complex(*content)
    if kind == "range":
        return range(*content)
    return find(content)


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one message.

    Raises:
        Untransferable: it is longer than `LONGEST`.
    """
    line = json.dumps(message).encode("ascii")
    if len(line) >= LONGEST:
        raise Untransferable(f"a value of {len(line) >> 20} MB is too large to be handed over")
    stream.write(line + b"\n")
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None where the other side has ended or writes something else."""
    line = stream.readline(LONGEST + 1)
    if not line.endswith(b"\n"):
        return None
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _encode(value: object, keep: Callable[[object], object]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    # By the base type's own methods: a subclass could answer anything.
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        return ["complex", [value.real, value.imag]]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes" if isinstance(value, bytes) else "bytearray", bytes(value).hex()]
    if isinstance(value, (Fraction, Decimal)):
        return ["Fraction" if isinstance(value, Fraction) else "Decimal", str(value)]
    if isinstance(value, range):
        return ["range", [value.start, value.stop, value.step]]
    if isinstance(value, dict):
        return ["dict", [[_encode(key, keep), _encode(item, keep)] for key, item in dict.items(value)]]
    for name, sequence in _COLLECTIONS:
        if isinstance(value, sequence):
            return [name, [_encode(part, keep) for part in sequence.__iter__(value)]]
    if isinstance(value, Iterator):
        parts = list(islice(value, MOST + 1))
        if len(parts) > MOST:
            raise Untransferable(f"an iterator of more than {MOST} elements is too long to be handed over")
        return ["iterator", [_encode(part, keep) for part in parts]]
    return ["kept", keep(value)]


_COLLECTIONS: tuple[tuple[str, Any], ...] = (
    ("list", list),
    ("tuple", tuple),
    ("set", set),
    ("frozenset", frozenset),
    ("deque", deque),
)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    **dict(_COLLECTIONS),
    "iterator": lambda parts: iter(list(parts)),
}
_TEXTS: dict[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "Fraction": Fraction,
    "Decimal": Decimal,
}
