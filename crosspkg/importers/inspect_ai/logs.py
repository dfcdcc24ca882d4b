"""A log's header, and its samples one at a time, from an archive or from JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from safetyrepro.crosspkg.importers.inspect_ai.archive import Archive, is_archive
from safetyrepro.crosspkg.importers.json_stream import MAX_VALUE, JsonStream
from safetyrepro.crosspkg.importers.reading import Advance, opened
from safetyrepro.crosspkg.importers.values import mapping, sequence
from safetyrepro.errors import InputError

_HEADER = frozenset({"version", "status", "eval", "plan", "results", "error", "invalidated"})
_STATES = frozenset({"version", "status"})
_CHUNK = re.compile(r"(\d+)\.json$")
Sample = dict[str, Any]


class Log(Protocol):
    """A log whose header has been read."""

    path: Path
    header: dict[str, Any]
    size: int
    """Bytes that reading its samples takes in."""

    def samples(self, advance: Advance) -> Iterator[Sample]:
        """The samples, in the log's order."""
        ...


def open_log(path: Path) -> Log | None:
    """The log at `path`, its header read; None where it is JSON of another kind.

    Raises:
        InputError: it is damaged or empty.
    """
    if path.stat().st_size and is_archive(path):
        return ArchiveLog(path)
    return JsonLog.of(path)


class ArchiveLog:
    """An `.eval` archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with Archive(path) as archive:
            names = archive.names
            if "header.json" in names:
                self.header = mapping(archive.json("header.json"))
            elif "_journal/start.json" in names:
                # A run that never ended has left its start only.
                self.header = {"status": "started", **mapping(archive.json("_journal/start.json"))}
            else:
                raise InputError(f"{path}: a zip without header.json, so no log of Inspect AI.")
            self.size = sum(archive.packed(name) for name in names if name.startswith("samples/"))
        _check(self.header, path)

    def samples(self, advance: Advance) -> Iterator[Sample]:
        """The samples, in the archive's order."""
        with Archive(self.path) as archive:
            for name in archive.names:
                if not name.startswith("samples/") or not name.endswith(".json"):
                    continue
                if name.count("/") == 1:
                    sample = archive.json(name)
                    advance(archive.packed(name))
                elif name.endswith("/sample.json") and name.count("/") == 2:
                    sample = _in_chunks(archive, name, advance)
                else:
                    continue
                yield _sample(sample, self.path, name)


def _in_chunks(archive: Archive, name: str, advance: Advance) -> Any:
    """A large sample, which later releases lay out in parts; its transcript is left out where it is too large."""
    folder = name.removesuffix("sample.json")
    sample = mapping(archive.json(name))
    parts = [one for one in archive.names if one.startswith(folder)]
    advance(sum(archive.packed(one) for one in parts))
    if sum(archive.unpacked(one) for one in parts) > MAX_VALUE:
        return sample
    pools = {what: _chunks(archive, parts, folder + what) for what in ("messages", "events", "calls", "attachments")}
    return {
        **sample,
        "messages": pools["messages"],
        "events": pools["events"],
        "events_data": {"messages": pools["messages"], "calls": pools["calls"]},
        "attachments": {str(place): text for place, text in enumerate(pools["attachments"])},
    }


def _chunks(archive: Archive, parts: list[str], folder: str) -> list[Any]:
    starts = {name: _CHUNK.search(name.removeprefix(f"{folder}/")) for name in parts if name.startswith(f"{folder}/")}
    ordered = sorted((int(found[1]), name) for name, found in starts.items() if found and found.start() == 0)
    return [value for _, name in ordered for value in sequence(archive.json(name))]


class JsonLog:
    """A log in one JSON file; its header may stand on either side of its samples."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, header
        self.size = path.stat().st_size
        _check(header, path)

    @classmethod
    def of(cls, path: Path) -> JsonLog | None:
        """The log at `path`; None where it is JSON of another kind."""
        header: dict[str, Any] = {}
        with opened(path) as stream:
            values = JsonStream(stream, path)
            if values.peek() != "{":
                return None
            has_samples = False
            for key in values.members():
                if key == "samples" and "eval" in header:
                    break
                if key in _HEADER:
                    header[key] = values.value()
                else:
                    values.skip()
                has_samples = has_samples or key == "samples"
        if "eval" not in header and has_samples and not _STATES.isdisjoint(header):
            # Other programs write logs without saying what was run.
            header["eval"] = {}
        return cls(path, header) if isinstance(header.get("eval"), dict) else None

    def samples(self, advance: Advance) -> Iterator[Sample]:
        """The samples, in the file's order; then the header is whole."""
        with opened(self.path, advance) as stream:
            values = JsonStream(stream, self.path)
            for key in values.members():
                if key == "samples" and values.peek() == "[":
                    for number, sample in enumerate(values.array(), 1):
                        yield _sample(sample, self.path, f"sample {number}")
                elif key in _HEADER:
                    self.header[key] = values.value()
                else:
                    values.skip()


def _check(header: Mapping[str, Any], path: Path) -> None:
    if not isinstance(header.get("eval"), dict):
        raise InputError(f"{path}: its header has no eval, so it is no log of Inspect AI.")


def _sample(value: Any, path: Path, where: str) -> Sample:
    if not isinstance(value, dict) or value.get("id") is None:
        raise InputError(f"{path}, {where}: no sample, which is an object with an id.")
    return value
