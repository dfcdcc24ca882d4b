"""Logs of Inspect AI: `.eval` archives and `.json` files, of any release."""

from __future__ import annotations

from safetyrepro.crosspkg.importers.inspect_ai.runs import find_runs

__all__ = ["find_runs"]
