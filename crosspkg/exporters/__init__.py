"""Exporters: records as a score table, and in the Every Eval Ever schema."""

from __future__ import annotations

from safetyrepro.crosspkg.exporters.eee import EeeOptions, export_eee
from safetyrepro.crosspkg.exporters.table import export_table, records_frame

__all__ = ["EeeOptions", "export_eee", "export_table", "records_frame"]
