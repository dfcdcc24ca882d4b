"""Logs of lm-evaluation-harness: results and samples files of any release since 0.3."""

from __future__ import annotations

from safetyrepro.crosspkg.importers.lm_eval.runs import find_runs

__all__ = ["find_runs"]
