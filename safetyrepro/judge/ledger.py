"""What a judge run leaves on disk, safe against a kill at any moment.

```
OUT/run.json         the settings that every verdict of the folder shares
OUT/wire.jsonl       every request with its response, the rows of the gateway's wire log; appended to and synced
OUT/verdicts.jsonl   every verdict, appended to and synced after its wire row
OUT/verdicts.csv     the verdict table, written when the run ends
OUT/summary.json     counts, tokens and cost, written when the run ends
```
A response is in the wire log before its verdict is written, so that one whose verdict a kill took is read from there: a
finished verdict is never lost and an answer that has arrived is never paid for again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from filelock import FileLock, Timeout

from safetyrepro.atomic import write_json
from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import Seen, WireRow, read_wire
from safetyrepro.judge.endpoint import PATH, Attempt
from safetyrepro.judge.verdicts import KEY
from safetyrepro.unicode import encoded

RUN, WIRE, VERDICTS, TABLE, SUMMARY = "run.json", "wire.jsonl", "verdicts.jsonl", "verdicts.csv", "summary.json"
WIRE_RUN = "judge"
CALL_HEADER = "x-item"
LOCK = ".lock"


class Ledger:
    """The logs of one run's folder, open for appending; a context manager; used from many threads."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Open the folder, or go on in it.

        Args:
            folder: made where it does not exist.
            settings: what all verdicts of the folder must share.

        Raises:
            InputError: the folder holds a run with other settings or something else, or another process runs in it.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = FileLock(folder / LOCK)
        try:
            self._lock_file.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{folder}: another judge run is under way in it; wait, or name another --out.") from None
        try:
            self._check(settings)
            for name in (SUMMARY, TABLE):
                # Written again when this start ends; after a kill they would speak of an earlier one.
                (folder / name).unlink(missing_ok=True)
            self.rows = {row["call_id"]: row for row in verdict_rows(folder)}
            """The last verdict row of each call so far."""
            self._wire_file, self._verdict_file = (_appending(folder / name) for name in (WIRE, VERDICTS))
            self.wire = list(read_wire(folder / WIRE))
            """What earlier starts sent."""
        except BaseException:
            self._lock_file.release()
            raise
        self._number = max((int(row.wire_id.rpartition("-")[2]) for row in self.wire), default=0)
        self._mutex = threading.Lock()

    def __enter__(self) -> Self:
        """Open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the logs."""
        self._wire_file.close()
        self._verdict_file.close()
        self._lock_file.release()

    def log_attempt(self, call_id: str, request: Mapping[str, Any], attempt: Attempt) -> str:
        """Append a request and what came of it to the wire log; returns its wire id."""
        with self._mutex:
            self._number += 1
            row = WireRow(
                wire_id=f"{WIRE_RUN}-{self._number:06d}",
                run=WIRE_RUN,
                path=f"/v1{PATH}",
                request=dict(request),
                seen=(Seen(_ids(attempt.response), None),),
                response=attempt.response,
                status=attempt.status,
                headers={CALL_HEADER: call_id},
                started=attempt.started,
                seconds=attempt.seconds,
                memo=False,
            )
            _append(self._wire_file, row.to_json())
            return row.wire_id

    def log_verdict(self, row: Mapping[str, Any]) -> None:
        """Append a verdict."""
        with self._mutex:
            _append(self._verdict_file, json.dumps(row, ensure_ascii=False, allow_nan=False))
            self.rows[row["call_id"]] = dict(row)

    def _check(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / RUN
        if not path.exists():
            strange = next((name for name in (WIRE, VERDICTS) if (self.folder / name).exists()), None)
            if strange is not None:
                raise InputError(f"{self.folder}: holds {strange} but no {RUN}: name another --out.")
            write_json(path, dict(settings))
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            assert isinstance(before, dict)
        except (ValueError, AssertionError):
            raise InputError(f"{path}: is no settings of a judge run: name another --out.") from None
        for name, value in settings.items():
            if before.get(name) != value:
                raise InputError(
                    f"{path}: {name} was {json.dumps(before.get(name))[:80]} and is {json.dumps(value)[:80]} now; "
                    "verdicts of one folder share their settings: name another --out."
                )


def verdict_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Rows of the verdict log; a last line cut by a kill is left out.

    Raises:
        InputError: a line that is no verdict row.
    """
    path = folder / VERDICTS
    if not path.exists():
        return
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith("\n"):
                return
            try:
                row = json.loads(line)
                row["call_id"], row["judge"], row["item_id"], row["order"]
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(f"{path}, line {number}: not a verdict row ({error}); remove that line.") from None
            yield row


def table_rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The verdict log as a table: the last row of each call, with its place."""
    last: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
    for number, row in enumerate(verdict_rows(folder), 1):
        last[tuple(row.get(name) for name in KEY)] = (f"line {number}", row)
    yield from last.values()


def _appending(path: Path) -> BinaryIO:
    """The file open for appending, with a last line that a kill cut taken off."""
    stream = path.open("ab+")
    stream.seek(0)
    whole = 0
    for line in stream:
        if line.endswith(b"\n"):
            whole += len(line)
    stream.truncate(whole)
    stream.seek(0, os.SEEK_END)
    return stream


def _append(stream: BinaryIO, line: str) -> None:
    stream.write(encoded(line) + b"\n")
    stream.flush()
    os.fsync(stream.fileno())


def _ids(response: Mapping[str, Any] | None) -> tuple[int, ...] | None:
    ids = (response or {}).get("prompt_token_ids")
    return tuple(ids) if isinstance(ids, list) and ids and all(type(token) is int for token in ids) else None
