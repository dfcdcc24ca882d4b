"""The gap between two runners as a waterfall: from the one's score to the other's, a step a component."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safetyrepro.reports.plots import COLOURS, GREY, INK, STYLE
from safetyrepro.reports.svg import as_svg
from safetyrepro.reports.visible import plain
from safetyrepro.runners import title

WIDTH, LEFT, RIGHT, ROW = 5.6, 0.36, 0.74, 0.44
"""Inches of the figure, shares of it where the axes begin and end, inches of a row."""
_LABEL = 30


def waterfall_figure(part: Mapping[str, Any], name: str) -> str:
    """One attribution as inline SVG: from B's score, a step a component and what is not reproduced, to A's.

    Args:
        part: an attribution as report.json holds it.
        name: makes the ids of the drawing its own in the page.
    """
    steps = [(" and ".join(step["components"]), step["points"], step["ci_points"]) for step in part["parts"]]
    steps.append(("not reproduced natively", part["not_reproduced_points"], part["not_reproduced_ci_points"]))
    first, last = title(part["b"]), title(part["a"])
    labels = [first, *(label for label, _, _ in steps), last]
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        height = 0.6 + ROW * len(labels)
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((LEFT, 0.5 / height, RIGHT - LEFT, 1 - 0.6 / height))
        ends = [0.0]
        for row, (_, points, interval) in enumerate(steps, start=1):
            colour = GREY if row == len(steps) else COLOURS[0] if points >= 0 else COLOURS[1]
            axes.barh(row, points, left=ends[-1], height=0.55, color=colour, zorder=2)
            axes.plot([ends[-1]] * 2, [row - 1, row], color=GREY, lw=0.8)
            ends.append(ends[-1] + points)
            between = "" if interval is None else f"  ({interval[0]:+.0f} to {interval[1]:+.0f})"
            _number(axes, row, f"{points:+.1f}{between}")
        axes.plot([ends[-1]] * 2, [len(steps), len(steps) + 1], color=GREY, lw=0.8)
        for row, at in ((0, 0.0), (len(steps) + 1, ends[-1])):
            axes.plot([at, at], [row - 0.3, row + 0.3], color=INK, lw=2.5)
        _number(axes, len(steps) + 1, f"{part['gap_points']:+.1f} in all")
        width = max(1.0, max(ends) - min(ends))
        axes.set_xlim(min(ends) - 0.08 * width, max(ends) + 0.08 * width)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlabel(f"points above {plain(first, 24)}")
        axes.set_yticks(range(len(labels)))
        axes.set_yticklabels([textwrap.fill(plain(label, 90), _LABEL) for label in labels], fontsize=8)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return as_svg(figure, name)


def _number(axes: Axes, row: int, text: str) -> None:
    axes.annotate(
        text,
        (1, row),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        color=INK,
        annotation_clip=False,
    )
