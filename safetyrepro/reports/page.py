"""The page of an anchor report: one self-contained HTML file, rendered from report.json and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from safetyrepro.crosspkg.finding import finding
from safetyrepro.crosspkg.headlines import headlines, matched_agrees
from safetyrepro.crosspkg.orders import order_sentences
from safetyrepro.crosspkg.releases import release_sentence
from safetyrepro.crosspkg.starts import ran_sentences
from safetyrepro.crosspkg.steps import next_steps
from safetyrepro.crosspkg.words import TITLES, count_word, subject
from safetyrepro.reports import plots
from safetyrepro.reports.captions import order_captions, score_captions, spread_captions
from safetyrepro.reports.causes import cause_tables
from safetyrepro.reports.templating import environment
from safetyrepro.reports.visible import LONGEST, cleaned, cut, plain, shown
from safetyrepro.runners import title

LISTED = 20
"""Disagreeing items per model and config that the page shows; report.json has them all."""
LISTED_CANDIDATES = 12
PROMPT_SHOWN = 1_200
BOILERPLATE_SHOWN = 6_000

Entry = Mapping[str, Any]


def render_page(report: Sequence[Entry]) -> str:
    """The whole page as HTML text.

    Every string is escaped by the template engine, with control and bidi characters named; there is no script, no
    link to anything outside the page, and no date, so that the same report gives the same page.

    Args:
        report: what report.json holds.
    """
    made = environment(_finalize)
    made.filters.update(
        points=lambda share: f"{100 * share:.1f}",
        name=title,
        plain=plain,
        shown=shown,
        hash=_hash,
        segments=_segments,
    )
    made.globals.update(
        cut=cut,
        ran_sentences=ran_sentences,
        LONGEST=LONGEST,
        PROMPT_SHOWN=PROMPT_SHOWN,
        CANDIDATES=LISTED_CANDIDATES,
        LISTED=LISTED,
    )
    return made.get_template("report.html.jinja").render(
        report=report,
        finding=finding(report),
        orders=order_sentences(report),
        steps=next_steps(report),
        headlines=headlines(report),
        matched_agrees=matched_agrees,
        subject=subject,
        count_word=count_word,
        titles=TITLES,
        sections=[_section(entries) for entries in _by_config(report)],
        redacted=any(entry["redacted"] for entry in report),
    )


def _by_config(report: Sequence[Entry]) -> list[list[Entry]]:
    grouped: dict[str, list[Entry]] = {}
    for entry in report:
        grouped.setdefault(entry["config_id"], []).append(entry)
    return list(grouped.values())


def _section(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the template needs of one config: its objects, figures, captions and folded items."""
    scored = any(row["score"] is not None for e in entries for a in e["arms"].values() for row in a["suites"].values())
    spreads = any(arm["spread"] is not None for entry in entries for arm in entry["arms"].values())
    pairs = max((len(arm["order"]) for arm in entries[0]["arms"].values()), default=0)
    return {
        "first": entries[0],
        "entries": entries,
        "title": subject(entries[0]),
        "anchor": f"c{entries[0]['config_id'][:12]}",
        "repeated": any(
            row["repeats"]["n"] > 1 or row["repeats"]["failed"]
            for e in entries
            for a in e["arms"].values()
            for row in a["suites"].values()
        ),
        "scores": _figure(plots.score_figure(entries), score_captions(entries)) if scored else None,
        "spread": _figure(plots.spread_figure(entries), spread_captions(entries)) if spreads else None,
        "orders": [
            _figure(plots.order_figure(entries, number), order_captions(entries, number))
            for number in range(pairs)
            if any(len(arm["order"]) > number and arm["order"][number]["suites"] for arm in entries[0]["arms"].values())
        ],
        "settings": {arm: _settings(section["settings"]) for arm, section in entries[0]["arms"].items()},
        "causes": cause_tables(entries),
        "items": [_listed(entry) for entry in entries],
        "releases": [
            (entry["model"], arm, pair, release_sentence(pair))
            for entry in entries
            for arm, section in entry["arms"].items()
            for pair in section["releases"]
        ],
        "gaps": [
            (entry["model"], arm, suite, gap)
            for entry in entries
            for arm, section in entry["arms"].items()
            for suite, gap in section["without_result"].items()
        ],
    }


def _figure(svg: str, captions: Sequence[str]) -> dict[str, Any]:
    # The SVG is matplotlib's, which escapes its labels; nothing else enters the page unescaped.
    return {"svg": Markup(svg), "captions": list(captions)}  # noqa: S704


def _settings(by_suite: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Settings as a table: a row per canonical value, a column per suite, rows that some suite leaves first."""
    names: dict[str, None] = {}
    for settings in by_suite.values():
        names.update(dict.fromkeys(setting["name"] for setting in settings))
    rows = []
    for name in names:
        cells = {
            suite: next((setting for setting in settings if setting["name"] == name), None)
            for suite, settings in by_suite.items()
        }
        canonical = next(cell["canonical"] for cell in cells.values() if cell is not None)
        held = all(cell is None or cell["held"] for cell in cells.values())
        rows.append({"name": name, "canonical": canonical, "cells": cells, "held": held})
    return {
        "suites": list(by_suite),
        "open": [row for row in rows if not row["held"]],
        "held": [row for row in rows if row["held"]],
    }


def _listed(entry: Entry) -> dict[str, Any]:
    """The items of one model to show, over all arms, at most `LISTED`."""
    listed: list[tuple[str, Mapping[str, Any]]] = []
    counts = {}
    for arm, section in entry["arms"].items():
        counts[arm] = section["disagreements"]
        listed += [(arm, item) for item in section["disagreements"]["listed"]]
    return {"model": entry["model"], "counts": counts, "shown": listed[:LISTED], "total": len(listed)}


def _segments(prompt: Mapping[str, Any]) -> Markup:
    """A prompt's end with its own words marked, hidden characters and special tokens visible."""
    left = BOILERPLATE_SHOWN
    parts: list[Markup] = []
    for text, common in reversed(prompt["segments"]):
        kept = text[-left:] if left else ""
        left -= len(kept)
        parts.append(shown(kept) if common else Markup('<mark class="own">{}</mark>').format(shown(kept)))
        if not left:
            break
    missing = prompt["chars"] - (BOILERPLATE_SHOWN - left)
    if missing > 0:
        parts.append(Markup('<span class="cut">{}</span> ').format(f"first {missing:,} characters left out"))
    return Markup("").join(reversed(parts))


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else cleaned("" if value is None else value)


def _hash(value: str | None) -> Markup:
    """A hash cut to 12 digits on the screen, whole on hover and in print."""
    if not value:
        return Markup("–")
    text = plain(value)
    return Markup('<abbr title="{0}">{1}</abbr><span class="full">{0}</span>').format(text, text[:12])
