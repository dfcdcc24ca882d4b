"""card.html and card.md: self-contained, the same for the same card, and no text of a card is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from safetyrepro.analysis.card.fact import given, not_disclosed
from safetyrepro.analysis.card.model import Card
from safetyrepro.card.file import write_card
from safetyrepro.reports.card import render_html, render_markdown

HOSTILE = (
    '<script>alert(1)</script>"><img src=x onerror=alert(2)> | `code` [a](http://x) \u202e\x07 **bold** &amp; \n# head'
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "br", "wbr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def hostile(sealed_card: Card) -> Card:
    model = sealed_card.models[0].model_copy(
        update={"name": HOSTILE, "id": given(HOSTILE, HOSTILE), "licence": not_disclosed(HOSTILE)}
    )
    benchmark = sealed_card.benchmarks[0].model_copy(update={"dataset": given(HOSTILE, "x"), "name": HOSTILE})
    return sealed_card.model_copy(update={"models": (model,), "benchmarks": (benchmark,), "written_by": HOSTILE})


def test_the_page_is_whole_and_needs_nothing_else(sealed_card: Card, anchor_card: Card) -> None:
    for card in (sealed_card, anchor_card):
        tags = Tags()
        tags.feed(render_html(card))
        assert not tags.open
        assert not {"script", "link", "img", "iframe"} & set(tags.opened)
        assert all(link.startswith("#") for link in tags.links)


def test_no_text_of_a_card_is_markup_in_the_page(hostile: Card) -> None:
    page = render_html(hostile)
    tags = Tags()
    tags.feed(page)
    assert not {"script", "img"} & set(tags.opened)
    assert "&lt;script&gt;" in page
    assert "U+202E" in page
    assert not set("\x07\u202e") & set(page)


def test_no_text_of_a_card_is_markup_in_markdown(hostile: Card) -> None:
    text = render_markdown(hostile)
    assert "<script" not in text
    assert "<img" not in text
    assert not set("\x07\u202e") & set(text)
    assert "\n# head" not in text
    assert re.search(r"(?<!\\)\[a(?<!\\)\]\(", text) is None
    assert "\\*\\*bold\\*\\*" in text
    rows = [line for line in text.splitlines() if line.startswith("| where to get it")]
    # Three cells: what a text holds of `|` is escaped.
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [4]


def test_the_page_says_what_is_open_and_what_it_comes_to(sealed_card: Card) -> None:
    page = render_html(sealed_card)
    assert "not testable here (too few items on which the models differ)" in page
    assert "Without these nobody can tell" in page
    assert page.count("<h2>") == 8
    for one in sealed_card.stability.benchmarks:
        assert one.sentence.replace("'", "&#39;") in page
    seal = sealed_card.envelope.seal.value
    assert seal in page
    assert seal in render_markdown(sealed_card)


def test_long_values_are_folded_not_dropped(sealed_card: Card) -> None:
    page = render_html(sealed_card)
    for name, version in sealed_card.run.software.value.items():
        assert f"<div>{name}: {version}</div>" in page


def test_the_same_card_gives_the_same_files(sealed_card: Card, tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write_card(sealed_card, tmp_path / "a")]
    assert first == [path.read_bytes() for path in write_card(sealed_card, tmp_path / "b")]
    assert Card.model_validate_json(first[0]) == sealed_card
