"""A run: one suite's requests under a URL, a token and a wire log of their own."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

from safetyrepro.gateway.wire import WireRow
from safetyrepro.gateway.writer import WireWriter


class Run:
    """An open run; made by `Gateway.open_run`."""

    def __init__(self, run_id: str, base_url: str, wire_log: Path, *, memo: bool, repeat: int, token: str) -> None:
        self.run_id = run_id
        self.base_url = base_url
        """Ends in `/v1`."""
        self.wire_log = wire_log
        self.memo = memo
        self.repeat = repeat
        self.token = token
        """Sent as `Authorization: Bearer TOKEN`."""
        self.closing = False
        """Set once the run takes no more requests."""
        self._writer = WireWriter(wire_log)
        self._arrived = 0
        self._finished = 0
        self._change = threading.Condition()

    @property
    def requests(self) -> int:
        """How many requests have been answered and logged so far."""
        return self._finished

    def admits(self, authorization: str) -> bool:
        """Whether a header is `Bearer` and this run's token, compared in constant time."""
        return secrets.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())

    def begin(self) -> int | None:
        """Number a request on arrival, from 1; None where the run is closing."""
        with self._change:
            if self.closing:
                return None
            self._arrived += 1
            return self._arrived

    def finish(self, number: int, row: WireRow) -> None:
        """Log request `number`."""
        try:
            self._writer.append(number, row)
        finally:
            with self._change:
                self._finished += 1
                self._change.notify_all()

    def close(self) -> None:
        """Close the log once every request that arrived is in it; what is not done yet is turned away or given up."""
        with self._change:
            self.closing = True
            self._change.wait_for(lambda: self._finished == self._arrived)
        self._writer.close()
