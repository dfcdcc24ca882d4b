"""Reads an `.eval` log: a zip whose members are deflated in early releases and zstd (method 93) in later ones.

The standard library reads the directory of such a zip and not its zstd members, so those are unpacked here. Members are
read whole, one at a time and never to the disk; a name in the archive names nothing but a member.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from safetyrepro.crosspkg.importers.json_stream import MAX_VALUE, decode
from safetyrepro.errors import InputError

ZSTD = 93
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


def is_archive(path: Path) -> bool:
    """Whether a file is a zip, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


class Archive:
    """An open `.eval` log."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: cut short or no .eval archive ({error}).") from None
        self._path = path
        self._members: Mapping[str, zipfile.ZipInfo] = {info.filename: info for info in self._zip.infolist()}

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, in the archive's order."""
        return tuple(self._members)

    def packed(self, name: str) -> int:
        """Bytes of a member as it lies in the archive."""
        return self._members[name].compress_size

    def unpacked(self, name: str) -> int:
        """Bytes of a member as the archive's directory says."""
        return self._members[name].file_size

    def json(self, name: str) -> Any:
        """A member's JSON value.

        Raises:
            InputError: damaged, encrypted, packed in an unknown way, larger than `MAX_VALUE`, or no JSON.
        """
        info = self._members[name]
        where = f"member {name[:120]!r}"
        try:
            data = self._zstd(info) if info.compress_type == ZSTD else self._stored(info)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self._path}, {where}: damaged or packed in an unknown way ({error}).") from None
        if len(data) > MAX_VALUE:
            raise InputError(f"{self._path}, {where}: unpacks to more than {MAX_VALUE >> 20} MB.")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{self._path}, {where}: byte {error.start + 1} is no UTF-8.") from None
        return decode(text, self._path, where)

    def _stored(self, info: zipfile.ZipInfo) -> bytes:
        with self._zip.open(info) as member:
            return member.read(MAX_VALUE + 1)

    def _zstd(self, info: zipfile.ZipInfo) -> bytes:
        import zstandard

        if info.flag_bits & 1:
            raise RuntimeError("encrypted")
        with self._path.open("rb") as stream:
            stream.seek(info.header_offset)
            header = stream.read(_LOCAL_HEADER.size)
            if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
                raise zipfile.BadZipFile("no member where the directory says")
            *_, name_length, extra_length = _LOCAL_HEADER.unpack(header)
            stream.seek(name_length + extra_length, io.SEEK_CUR)
            packed = stream.read(info.compress_size)
        try:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                io.BytesIO(packed), read_across_frames=True
            ) as reader:
                data = reader.read(MAX_VALUE + 1)
        except zstandard.ZstdError as error:
            raise zipfile.BadZipFile(str(error)) from None
        if len(data) <= MAX_VALUE and zlib.crc32(data) != info.CRC:
            raise zipfile.BadZipFile("its checksum is another")
        return data
