"""The ledger: an append-only file of a line a shard, each holding the hash of the line before.

A line is the RFC 8785 canonical JSON of an entry; its `hash` is the SHA-256 of the same without `hash`. The first
entry's `previous` is the seal, so that a ledger belongs to one plan. The head is the last entry's hash.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rfc8785

from safetyrepro.errors import InputError

LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Entry:
    """One finished shard."""

    number: int
    shard: str
    sha256: str
    """Of the shard's file."""
    rows: int
    seal: str
    previous: str
    facts: dict[str, Any]
    """What ran it: model, numerics, machine, time."""
    hash: str

    def holds(self) -> bool:
        """Whether `hash` is that of the rest."""
        return self.hash == entry_hash(_body(self))


def entry_hash(body: dict[str, Any]) -> str:
    """SHA-256 (hex) of an entry without its own hash."""
    return hashlib.sha256(rfc8785.dumps({name: value for name, value in body.items() if name != "hash"})).hexdigest()


def next_entry(entries: list[Entry], seal: str, *, shard: str, sha256: str, rows: int, facts: dict[str, Any]) -> Entry:
    """The entry that follows `entries`."""
    body: dict[str, Any] = {
        "number": len(entries),
        "shard": shard,
        "sha256": sha256,
        "rows": rows,
        "seal": seal,
        "previous": entries[-1].hash if entries else seal,
        "facts": facts,
    }
    return Entry(**body, hash=entry_hash(body))


def append(path: Path, entry: Entry) -> None:
    """Append one line and have it on the disk before going on."""
    with path.open("ab") as stream:
        stream.write(_line(entry))
        stream.flush()
        os.fsync(stream.fileno())


def drop_cut_line(path: Path) -> None:
    """Take off a last line that a kill cut in the middle."""
    if not path.exists():
        return
    with path.open("rb+") as stream:
        content = stream.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            stream.truncate(whole)


def read_lines(path: Path) -> tuple[list[tuple[int, Entry]], list[tuple[int, str]]]:
    """The entries by line number (from 1), and what is wrong with the lines that are none.

    Raises:
        InputError: the file is there and cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    entries: list[tuple[int, Entry]] = []
    problems: list[tuple[int, str]] = []
    *whole, rest = content.split(b"\n")
    for number, line in enumerate(whole, 1):
        try:
            entries.append((number, _parsed(line)))
        except (ValueError, TypeError, RecursionError) as error:
            problems.append((number, f"is no ledger entry ({error})"))
    if rest:
        problems.append((len(whole) + 1, "is cut off: it does not end in a line break"))
    return entries, problems


def _parsed(line: bytes) -> Entry:
    body = json.loads(line)
    if not isinstance(body, dict):
        raise ValueError("not an object")
    entry = Entry(**body)
    texts = (entry.shard, entry.sha256, entry.seal, entry.previous, entry.hash)
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.facts, dict):
        raise ValueError("a field of another type")
    if type(entry.number) is not int or type(entry.rows) is not int:
        raise ValueError("a number that is none")
    if _line(entry) != line + b"\n":
        raise ValueError("not canonical JSON")
    return entry


def _body(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__dataclass_fields__}


def _line(entry: Entry) -> bytes:
    return rfc8785.dumps(_body(entry)) + b"\n"
