"""JSON of any size read value by value: one value at a time is in memory, never the file.

Evaluation logs hold bare `NaN` and `Infinity`, which streaming parsers refuse (ijson among them), so values are decoded
by the standard library's decoder, which takes them, from a buffer that grows only as far as the value at hand needs.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from safetyrepro.errors import InputError

CHUNK = 1 << 20
MAX_VALUE = 1 << 28
"""Characters of the largest single value that is read: 256 M."""
_TAIL = 16
"""An error this near the buffer's end may come from a value that goes on behind it."""
_CUT = 2
"""A number this near the buffer's end may go on behind it: `1e-` is read as 1 until a digit follows."""
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False)


def decode(text: str, path: Path, where: str) -> Any:
    """One whole JSON value.

    Raises:
        InputError: naming file and place, where `text` is none.
    """
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, {where}: no whole JSON value ({_reason(error)}).") from None


class JsonStream:
    """The JSON values in a file, in order."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path = stream, path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer, self._at, self._before, self._ended = "", 0, 0, False

    def peek(self) -> str:
        """The next character that is no space, "" at the end of the file."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._grow(CHUNK):
                return ""

    def value(self) -> Any:
        """The next value, whole.

        Raises:
            InputError: no value there, one that is cut off, or one of more than `MAX_VALUE` characters.
        """
        if not self.peek():
            self._wrong("the file ends where a value should be: it is cut short")
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, json.JSONDecodeError) and self._may_go_on(error) and self._grow(self._unread()):
                    continue
                self._wrong(f"no JSON ({_reason(error)})" if not self._ended else f"cut short or no JSON ({error})")
            if isinstance(value, int | float) and end >= len(self._buffer) - _CUT and self._grow(CHUNK):
                continue
            self._at = end
            return value

    def array(self) -> Iterator[Any]:
        """The elements of the array that comes next; none of it stays in memory."""
        self._take("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self._either(",", "]") == "]":
                return

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; the caller takes or skips the value after each."""
        self._take("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                self._wrong("an object's key is no text")
            self._take(":")
            yield key
            if self._either(",", "}") == "}":
                return

    def skip(self) -> None:
        """Leave the next value out, an array element by element."""
        if self.peek() == "[":
            for _ in self.array():
                pass
        else:
            self.value()

    def _take(self, wanted: str) -> None:
        if self.peek() != wanted:
            self._wrong(f"found {self.peek() or 'the end of the file'!r} where {wanted!r} should be")
        self._at += 1

    def _either(self, one: str, other: str) -> str:
        found = self.peek()
        if found not in (one, other) or not found:
            what = repr(found) if found else "the end of the file: it is cut short"
            self._wrong(f"found {what} where {one!r} or {other!r} should be")
        self._at += 1
        return found

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return error.pos >= len(self._buffer) - _TAIL or error.msg.startswith("Unterminated string")

    def _unread(self) -> int:
        return max(CHUNK, len(self._buffer) - self._at)

    def _grow(self, size: int) -> bool:
        """Read about `size` bytes more, and let go of what was taken; False, and no change, at the end of the file."""
        if self._ended:
            return False
        if len(self._buffer) - self._at > MAX_VALUE:
            self._wrong(f"one value is larger than {MAX_VALUE >> 20} MB")
        chunk = self._stream.read(size)
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            self._wrong(f"no UTF-8 (byte {error.object[error.start]:#04x})")
        self._ended = not chunk
        if self._ended:
            return False
        self._before += self._at
        self._buffer, self._at = self._buffer[self._at :] + text, 0
        return True

    def _wrong(self, what: str) -> NoReturn:
        raise InputError(f"{self._path}, at character {self._before + self._at}: {what}.")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
