"""A card as a page and as Markdown, both rendered from the card and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import jinja2
from markupsafe import Markup

from safetyrepro.analysis.card.fact import Given
from safetyrepro.analysis.card.fields import GROUPS, TITLES, Entry, entries
from safetyrepro.analysis.card.model import BenchmarkCard, Card
from safetyrepro.analysis.card.openness import counts, gaps
from safetyrepro.card.words import KINDS, headline, lines, next_steps
from safetyrepro.reports.templating import environment
from safetyrepro.reports.visible import cleaned, is_hidden
from safetyrepro.runners import title as suite_title
from safetyrepro.stability.words import title as benchmark_title

SHOWN = 8
"""Lines of a value that stand open; the page folds what is over, Markdown leaves it to card.json."""
LONGEST = 600
"""Characters of a line that are shown."""
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Row:
    """One field as it is shown."""

    label: str
    lines: tuple[str, ...]
    more: tuple[str, ...]
    state: str
    note: str
    """Where a value stands, or why there is none."""
    weight: str


@dataclass(frozen=True)
class Block:
    """One model, benchmark or suite, or a section that has one part."""

    name: str | None
    rows: tuple[Row, ...]
    benchmark: BenchmarkCard | None


@dataclass(frozen=True)
class Section:
    """One section."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


def render_html(card: Card) -> str:
    """The whole page as HTML text.

    Every string is escaped by the template engine, with control and bidi characters named; there is no script, no link
    to anything outside the page, and no date, so that the same card gives the same page.
    """
    page = _environment(autoescape=True, finalize=_escaped)
    return page.get_template("card.html.jinja").render(**_content(card))


def render_markdown(card: Card) -> str:
    """The card as Markdown in which no text of a card is markup."""
    page = _environment(autoescape=False, finalize=_plain_markdown)
    text = page.get_template("card.md.jinja").render(**_content(card))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _environment(*, autoescape: bool, finalize: Any) -> jinja2.Environment:
    made = environment(finalize, autoescape=autoescape)
    code = _code_html if autoescape else _code_markdown
    made.filters.update(code=code, number=_number, p=_p, suite=suite_title, benchmark=benchmark_title)
    return made


def _content(card: Card) -> dict[str, Any]:
    found = gaps(card)
    return {
        "card": card,
        "about": KINDS[card.kind],
        "headline": headline(card, found),
        "steps": next_steps(card, found),
        "tally": counts(found),
        "groups": [
            (title, own) for name, title in GROUPS.items() if (own := [gap for gap in found if gap.weight == name])
        ],
        "sections": _sections(card),
    }


def _sections(card: Card) -> list[Section]:
    found = []
    for section, of_section in groupby(entries(card), key=lambda entry: entry.section):
        blocks = []
        for path, own in groupby(of_section, key=lambda entry: entry.path.rpartition(".")[0]):
            held = list(own)
            benchmark = card.benchmarks[int(path.partition(".")[2])] if section == "benchmarks" else None
            blocks.append(Block(held[0].of, tuple(_row(entry) for entry in held), benchmark))
        found.append(Section(TITLES[section], section, tuple(blocks)))
    return found


def _row(entry: Entry) -> Row:
    fact = entry.fact
    shown = [line if len(line) <= LONGEST else f"{line[:LONGEST]}…" for line in lines(fact)]
    return Row(
        entry.field.label,
        tuple(shown[:SHOWN]),
        tuple(shown[SHOWN:]),
        fact.state,
        fact.source if isinstance(fact, Given) else fact.reason,
        entry.weight,
    )


def _escaped(value: Any) -> Any:
    return value if isinstance(value, Markup) else cleaned("" if value is None else value)


def _plain_markdown(value: Any) -> Any:
    if value is None or isinstance(value, Markup):
        return value or ""
    text = "".join(f"[U+{ord(one):04X}]" if is_hidden(one) else one for one in str(value))
    entities = _SPACE.sub(" ", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", entities)


def _code_html(text: str) -> Markup:
    """A sentence of our own, what stands between backticks as code."""
    parts = [Markup("<code>{}</code>").format(part) if at % 2 else cleaned(part) for at, part in _spans(text)]
    return Markup("").join(parts)


def _code_markdown(text: str) -> Markup:
    # `finalize` passes Markup as it is; what stands between the backticks is our own.
    parts = [f"`{part}`" if at % 2 else _plain_markdown(part) for at, part in _spans(text)]
    return Markup("".join(parts))  # noqa: S704


def _spans(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("`")))


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
