"""HELM 0.5 (https://github.com/stanford-crfm/helm)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Absent, Adapter, Cell, Job

if TYPE_CHECKING:
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record

__all__ = ["adapter"]

_FOLDER = Path(__file__).parent


class Helm:
    """The adapter of HELM."""

    name = "helm"
    runner = _FOLDER / "runner.py"
    lock: Path | None = _FOLDER / "suite.lock"

    def translate(self, cell: Cell) -> Job | Absent:
        """The job of a cell, or why there is none."""
        from safetyrepro.adapters.helm.translate import translate

        return translate(cell)

    def normalise(self, cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
        """Records of a finished run, one an item, in item order.

        Raises:
            SuiteFailure: the native output is incomplete or unreadable, naming the file.
        """
        from safetyrepro.adapters.helm.normalise import normalise

        return normalise(cell, out_dir, wire)


adapter: Adapter = Helm()
