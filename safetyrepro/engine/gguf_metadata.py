"""Reads a GGUF file's metadata.

The `gguf` package's reader keeps every string of the vocabulary as an array of its own, which takes half a minute for
a vocabulary of 262,144; this one takes a second. Tensors are left to transformers. Format: the GGUF specification,
versions 2 and 3, little endian.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, Final

from safetyrepro.errors import InputError

_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9


def read_metadata(path: Path) -> dict[str, Any]:
    """The file's key-value pairs: numbers, texts, and lists of them.

    Raises:
        InputError: the file is no GGUF file of version 2 or 3, or is cut short in its metadata.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).pairs()
    except (struct.error, IndexError, OverflowError, MemoryError):
        raise InputError(f"{path}: cut short or damaged in its metadata; fetch the file again.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a GGUF file ({error}).") from None


class _Reader:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def pairs(self) -> dict[str, Any]:
        if self.data[:4] != b"GGUF":
            raise InputError(f"{self.path}: begins with {self.data[:4]!r}, a GGUF file begins with b'GGUF'.")
        self.at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise InputError(f"{self.path}: is GGUF version {version}, versions 2 and 3 (little endian) can be read.")
        self._scalar("Q")
        count = self._scalar("Q")
        return {self._text(): self._value(self._scalar("I")) for _ in range(count)}

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def _text(self) -> str:
        length = self._scalar("Q")
        end = self.at + length
        if end > len(self.data):
            raise IndexError
        raw = self.data[self.at : end]
        self.at = end
        return raw.decode("utf-8", errors="surrogateescape")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            inner, length = self._scalar("I"), self._scalar("Q")
            if length > len(self.data):
                raise IndexError
            if inner in _SCALARS:
                layout = f"<{length}{_SCALARS[inner]}"
                values = list(struct.unpack_from(layout, self.data, self.at))
                self.at += struct.calcsize(layout)
                return values
            return [self._value(inner) for _ in range(length)]
        if kind not in _SCALARS:
            raise InputError(f"{self.path}: holds a metadata value of unknown kind {kind}; fetch the file again.")
        return self._scalar(_SCALARS[kind])
