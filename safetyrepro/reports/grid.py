"""The page of a grid report: one self-contained HTML file, rendered from grid.json and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from safetyrepro.plurals import counted
from safetyrepro.reports import grid_plots
from safetyrepro.reports.templating import environment
from safetyrepro.reports.visible import cleaned, plain
from safetyrepro.stability.words import headline, next_steps, title, verdict

LISTED_PAIRS = 6
"""Pairs whose bands are drawn, the largest flip rates first; grid.json has them all."""
LISTED_ORDERS = 12

Result = Mapping[str, Any]


def render_grid(result: Result) -> str:
    """The whole page as HTML text.

    Every string is escaped by the template engine, with control and bidi characters named; there is no script, no link
    to anything outside the page, and no date, so that the same result gives the same page.

    Args:
        result: what grid.json holds.
    """
    made = environment(_finalize)
    made.filters.update(counted=counted, two=_two, p=_p, plain=plain, levels=grid_plots.short_label)
    made.globals.update(verdict=verdict, title=title, ORDERS=LISTED_ORDERS)
    return made.get_template("grid.html.jinja").render(
        result=result,
        headline=headline(result),
        steps=next_steps(result),
        sections=[_section(name, summary, f"b{n}") for n, (name, summary) in enumerate(result["benchmarks"].items())],
        method=next(iter(result["benchmarks"].values())),
    )


def _section(name: str, summary: Mapping[str, Any], anchor: str) -> dict[str, Any]:
    by_label = {row["configuration"]: row for row in summary["configurations"]}
    drawn = sorted((pair for pair in summary["pairs"] if pair["configs"]), key=lambda pair: -(pair["rho_flip"] or 0.0))[
        :LISTED_PAIRS
    ]
    ranked = summary["orderings"]["n_configs"]
    # The SVG is matplotlib's, which escapes its labels; nothing else enters the page unescaped.
    return {
        "name": name,
        "anchor": anchor,
        "summary": summary,
        "heat": Markup(grid_plots.heat_figure(summary, f"{anchor}-heat")) if by_label else None,  # noqa: S704
        "ranks": Markup(grid_plots.rank_figure(summary, f"{anchor}-rank"))  # noqa: S704
        if ranked > 1 and len(summary["models"]) > 1
        else None,
        "bands": [
            (pair, Markup(grid_plots.band_figure(pair, by_label, f"{anchor}-band{number}")))  # noqa: S704
            for number, pair in enumerate(drawn)
        ],
        "variance": Markup(grid_plots.variance_figure(summary, f"{anchor}-var"))  # noqa: S704
        if summary["variance"]
        else None,
        "single_draws": _count(summary, lambda cell: bool(cell["single_draw"])),
        "at_chance": _count(summary, lambda cell: "at chance" in cell["flags"]),
        "edges": _count(summary, lambda cell: bool({"floor", "ceiling"} & set(cell["flags"]))),
        "cells": _count(summary, lambda cell: True),  # noqa: ARG005
        "repeated": [
            (row, model, cell)
            for row in summary["configurations"]
            for model, cell in row["cells"].items()
            if cell is not None and cell["repeat_range"] is not None
        ][:LISTED_ORDERS],
        "left_out": sum(pair["items_left_out"] for pair in summary["pairs"]),
    }


def _count(summary: Mapping[str, Any], flagged: Any) -> int:
    cells = [cell for row in summary["configurations"] for cell in row["cells"].values() if cell is not None]
    return sum(bool(flagged(cell)) for cell in cells)


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else cleaned("" if value is None else value)
