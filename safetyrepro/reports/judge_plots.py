"""Figures of the judge reports: correlations, scatter by factor, training steps, weights, edits, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from safetyrepro.reports.labels import labels
from safetyrepro.reports.plots import BAND, COLOURS, GREY, INK, MARKERS, STYLE, WIDTH, beside
from safetyrepro.reports.svg import as_svg
from safetyrepro.reports.visible import plain

LEFT, RIGHT, ROW = 0.34, 0.76, 0.3
LABELLED = 60
"""Points of a scatter that get a name, those furthest from the middle first; the table has them all."""
LABEL_SIZE = 5.5
STEPS = 40
LONG = 30

Entry = Mapping[str, Any]
_COEFFICIENTS = (
    ("pearson", "ci", "Pearson"),
    ("spearman", "spearman_ci", "Spearman"),
    ("kendall", "kendall_ci", "Kendall"),
)
_SIDES = (
    (0, 5, "center", "bottom"),
    (5, 0, "left", "center"),
    (-5, 0, "right", "center"),
    (0, -5, "center", "top"),
    (4, 4, "left", "bottom"),
    (-4, 4, "right", "bottom"),
    (4, -4, "left", "top"),
    (-4, -4, "right", "top"),
)


def correlation_figure(factors: Mapping[str, Entry]) -> str:
    """Forest plot: the judge's score against each factor, three coefficients with their intervals."""
    rows = [(name, factor) for name, factor in factors.items() if factor["pearson"] is not None]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "correlations"}):
        figure, axes = _forest([_words(name) for name, _ in rows], step=0.55)
        for y, (_, factor) in enumerate(rows):
            for k, (key, interval, title) in enumerate(_COEFFICIENTS):
                at, colour = y + (k - 1) * 0.27, COLOURS[k]
                _bar(axes, at, factor[key], factor[interval], colour, MARKERS[k])
                beside(axes, at, f"{title} {factor[key]:+.2f}", colour)
        axes.axvline(0, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.set_xlim(-1, 1)
        axes.set_xlabel("correlation with the judge's score, over models")
        return as_svg(figure, "correlations")


def scatter_figure(name: str, factor: Entry, scores: Mapping[str, float], report: Entry) -> str:
    """The judge's score against one factor, a point per model with its name."""
    judge = {model: report["judge"]["scores"][model] for model in scores}
    strata = sorted(set(report["strata"].values()))
    short = labels(strata, LONG)
    salt = f"scatter-{list(report['factors']).index(name)}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}):
        figure = Figure(figsize=(WIDTH * 1.25, 4.3))
        axes = figure.add_axes((0.11, 0.13, 0.86, 0.79))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for model, x in scores.items():
            k = strata.index(report["strata"][model]) if model in report["strata"] else len(strata)
            axes.plot([x], [judge[model]], MARKERS[k % len(MARKERS)], color=COLOURS[k % len(COLOURS)], ms=4.5)
        for k, stratum in enumerate(strata):
            axes.plot([], [], MARKERS[k % len(MARKERS)], color=COLOURS[k % len(COLOURS)], ms=4.5, label=short[stratum])
        axes.margins(0.09)
        axes.set_xlabel(f"{_words(name)}, {'z score' if report['z_scored'] else 'mean of its benchmarks (0 to 1)'}")
        axes.set_ylabel(f"judge: {plain(report['judge']['column'], LONG)}")
        title = (
            f"r = {factor['pearson']:+.2f}, rho = {factor['spearman']:+.2f}" if factor["pearson"] is not None else ""
        )
        axes.set_title(title, fontsize=9, loc="left", color=INK)
        if strata:
            axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.6, 1.0), ncols=2, borderpad=0)
        _name_points(figure, axes, scores, judge)
        return as_svg(figure, salt)


def step_figure(changes: Sequence[Entry], factors: Sequence[str]) -> str:
    """Change per training step, in standard deviations over models: the judge's score and every factor."""
    shown = list(changes[:STEPS])
    series = [("judge", [c["judge_sds"] for c in shown])]
    series += [(name, [c["factors_sds"].get(name) for c in shown]) for name in factors]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "steps"}):
        steps = [f"{_initials(c['step'])}: {c['method'] or c['end']}" for c in shown]
        figure, axes = _forest(steps, step=0.42, top=0.45)
        for k, (name, values) in enumerate(series):
            colour = INK if name == "judge" else COLOURS[(k - 1) % len(COLOURS)]
            for y, value in enumerate(values):
                if value is not None:
                    axes.plot(
                        [value], [y + (k - len(series) / 2 + 0.5) * 0.16], MARKERS[k % len(MARKERS)], color=colour, ms=5
                    )
            axes.plot(
                [],
                [],
                MARKERS[k % len(MARKERS)],
                color=colour,
                ms=5,
                label="judge's score" if name == "judge" else _words(name),
            )
        axes.axvline(0, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.set_xlabel("change, standard deviations over models")
        figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8, loc="upper left", ncols=2)
        return as_svg(figure, "steps")


def weight_figure(judge: Entry, number: int) -> str:
    """Forest plot: what the judge's overall mark goes with."""
    rows = [(name, weight) for name, weight in judge["weights"].items() if weight["estimate"] is not None]
    rows.sort(key=lambda row: -row[1]["estimate"])
    name = f"weights{number}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _forest([factor for factor, _ in rows])
        for y, (_, weight) in enumerate(rows):
            low = weight["ci"][0] if weight["ci"] else None
            colour = COLOURS[0] if low is not None and (low > 0 or weight["ci"][1] < 0) else GREY
            _bar(axes, y, weight["estimate"], weight["ci"], colour, "o")
            beside(axes, y, _with_interval(weight["estimate"], weight["ci"]), colour)
        axes.axvline(0, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.set_xlabel("standardised weight in the overall mark")
        return as_svg(figure, name)


def edit_figure(judge: Entry, number: int) -> str:
    """Forest plot: change of the overall mark (or of the win, without marks) by targeted edit."""
    marks = any(edit["overall"]["mean"] is not None for edit in judge["edits"].values())
    key = "overall" if marks else "win"
    rows = [(name, edit[key]) for name, edit in judge["edits"].items() if edit[key]["mean"] is not None]
    name = f"edits{number}"
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure, axes = _forest([edit for edit, _ in rows])
        for y, (_, change) in enumerate(rows):
            colour = COLOURS[1] if change["established"] else GREY
            _bar(axes, y, change["mean"], change["ci"], colour, "s")
            beside(axes, y, _with_interval(change["mean"], change["ci"]), colour)
        axes.axvline(0, color=GREY, lw=1, ls=(0, (4, 3)))
        axes.set_xlabel(
            "change of the overall mark (1 to 5), edited minus original" if marks else "change of the share of wins"
        )
        return as_svg(figure, name)


def order_figure(judges: Mapping[str, Entry]) -> str:
    """Stacked bars: of all comparisons, the same both times, a tie in one order, flipped, not readable in both."""
    rows = [(name, judge["detail"]) for name, judge in judges.items() if judge["detail"] is not None]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "orders"}):
        figure, axes = _forest([name for name, _ in rows], top=0.4)
        kinds = ("same in both orders", "tie in one order", "flipped", "no verdict in both")
        fills = (COLOURS[2], COLOURS[4], COLOURS[1], BAND)
        for y, (_, detail) in enumerate(rows):
            whole = max(detail["comparisons"], 1)
            counts = [detail["consistency"]["count"], detail["tie_in_one_order"], detail["flips"]["count"]]
            counts.append(detail["comparisons"] - detail["flips"]["of"])
            left = 0.0
            for kind, fill, count in zip(kinds, fills, counts, strict=True):
                share = 100 * count / whole
                axes.barh(y, share, left=left, height=0.6, color=fill, label=kind if y == 0 else None)
                left += share
            beside(axes, y, f"{detail['flips']['count']} of {detail['flips']['of']} flip", INK)
        axes.set_xlim(0, 100)
        axes.set_xlabel("comparisons, %")
        figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8, loc="upper left", ncols=2)
        return as_svg(figure, "orders")


def _forest(names: Sequence[str], *, step: float = ROW, top: float = 0.08) -> tuple[Figure, Axes]:
    bottom = 0.52
    height = top + bottom + step * max(len(names), 1)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((LEFT, bottom / height, RIGHT - LEFT, 1 - (top + bottom) / height))
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=7)
    axes.grid(axis="x", color="#eceff2", lw=0.8)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(names)))
    short = labels(names, 24)
    axes.set_yticklabels([short[name] for name in names])
    return figure, axes


def _bar(axes: Axes, y: float, value: float, ci: Sequence[float] | None, colour: str, marker: str) -> None:
    if ci is not None:
        axes.plot(list(ci), [y, y], color=colour, lw=1.8, solid_capstyle="butt")
    axes.plot([value], [y], marker, color=colour, ms=5)


def _name_points(figure: Figure, axes: Axes, x: Mapping[str, float], y: Mapping[str, float]) -> None:
    """Names beside points, wherever one fits without covering another; those furthest out are placed first."""
    figure.draw_without_rendering()
    to_pixels = axes.transData.transform
    middle = to_pixels((sum(x.values()) / len(x), sum(y.values()) / len(y)))
    points = {model: to_pixels((x[model], y[model])) for model in x}
    ordered = sorted(x, key=lambda m: -sum((points[m] - middle) ** 2))[:LABELLED]
    scale = figure.dpi / 72
    frame = axes.get_window_extent()
    taken = [(px - 3 * scale, py - 3 * scale, px + 3 * scale, py + 3 * scale) for px, py in points.values()]
    short = labels(ordered, LONG)
    for model in ordered:
        text = short[model]
        width, height = 0.56 * LABEL_SIZE * len(text) * scale, LABEL_SIZE * 1.15 * scale
        px, py = points[model]
        for dx, dy, across, along in _SIDES:
            x0 = px + dx * scale - {"left": 0.0, "center": width / 2, "right": width}[across]
            y0 = py + dy * scale - {"bottom": 0.0, "center": height / 2, "top": height}[along]
            box = (x0, y0, x0 + width, y0 + height)
            inside = frame.x0 - 20 <= box[0] and box[2] <= frame.x1 + 12 and frame.y0 <= box[1] and box[3] <= frame.y1
            if inside and not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
                taken.append(box)
                axes.annotate(
                    text, (x[model], y[model]), xytext=(dx, dy), textcoords="offset points", ha=across, va=along,
                    fontsize=LABEL_SIZE, color=GREY,
                )  # fmt: skip
                break


def _with_interval(value: float, ci: Sequence[float] | None) -> str:
    return f"{value:+.2f}" if ci is None else f"{value:+.2f}  ({ci[0]:+.2f}, {ci[1]:+.2f})"


def _initials(step: str) -> str:
    """`supervised fine-tuning` as SFT."""
    return "".join(word[0] for word in step.replace("-", " ").split()).upper()


def _words(name: str) -> str:
    return plain(name.replace("_", " "), LONG)
