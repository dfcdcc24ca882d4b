"""Figures of a flip report: rates by configuration, added value of signals, routing curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safetyrepro.analysis.flips.signals import kind_of
from safetyrepro.reports.labels import labels
from safetyrepro.reports.plots import BAND, COLOURS, GREY, INK, MARKERS, STYLE, WIDTH, beside
from safetyrepro.reports.svg import as_svg

CURVES = 5
"""Signals whose curves are drawn; the table has them all."""
ROWS = 60
LEFT, RIGHT, ROW = 0.36, 0.76, 0.3

Entry = Mapping[str, Any]


def rate_figure(entries: Sequence[Entry]) -> str:
    """Forest plot: rate of negative flips by configuration, with its interval."""
    shown = list(entries[:ROWS])
    with mpl.rc_context({**STYLE, "svg.hashsalt": "rates"}):
        figure, axes = _forest([entry["config"] for entry in shown], [0] * len(shown))
        for y, entry in enumerate(shown):
            low, high = (100 * end for end in entry["intervals"]["nfr"]["ci"] or (entry["nfr"], entry["nfr"]))
            axes.plot([low, high], [y, y], color=INK, lw=1.8, solid_capstyle="butt")
            axes.plot([100 * entry["nfr"]], [y], "o", color=INK, ms=5.5)
            beside(axes, y, f"{100 * entry['nfr']:.1f}  ({low:.1f}–{high:.1f})", INK)
        axes.set_xlim(left=0)
        axes.set_xlabel("negative flips, % of items")
        return as_svg(figure, "rates")


def added_figure(entry: Entry, number: int) -> str:
    """Forest plot: added AUROC of each signal, on old-correct items (filled) and label-free (hollow)."""
    rows = [
        (row, population, values)
        for row in entry["signals"]
        for population, values in (("old-correct", row), ("label-free", row["label_free"]))
        if values["added_value"] is not None
    ]
    name = f"added{number}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        names = [str(row["signal"]) for row, _, _ in rows]
        figure, axes = _forest(names, [int(population == "label-free") for _, population, _ in rows])
        for y, (_, population, values) in enumerate(rows):
            colour = COLOURS[0] if values["verdict"] == "adds value" else GREY
            low, high = values["added_value_ci"] or (values["added_value"],) * 2
            axes.plot([low, high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
            face = colour if population == "old-correct" else "white"
            axes.plot([values["added_value"]], [y], "o", color=colour, ms=5.5, mfc=face)
            beside(axes, y, f"{values['added_value']:+.3f}  {population}", colour)
        axes.axvline(0, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.set_xlabel("AUROC added to the new model's confidence")
        return as_svg(figure, name)


def routing_figure(entry: Entry, number: int) -> str:
    """Curves: negative flips left against the share of items routed, between oracle and random."""
    routed, name = entry["fallback"], f"routing{number}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, 3.5))
        axes = figure.add_axes((0.12, 0.15, 0.85, 0.82))
        oracle, chance = routed["oracle"], routed["random"]
        axes.fill_between(
            [100 * x for x in chance["fraction"]], [100 * y for y in chance["nfr"]], 0, color=BAND, alpha=0.45, lw=0
        )
        _curve(axes, chance, GREY, "random", ls=(0, (4, 3)))
        _curve(axes, oracle, GREY, "oracle", ls=(0, (1, 2)))
        titles = labels((kind_of(row["signal"]).title for row in routed["signals"][:CURVES]), 40)
        for place, row in enumerate(routed["signals"][:CURVES]):
            colour = COLOURS[place % len(COLOURS)]
            _curve(axes, row["curve"], colour, titles[kind_of(row["signal"]).title], marker=MARKERS[place])
        axes.axhline(100 * routed["target_nfr"], color=INK, lw=0.8)
        axes.text(100, 100 * routed["target_nfr"], "target ", ha="right", va="bottom", fontsize=8, color=INK)
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("items routed to the old model, %")
        axes.set_ylabel("negative flips left, % of items")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
        return as_svg(figure, name)


def _curve(axes: Axes, curve: Entry, colour: str, label: str, **line: Any) -> None:
    x, y = [100 * value for value in curve["fraction"]], [100 * value for value in curve["nfr"]]
    axes.plot(x, y, color=colour, lw=1.6, label=label, ms=4, markevery=max(1, len(x) // 8), **line)


def _forest(names: Sequence[str], second: Sequence[int]) -> tuple[Figure, Axes]:
    """Axes with a row per name; a row that is the second of its name has no label."""
    top, bottom = 0.08, 0.52
    height = top + bottom + ROW * len(names)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((LEFT, bottom / height, RIGHT - LEFT, 1 - (top + bottom) / height))
    axes.set_ylim(len(names) - 0.5, -0.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=7)
    axes.grid(axis="x", color="#eceff2", lw=0.8)
    axes.set_axisbelow(True)
    axes.set_yticks([y for y, skipped in enumerate(second) if not skipped])
    short = labels(names, 26)
    axes.set_yticklabels([short[name] for name, skipped in zip(names, second, strict=True) if not skipped])
    return figure, axes
