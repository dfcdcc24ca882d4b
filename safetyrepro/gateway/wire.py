"""The wire log: one JSON line for every request that a suite made, with what the model really saw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.errors import InputError


@dataclass(frozen=True)
class Seen:
    """One prompt of a request as the model saw it (a completions request may hold several)."""

    ids: tuple[int, ...] | None
    """Token ids after templating and BOS; None where an upstream does not tell."""
    text: str | None
    """The same with special tokens visible."""


@dataclass(frozen=True)
class WireRow:
    """One request and its response."""

    wire_id: str
    """`<run>-<number>`, unique in a run, in order of arrival."""
    run: str
    path: str
    """Path below the run's URL, such as `/v1/completions`."""
    request: dict[str, Any]
    seen: tuple[Seen, ...]
    response: dict[str, Any] | None
    status: int
    headers: dict[str, str]
    """Join keys only, such as `x-irid`; never credentials."""
    started: float
    """Unix time in seconds."""
    seconds: float
    memo: bool
    """Whether every result came from the memo."""

    def to_json(self) -> str:
        """The row as one line of JSON."""
        body = {
            "wire_id": self.wire_id,
            "run": self.run,
            "path": self.path,
            "request": self.request,
            "seen": [{"ids": None if s.ids is None else list(s.ids), "text": s.text} for s in self.seen],
            "response": self.response,
            "status": self.status,
            "headers": self.headers,
            "started": self.started,
            "seconds": self.seconds,
            "memo": self.memo,
        }
        return json.dumps(body, ensure_ascii=False, allow_nan=False)


def read_wire(path: Path) -> Iterator[WireRow]:
    """Read a wire log, row by row; a last line cut by a kill is left out.

    Raises:
        InputError: a line that is not the last one is no wire row.
    """
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith("\n"):
                return
            try:
                body = json.loads(line)
                seen = tuple(Seen(None if s["ids"] is None else tuple(s["ids"]), s["text"]) for s in body.pop("seen"))
                yield WireRow(seen=seen, **body)
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}, line {number}: not a wire row ({error}); run the cell again.") from None
