"""Whether the suites' own tasks differ, and whether the positive control holds, for one config and model each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE, holm
from safetyrepro.crosspkg.words import Report

ALPHA = 0.05
SUM_TOLERANCE = 1e-3
"""Nats: the matched arm's sums are called equal up to this."""


@dataclass(frozen=True)
class Headline:
    """The suites' own tasks for one config and model, against what equal suites would show."""

    entry: Mapping[str, Any]
    arm: str
    spread: Mapping[str, Any]
    points: float
    adjusted_p: float
    """Holm over all configs and models of the report."""

    @property
    def inside(self) -> Mapping[str, Any] | None:
        """What the suites differ from themselves, where their spread is no larger; else None."""
        within: Mapping[str, Any] | None = self.spread["within"]
        return within if within is not None and within["inside"] else None

    @property
    def established(self) -> bool:
        """Whether the suites differ beyond what equal suites, and their own repeats, would show, after correction."""
        return self.adjusted_p <= ALPHA + TOLERANCE and self.inside is None


def headlines(report: Report) -> list[Headline]:
    """One headline per config and model whose suites' own tasks can be compared, in report order."""
    rows = []
    for entry in report:
        arm = next((arm for arm in ("nominal", "shipped") if _has_spread(entry, arm)), None)
        if arm is not None:
            rows.append((entry, arm, entry["arms"][arm]["spread"]))
    adjusted = holm([spread["p"] for _, _, spread in rows])
    return [
        Headline(entry, arm, spread, entry["arms"][arm]["spread_points"], p)
        for (entry, arm, spread), p in zip(rows, adjusted, strict=True)
    ]


def matched_agrees(entry: Mapping[str, Any]) -> bool | None:
    """Whether the matched arm sent identical tokens and chose alike; None where fewer than two runners ended it."""
    arm = entry["arms"].get("matched")
    if arm is None or len(arm["suites"]) < 2:
        return None
    wire = arm["wire"]
    difference = wire["max_logprob_difference"]
    return bool(
        0 < wire["sequences"] == wire["identical_ids"]
        and 0 < wire["items"] == wire["same_choices"]
        and (difference is None or difference <= SUM_TOLERANCE)
        and arm["spread_points"] is not None
        and arm["spread_points"] <= TOLERANCE
    )


def _has_spread(entry: Mapping[str, Any], arm: str) -> bool:
    return arm in entry["arms"] and entry["arms"][arm]["spread"] is not None
