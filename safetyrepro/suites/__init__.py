"""The suites' own environments, and the processes that run in them."""

from __future__ import annotations

from safetyrepro.suites.environments import Environment, ensure

__all__ = ["Environment", "ensure"]
