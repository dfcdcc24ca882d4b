"""Appends rows to a wire log, in order of arrival, whatever the order in which requests finish."""

from __future__ import annotations

import threading
from pathlib import Path

from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import WireRow
from safetyrepro.unicode import encoded


class WireWriter:
    """The wire log of one run: a new file, every row flushed as soon as all earlier ones are in."""

    def __init__(self, path: Path) -> None:
        """Start the log; a log of an earlier try at the same path is replaced.

        Raises:
            InputError: the file cannot be written.
        """
        self._lock = threading.Lock()
        self._next = 1
        self._early: dict[int, bytes] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("wb")
        except OSError as error:
            raise InputError(f"Wire log {path} cannot be written ({error.strerror}): name another file.") from None

    def append(self, number: int, row: WireRow) -> None:
        """Add the row of request `number` (the first is 1)."""
        line = encoded(row.to_json()) + b"\n"
        with self._lock:
            self._early[number] = line
            while self._next in self._early:
                self._stream.write(self._early.pop(self._next))
                self._next += 1
            self._stream.flush()

    def close(self) -> None:
        """Close the file; rows that still wait for an earlier one are written first."""
        with self._lock:
            for number in sorted(self._early):
                self._stream.write(self._early[number])
            self._early.clear()
            self._stream.close()
