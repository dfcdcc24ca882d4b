"""Run folders of HELM, of any release that wrote scenario_state.json or display_predictions.json."""

from __future__ import annotations

from safetyrepro.crosspkg.importers.helm.runs import find_runs

__all__ = ["find_runs"]
