"""The pages of `judge meta` and `judge audit`, rendered from their JSON and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from safetyrepro.judge.audit_wording import first_steps, has_verdicts
from safetyrepro.judge.wording import plain as words
from safetyrepro.judge.wording import relation
from safetyrepro.plurals import counted
from safetyrepro.reports import judge_plots
from safetyrepro.reports.templating import environment
from safetyrepro.reports.visible import cleaned, plain

LISTED = 40
"""Discordant pairs per factor that the page shows; the JSON has them all."""
RELATIONS = {
    "with": "goes with it",
    "against": "goes against it",
    "open": "no relation established",
    "undefined": "cannot be told",
}

Entry = Mapping[str, Any]


def render_meta(report: Entry) -> str:
    """The whole page of judge-meta.json as HTML text.

    Every string is escaped by the template engine, with control and bidi characters named; there is no script, no link
    to anything outside the page, and no date, so that the same report gives the same page.
    """
    sections = []
    for name, factor in report["factors"].items():
        scores = report["factor_scores"][name]
        drawn = judge_plots.scatter_figure(name, factor, scores, report) if scores else None
        sections.append(
            {
                "name": name,
                "factor": factor,
                "scatter": _svg(drawn),
                "scores": scores,
                "pairs": factor.get("discordant", [])[:LISTED],
                "influence": sorted(
                    factor.get("leave_one_out", []), key=lambda entry: -abs(entry["pearson_change"] or 0)
                ),
            }
        )
    defined = any(factor["pearson"] is not None for factor in report["factors"].values())
    stages = report["stages"]
    return (
        _environment()
        .get_template("judge_meta.html.jinja")
        .render(
            report=report,
            sections=sections,
            correlations=_svg(judge_plots.correlation_figure(report["factors"]) if defined else None),
            steps=_svg(judge_plots.step_figure(stages["changes"], list(report["factors"])) if stages else None),
        )
    )


def render_audit(report: Entry) -> str:
    """The whole page of judge-audit.json as HTML text, made as `render_meta` makes its own."""
    judges = report["judges"]
    sections = [
        {
            "name": name,
            "judge": judge,
            "anchor": f"j{number}",
            "weights": _svg(judge_plots.weight_figure(judge, number) if judge["weights"] else None),
            "edits": _svg(judge_plots.edit_figure(judge, number) if judge["edits"] else None),
        }
        for number, (name, judge) in enumerate(judges.items())
    ]
    drawn = any(judge["detail"] is not None for judge in judges.values())
    return (
        _environment()
        .get_template("judge_audit.html.jinja")
        .render(
            report=report,
            sections=sections,
            orders=_svg(judge_plots.order_figure(judges) if drawn else None),
            first_steps=first_steps(report),
            has_verdicts=has_verdicts(report),
        )
    )


def _environment() -> jinja2.Environment:
    made = environment(_finalize)
    made.filters.update(
        plain=plain,
        words=words,
        percent=_percent,
        signed=_signed,
        interval=_interval,
        relation=_relation,
        counted=counted,
    )
    made.globals.update(LISTED=LISTED)
    return made


def _svg(figure: str | None) -> Markup | None:
    # The SVG is matplotlib's, which escapes its labels; nothing else enters the page unescaped.
    return None if figure is None else Markup(figure)  # noqa: S704


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else cleaned("" if value is None else value)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"


def _signed(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _interval(ci: Sequence[float] | None, *, percent: bool = False) -> str:
    if ci is None:
        return "–"
    return f"{100 * ci[0]:.0f} to {100 * ci[1]:.0f}%" if percent else f"{ci[0]:+.2f} to {ci[1]:+.2f}"


def _relation(factor: Entry) -> str:
    return RELATIONS[relation(factor)]
