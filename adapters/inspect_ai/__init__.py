"""Inspect AI with the tasks of inspect_evals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Absent, Adapter, Cell, Job
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record

_HERE = Path(__file__).resolve().parent


class InspectAI:
    """The adapter of Inspect AI (see `safetyrepro.adapters.base.Adapter`)."""

    name = "inspect_ai"
    runner = _HERE / "runner.py"
    lock: Path | None = _HERE / "suite.lock"

    def translate(self, cell: Cell) -> Job | Absent:
        """The job of a cell, or why there is none."""
        from safetyrepro.adapters.inspect_ai.translate import translate

        return translate(cell)

    def normalise(self, cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
        """Records from `log.json` and the wire log.

        Raises:
            SuiteFailure: the log is missing, cut short or inconsistent; the message names the file.
        """
        from safetyrepro.adapters.inspect_ai.normalise import normalise

        return normalise(cell, out_dir, wire)


adapter: Adapter = InspectAI()
