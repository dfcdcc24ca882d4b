"""Opens log files: plain or gzip, with or without a byte order mark, JSON lines or a JSON array under either name."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from safetyrepro.crosspkg.importers.json_stream import MAX_VALUE, JsonStream, decode
from safetyrepro.errors import InputError

Advance = Callable[[int], None]
"""Told how many bytes of the file (as it lies on the disk) have been read."""
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


class _Watched:
    """A file that says how far it has been read."""

    def __init__(self, stream: IO[bytes], advance: Advance) -> None:
        self._stream, self._advance = stream, advance

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        data = self._stream.read(size)
        self._advance(len(data))
        return data

    def readline(self, size: int = -1) -> bytes:
        """One line, or `size` bytes of it."""
        data = self._stream.readline(size)
        self._advance(len(data))
        return data


def _ignore(_: int) -> None:
    """No one watches."""


@contextmanager
def opened(path: Path, advance: Advance = _ignore) -> Iterator[IO[bytes]]:
    """The bytes of a log file, unpacked where it is gzip by its content, whatever its name.

    Raises:
        InputError: no such file, an empty one, UTF-16, or damaged gzip (also while it is read).
    """
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    with raw:
        head = raw.peek(4)[:4]
        if not head:
            raise InputError(f"{path}: is empty.")
        if head[:2] in _UTF16:
            raise InputError(f"{path}: is UTF-16; write it as UTF-8.")
        watched: Any = _Watched(raw, advance)
        try:
            if head[:2] == _GZIP:
                with gzip.open(watched, "rb") as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield watched
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path}: damaged or cut short gzip ({error}).") from None


def read_object(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object, whole in memory.

    Raises:
        InputError: it holds something else.
    """
    with opened(path) as stream:
        values = JsonStream(stream, path)
        body = values.value()
        if values.peek():
            raise InputError(f"{path}: something stands behind the JSON value; it should be one object.")
    if not isinstance(body, dict):
        raise InputError(f"{path}: holds a JSON {_kind(body)}, it should be an object.")
    return body


def iterate_array(path: Path, advance: Advance = _ignore) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file that holds one JSON array, with the place of each.

    Raises:
        InputError: it holds something else, or an element is no object.
    """
    with opened(path, advance) as stream:
        values = JsonStream(stream, path)
        if values.peek() != "[":
            raise InputError(f"{path}: holds no JSON array.")
        for number, value in enumerate(values.array(), 1):
            yield f"element {number}", _row(value, path, f"element {number}")


def iterate_rows(path: Path, advance: Advance = _ignore) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines or of a JSON array, whatever its name, with the place of each.

    Objects that stand over several lines are read too.

    Raises:
        InputError: naming the place, where there is no whole JSON object.
    """
    with opened(path) as stream:
        first = _content(stream.readline(MAX_VALUE))
    if not first:
        with opened(path) as stream:
            if not JsonStream(stream, path).peek():
                raise InputError(f"{path}: holds no rows.")
    if not _is_object(first):
        yield from _iterate_values(path, advance)
        return
    with opened(path, advance) as stream:
        number = 0
        while line := stream.readline(MAX_VALUE):
            number += 1
            where = f"line {number}"
            if len(line) == MAX_VALUE:
                raise InputError(f"{path}, {where}: is longer than {MAX_VALUE >> 20} MB.")
            text = _text(line, path, where)
            if text.strip():
                yield where, _row(decode(text.strip(), path, where), path, where)


def _iterate_values(path: Path, advance: Advance) -> Iterator[tuple[str, dict[str, Any]]]:
    with opened(path, advance) as stream:
        values = JsonStream(stream, path)
        number = 0
        while start := values.peek():
            for value in values.array() if start == "[" else [values.value()]:
                number += 1
                yield f"row {number}", _row(value, path, f"row {number}")


def _content(line: bytes) -> bytes:
    return line.removeprefix(_BOM).strip()


def _is_object(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    try:
        json.loads(line.decode("utf-8"), strict=False)
    except (ValueError, RecursionError):
        # A single line is cut off, several may belong together.
        return line.endswith(b"}")
    return True


def _text(line: bytes, path: Path, where: str) -> str:
    try:
        return line.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, {where}: byte {error.start + 1} is no UTF-8.") from None


def _row(value: Any, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}, {where}: holds a JSON {_kind(value)}, it should be an object.")
    return value


def _kind(value: Any) -> str:
    names = {list: "array", str: "text", bool: "truth value", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), "object")
