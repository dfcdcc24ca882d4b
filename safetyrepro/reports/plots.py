"""Figures of an anchor report as inline SVG: scores, spread against its null, order of two models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from safetyrepro.reports.labels import labels
from safetyrepro.reports.svg import as_svg
from safetyrepro.runners import in_order, title

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Okabe and Ito's palette, told apart by people who see colours differently; markers differ as well."""
MARKERS = ("o", "s", "D", "^", "v", "P")
INK, GREY, BAND = "#1f2328", "#6a737d", "#d8dee4"
WIDTH, LEFT, RIGHT = 5.0, 0.235, 0.78
"""Inches of the figure; shares of it where the axes begin and end (numbers stand right of them)."""
ROW, LINE, HEADING = 0.24, 0.18, 0.7
"""Inches of a row and of a legend's line; a heading's height in rows."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,
    "axes.edgecolor": GREY,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": INK,
}

Entry = Mapping[str, Any]


def score_figure(entries: Sequence[Entry]) -> str:
    """Forest plot: a row per arm and suite, a dot with its interval per model, a line at chance.

    Args:
        entries: the report's objects of one config, one per model.
    """
    rows = [(arm, suite) for arm in _arms(entries) for suite in _suites(entries, arm)]
    step = ROW * max(1.4, 0.75 * len(entries))
    name = f"scores-{entries[0]['config_id'][:12]}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        positions = _positions([arm for arm, _ in rows])
        figure, axes = _canvas(positions[-1], step, lines=len(entries) + 1)
        for position, (arm, suite) in zip(positions, rows, strict=True):
            for number, entry in enumerate(entries):
                row = entry["arms"].get(arm, {"suites": {}})["suites"].get(suite)
                if row is None or row["score"] is None:
                    continue
                y = position + _offset(number, len(entries))
                low, high = row["ci"] or (row["score"], row["score"])
                axes.plot([100 * low, 100 * high], [y, y], color=_colour(number), lw=1.8, solid_capstyle="butt")
                axes.plot([100 * row["score"]], [y], _marker(number), color=_colour(number), ms=5.5)
                beside(axes, y, f"{100 * row['score']:.0f}  ({100 * low:.0f}–{100 * high:.0f})", _colour(number))
        chance = 100 * entries[0]["chance"]
        axes.axvline(chance, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.text(chance, -0.55, f"chance {chance:.0f}", ha="center", va="bottom", color=GREY, fontsize=8)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("score, points of 100")
        _labels(axes, positions, [arm for arm, _ in rows], [title(suite) for _, suite in rows])
        _legend(figure, [entry["model"] for entry in entries])
        return as_svg(figure, name)


def spread_figure(entries: Sequence[Entry]) -> str:
    """Spread between suites per model and arm over the range that equal suites would show."""
    rows = [
        (arm, number)
        for arm in _arms(entries)
        for number, entry in enumerate(entries)
        if entry["arms"].get(arm, {}).get("spread") is not None
    ]
    largest = 5.0
    name = f"spread-{entries[0]['config_id'][:12]}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        positions = _positions([arm for arm, _ in rows])
        figure, axes = _canvas(positions[-1], ROW * 1.4, lines=0, left=0.33)
        for y, (arm, number) in zip(positions, rows, strict=True):
            section = entries[number]["arms"][arm]
            spread, points = section["spread"], section["spread_points"]
            axes.barh(y, spread["null_q95"], height=0.62, color=BAND, zorder=0)
            axes.plot([spread["null_mean"]] * 2, [y - 0.31, y + 0.31], color=GREY, lw=1.2)
            axes.plot([points], [y], _marker(number), color=_colour(number), ms=6.5, clip_on=False, zorder=4)
            beside(axes, y, f"{points:.1f}  (≤ {spread['null_q95']:.1f})", _colour(number))
            largest = max(largest, points, spread["null_q95"])
        axes.set_xlim(-0.02 * largest, largest * 1.06)
        axes.set_xlabel("largest minus smallest suite score, points")
        _labels(axes, positions, [arm for arm, _ in rows], [entries[number]["model"] for _, number in rows])
        for label, (_, number) in zip(axes.get_yticklabels(), rows, strict=True):
            label.set(color=_colour(number), fontsize=8)
        return as_svg(figure, name)


def order_figure(entries: Sequence[Entry], number: int) -> str:
    """Paired difference of two models per arm and suite, with intervals that hold for all suites of an arm.

    Args:
        entries: the report's objects of one config, one per model.
        number: which pair of models.
    """
    pairs = {
        arm: entries[0]["arms"][arm]["order"][number]
        for arm in _arms(entries)
        if arm in entries[0]["arms"] and len(entries[0]["arms"][arm]["order"]) > number
    }
    rows = [(arm, suite) for arm, pair in pairs.items() for suite in pair["suites"]]
    first = next(iter(pairs.values()))
    widest = 10.0
    name = f"order{number}-{entries[0]['config_id'][:12]}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        positions = _positions([arm for arm, _ in rows])
        figure, axes = _canvas(positions[-1], ROW * 1.4, lines=2)
        for y, (arm, suite) in zip(positions, rows, strict=True):
            row = pairs[arm]["suites"][suite]
            low, high = row["ci_points"] or (row["difference_points"],) * 2
            told = row["verdict"] != "not told apart"
            colour = INK if told else GREY
            axes.plot([low, high], [y, y], color=colour, lw=1.8, solid_capstyle="butt")
            axes.plot([row["difference_points"]], [y], "o", color=colour, ms=5.5, mfc=colour if told else "white")
            beside(axes, y, f"{row['difference_points']:+.0f}  ({low:+.0f} to {high:+.0f})", colour)
            widest = max(widest, abs(low), abs(high))
        axes.axvline(0, color=GREY, lw=1)
        axes.set_xlim(-widest * 1.05, widest * 1.05)
        axes.set_xlabel("difference of scores, points")
        height, short = figure.get_figheight(), labels((first["a"], first["b"]), 40)
        figure.text(LEFT, 1 - 0.12 / height, f"← {short[first['b']]} ahead", va="center", fontsize=8.5)
        y = 1 - (0.12 + LINE) / height
        figure.text(RIGHT, y, f"{short[first['a']]} ahead →", va="center", ha="right", fontsize=8.5)
        _labels(axes, positions, [arm for arm, _ in rows], [title(suite) for _, suite in rows])
        return as_svg(figure, name)


def _arms(entries: Sequence[Entry]) -> list[str]:
    return [arm for arm in ("shipped", "nominal", "matched") if any(arm in entry["arms"] for entry in entries)]


def _suites(entries: Sequence[Entry], arm: str) -> list[str]:
    return in_order(suite for entry in entries for suite in entry["arms"].get(arm, {"suites": {}})["suites"])


def _positions(arms: Sequence[str]) -> list[float]:
    """Where each row stands: one unit apart, with room for a heading above the first row of every arm."""
    positions: list[float] = []
    for number, arm in enumerate(arms):
        below = positions[-1] + 1 if positions else 0.0
        positions.append(below + (HEADING if number == 0 or arms[number - 1] != arm else 0.0))
    return positions


def _canvas(last: float, step: float, *, lines: int, left: float = LEFT) -> tuple[Figure, Axes]:
    top, bottom = 0.08 + LINE * lines, 0.52
    height = top + bottom + (last + 1) * step
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((left, bottom / height, RIGHT - left, 1 - (top + bottom) / height))
    axes.set_ylim(last + 0.5, -0.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=7)
    axes.grid(axis="x", color="#eceff2", lw=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _labels(axes: Axes, positions: Sequence[float], arms: Sequence[str], names: Sequence[str]) -> None:
    """Name every row, with its arm as a heading above the first one."""
    axes.set_yticks(positions)
    # A suite with its release is the longest name, and the margin is as wide as the others need.
    size = 9 if all(len(name) <= 15 for name in names) else 7.5
    short = labels(names, 22)
    axes.set_yticklabels([short[name] for name in names], fontsize=size)
    for number, (y, arm) in enumerate(zip(positions, arms, strict=True)):
        if number == 0 or arms[number - 1] != arm:
            axes.annotate(
                f"{arm} arm",
                (0, y - 0.5 - HEADING / 2),
                xycoords=("figure fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=8,
                fontweight="bold",
                color=GREY,
                va="center",
                annotation_clip=False,
            )


def beside(axes: Axes, y: float, text: str, colour: str) -> None:
    """Text at the right of the axes, at a height in data units."""
    axes.annotate(
        text,
        (1, y),
        xycoords=("axes fraction", "data"),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        ha="left",
        fontsize=7.5,
        color=colour,
        annotation_clip=False,
    )


def _legend(figure: Figure, models: Sequence[str]) -> None:
    height, short = figure.get_figheight(), labels(models, 48)
    for number, model in enumerate(models):
        y = 1 - (0.12 + LINE * number) / height
        figure.text(LEFT + 0.03, y, short[model], color=_colour(number), va="center", fontweight="bold")
        figure.add_artist(Line2D([LEFT], [y], marker=_marker(number), color=_colour(number), ms=5.5, ls="none"))


def _offset(number: int, models: int) -> float:
    return (number - (models - 1) / 2) * 0.62 / max(2, models)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]
