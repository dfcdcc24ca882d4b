"""Importers: logs that a suite wrote elsewhere become records, without the suite being installed.

One folder a suite, each with `find_runs(path, notes)`; `collect.import_logs` does the rest alike for all of them.
"""

from __future__ import annotations

from safetyrepro.crosspkg.importers.collect import SUITES, import_logs
from safetyrepro.crosspkg.importers.summary import Summary, TaskSummary

__all__ = ["SUITES", "Summary", "TaskSummary", "import_logs"]
