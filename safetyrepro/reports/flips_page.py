"""The pages of a flip report and of a comparison of signals, rendered from their JSON and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from safetyrepro.analysis.flips.added_value import FEWEST_FLIPS
from safetyrepro.analysis.flips.signals import kind_of
from safetyrepro.flips.finding import (
    churn_sentence,
    entries_of,
    gate_sentence,
    headline,
    next_steps,
    p_text,
    percent,
    signal_sentences,
    stability_sentence,
    summary_sentences,
)
from safetyrepro.plurals import counted
from safetyrepro.reports import flips_plots
from safetyrepro.reports.templating import environment
from safetyrepro.reports.visible import LONGEST, cleaned, cut, plain

LISTED = 40
"""Flipped items of each kind and configuration that the page shows; flips.json has them all."""
LISTED_GROUPS = 40
PROMPT_SHOWN = 1_500

Entry = Mapping[str, Any]


def render_flips(body: Entry) -> str:
    """The whole page of flips.json or signals.json as HTML text.

    Every string is escaped by the template engine, with control and bidi characters named; there is no script, no
    link to anything outside the page, and no date, so that the same JSON gives the same page.
    """
    made = environment(_finalize)
    made.filters.update(
        counted=counted, percent=percent, plain=plain, signed=_signed, between=_between, p_text=p_text, title_of=_title
    )
    made.globals.update(cut=cut, LONGEST=LONGEST, PROMPT_SHOWN=PROMPT_SHOWN)
    if "updates" in body:
        return made.get_template("signals.html.jinja").render(
            summaries=summary_sentences(body["summary"]),
            summary=body["summary"],
            sections=[_section(entry, number) for number, entry in enumerate(body["updates"])],
            method=body["method"],
        )
    entries = entries_of(body)
    return made.get_template("flips.html.jinja").render(
        body=body,
        headline=headline(body),
        gates=[
            (gate, gate_sentence(gate, entry["config"] if len(entries) > 1 else ""))
            for entry in entries
            for gate in entry["gates"]
        ],
        stability=[stability_sentence(part) for part in body["stability"]],
        summaries=summary_sentences(body.get("summary", {})),
        steps=next_steps(body),
        rates=Markup(flips_plots.rate_figure(entries)) if len(entries) > 1 else None,  # noqa: S704
        left_out_rows=max(0, len(entries) - flips_plots.ROWS),
        sections=[
            _section(entry, number)
            | _items(entry)
            | {"undefined": [row for row in body.get("undefined", []) if row["task"] == entry["benchmark"]]}
            for number, entry in enumerate(entries)
        ],
    )


def _section(entry: Entry, number: int) -> dict[str, Any]:
    drawn = any(values["added_value"] is not None for row in entry["signals"] for values in (row, row["label_free"]))
    routed = entry["fallback"] is not None and entry["fallback"]["flips"] >= FEWEST_FLIPS
    # The SVG is matplotlib's, which escapes its labels; nothing else enters the page unescaped.
    return {
        "entry": entry,
        "anchor": f"c{number}",
        "churn": churn_sentence(entry) if "churn" in entry else None,
        "verdicts": signal_sentences(entry),
        "added": Markup(flips_plots.added_figure(entry, number)) if drawn else None,  # noqa: S704
        "routing": Markup(flips_plots.routing_figure(entry, number)) if routed else None,  # noqa: S704
        "judged": any(row["auroc"] is not None or row["label_free"]["auroc"] is not None for row in entry["signals"]),
    }


def _items(entry: Entry) -> dict[str, Any]:
    kinds = {kind: [row for row in entry["flips"] if row["kind"] == kind] for kind in ("negative", "positive")}
    return {
        "flips": {kind: rows[:LISTED] for kind, rows in kinds.items()},
        "totals": {kind: len(rows) for kind, rows in kinds.items()},
        "groups": entry["groups"][:LISTED_GROUPS],
    }


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else cleaned("" if value is None else value)


def _signed(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _between(ci: Sequence[float] | None, digits: int = 3) -> str:
    return "" if ci is None else f"{ci[0]:+.{digits}f} to {ci[1]:+.{digits}f}"


def _title(signal: str) -> str:
    return kind_of(signal).title
