"""Figures of a grid report: cell heat map, ranks over configurations, bands per pair, variance bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from safetyrepro.reports.labels import labels
from safetyrepro.reports.plots import BAND, COLOURS, GREY, INK, MARKERS, STYLE
from safetyrepro.reports.svg import as_svg

ROWS = 120
"""Configurations that a figure draws."""
NUMBERED = 8
"""Models up to which a heat map writes the score into the cell."""
WIDTH, LEFT, ROW = 5.4, 0.42, 0.17
LEGEND_LINE, IN_A_LINE = 0.16, 3
"""Inches of a line of the legend, and how many models stand in it."""
SHADES = LinearSegmentedColormap.from_list("scores", ["#f7fbff", "#6baed6", "#08306b"])

Summary = Mapping[str, Any]


def heat_figure(summary: Summary, name: str) -> str:
    """Scores by configuration (rows) and model (columns), with a mark where a model cannot be told from a guess."""
    rows, models = summary["configurations"][:ROWS], summary["models"]
    values = np.array([[_score(row, model) for model in models] for row in rows], dtype=np.float64)
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _canvas(len(rows), top=0.55)
        present = values[~np.isnan(values)]
        low, high = (float(present.min()), float(present.max())) if present.size else (0.0, 1.0)
        # Drawn one rectangle a cell: an image would be a bitmap inside the SVG, which blurs in print.
        axes.pcolormesh(
            np.ma.masked_invalid(values), cmap=SHADES, vmin=low, vmax=high + 1e-9, edgecolor="white", lw=0.6
        )
        for y, row in enumerate(rows):
            for x, model in enumerate(models):
                _cell(
                    axes,
                    x,
                    y,
                    row["cells"][model],
                    dark=values[y, x] > (low + high) / 2,
                    numbered=len(models) <= NUMBERED,
                )
        axes.set_xticks(np.arange(len(models)) + 0.5)
        # Rising to the left, over the configurations' names: no label leaves the figure, however long the last one is.
        axes.set_xticklabels(
            labels(models, 22).values(), fontsize=7.5, rotation=-18, ha="right", va="bottom", rotation_mode="anchor"
        )
        axes.xaxis.tick_top()
        _configurations(axes, rows, offset=0.5)
        axes.set_ylim(len(rows), 0)
        return as_svg(figure, name)


def rank_figure(summary: Summary, name: str) -> str:
    """Bump chart: each model's rank over the configurations in which all models have a valid score; ties share one."""
    rows = [
        row for row in summary["configurations"] if row["configuration"] not in summary["dropped"]["configurations"]
    ]
    rows, models = rows[:ROWS], summary["models"]
    short = labels(models, 22)
    named = models[: len(COLOURS)]
    ranks = np.array([_ranks([_score(row, model) for model in models]) for row in rows])
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _canvas(len(rows), top=0.39 + LEGEND_LINE * -(-len(named) // IN_A_LINE))
        steps = np.arange(len(rows)) + 0.5
        for number in range(len(models)):
            nudge = (number - (len(models) - 1) / 2) * 0.07
            axes.plot(
                ranks[:, number] + nudge,
                steps,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                ms=3.4,
                lw=1.5,
            )
        axes.set_xlim(0.6, len(models) + 0.4)
        axes.set_xticks(range(1, len(models) + 1))
        axes.xaxis.tick_top()
        axes.set_xticklabels([f"rank {rank}" for rank in range(1, len(models) + 1)], fontsize=7.5)
        _configurations(axes, rows, offset=0.5)
        axes.set_ylim(len(rows), 0)
        for number, model in enumerate(named):
            line, place = divmod(number, IN_A_LINE)
            figure.text(
                0.01 + place / IN_A_LINE * 0.99,
                1 - (0.13 + LEGEND_LINE * line) / figure.get_figheight(),
                f"{'●■◆▲▼✚'[number]} {short[model]}",
                color=COLOURS[number],
                fontsize=7.5,
                fontweight="bold",
            )
        return as_svg(figure, name)


def band_figure(pair: Mapping[str, Any], by_label: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """Difference of two models by configuration, with bands that hold for all configurations at once.

    Args:
        pair: one entry of `pairs`.
        by_label: the benchmark's configurations by label.
        name: prefix of ids.
    """
    rows = pair["configs"][:ROWS]
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _canvas(len(rows), top=0.5, bottom=0.42)
        widest = 0.05
        for y, row in enumerate(rows):
            verdict = row.get("verdict", "neither")
            colour = {"a": COLOURS[0], "b": COLOURS[1]}.get(verdict, GREY)
            if row.get("band") is not None:
                low, high = row["band"]
                axes.plot([low, high], [y + 0.5] * 2, color=colour if verdict != "neither" else BAND, lw=3)
                widest = max(widest, abs(low), abs(high))
            face = "white" if verdict == "neither" else colour
            axes.plot([row["difference"]], [y + 0.5], "o", color=colour, mfc=face, ms=4)
            widest = max(widest, abs(row["difference"]))
        axes.axvline(0, color=INK, lw=0.9)
        axes.set_xlim(-1.05 * widest, 1.05 * widest)
        axes.set_ylim(len(rows), 0)
        axes.set_xlabel("difference of cell scores", fontsize=8)
        _configurations(axes, [by_label[row["configuration"]] for row in rows], offset=0.5)
        height, short = figure.get_figheight(), labels((pair["a"], pair["b"]), 40)
        figure.text(LEFT, 1 - 0.14 / height, f"← {short[pair['b']]} ahead", color=COLOURS[1], fontsize=8)
        figure.text(0.98, 1 - 0.32 / height, f"{short[pair['a']]} ahead →", color=COLOURS[0], fontsize=8, ha="right")
        return as_svg(figure, name)


def variance_figure(summary: Summary, name: str) -> str:
    """Share of the variance by term, with the part that item noise alone would give."""
    terms = summary["variance"]
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _canvas(len(terms), top=0.12, bottom=0.42, row=0.27)
        for y, term in enumerate(terms):
            main = "model" if term["term"] == "model" else "crossed" if term["term"].startswith("model x") else "other"
            colour = {"model": COLOURS[0], "crossed": COLOURS[1], "other": "#9aa4ae"}[main]
            axes.barh(y + 0.5, 100 * term["share"], height=0.62, color=colour)
            if term["noise"] is not None:
                axes.plot([100 * term["noise"]] * 2, [y + 0.14, y + 0.86], color=INK, lw=1.6)
            df = f", df {term['df']}" if term["df"] else ""
            axes.annotate(
                f"{100 * term['share']:.1f}%{df}",
                # Right of the noise line too, which would run through the figures.
                (100 * max(0.0, term["share"], term["noise"] or 0.0), y + 0.5),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=GREY,
            )
        axes.set_ylim(len(terms), 0)
        axes.set_yticks(np.arange(len(terms)) + 0.5)
        axes.set_yticklabels([term["term"].replace(" x ", " × ") for term in terms])
        axes.set_xlabel("% of the variance between cells", fontsize=8)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0), high * 1.25)
        return as_svg(figure, name)


def _canvas(rows: int, *, top: float, bottom: float = 0.08, row: float = ROW) -> tuple[Figure, Axes]:
    height = top + bottom + max(1, rows) * row
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((LEFT, bottom / height, 0.98 - LEFT, 1 - (top + bottom) / height))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="both", length=0)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="#eceff2", lw=0.7)
    return figure, axes


def _configurations(axes: Axes, rows: Sequence[Mapping[str, Any]], *, offset: float) -> None:
    """Name every row by its axes, with a line where the first of them changes."""
    axes.set_yticks(np.arange(len(rows)) + offset)
    names = [short_label(row) for row in rows]
    short = labels(names, 44)
    axes.set_yticklabels([short[name] for name in names], fontsize=6.3)
    for y in range(1, len(rows)):
        if _first(rows[y]) != _first(rows[y - 1]):
            axes.axhline(y, color=GREY, lw=0.6)


def short_label(row: Mapping[str, Any]) -> str:
    """A configuration by its levels, or by its own id where the table names none."""
    axes = row["axes"]
    if not axes:
        return str(row["configuration"])
    shots = f"{axes['shots']} shots" if "shots" in axes else None
    parts = [axes.get("suite"), axes.get("arm"), axes.get("scoring"), axes.get("template"), axes.get("decoding"), shots]
    return ", ".join(part for part in parts if part)


def _first(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    return row["axes"].get("scoring"), row["axes"].get("template")


def _score(row: Mapping[str, Any], model: str) -> float:
    cell = row["cells"][model]
    return float("nan") if cell is None else float(cell["score"])


def _cell(axes: Axes, x: int, y: int, cell: Mapping[str, Any] | None, *, dark: bool, numbered: bool) -> None:
    if cell is None:
        axes.text(x + 0.5, y + 0.5, "–", ha="center", va="center", fontsize=6.5, color=GREY)
        return
    mark = "*" if "at chance" in cell["flags"] else ""
    if numbered or mark:
        text = f"{cell['score']:.3f}{mark}" if numbered else mark
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=6.3, color="white" if dark else INK)


def _ranks(scores: Sequence[float]) -> list[float]:
    """Rank 1 for the highest; tied models share the mean of their ranks."""
    from scipy import stats

    ranks: list[float] = stats.rankdata([-round(score, 12) for score in scores]).tolist()
    return ranks
