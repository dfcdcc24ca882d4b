from __future__ import annotations

import re

import pytest

from safetyrepro.judge.edit_names import EDITS
from safetyrepro.judge.edits import edited
from safetyrepro.judge.surface import surface

ANSWER = """Water boils at 100 degrees. It is a liquid, and it can freeze at 0.5 km.

1. First heat it.
2. Then it will boil, as in 1995.

```python
x = 100  # this is code
```

There are two ways.
"""
CODE = "```python\nx = 100  # this is code\n```"


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_the_answer_the_same_way_and_leaves_code_alone(name: str) -> None:
    first, second = edited(name, ANSWER), edited(name, ANSWER)
    assert first == second
    assert first not in (None, ANSWER)
    assert CODE in (first or "")


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", text.replace(CODE, "").casefold())


def test_facts_change_substance_and_keep_form() -> None:
    changed = edited("facts", ANSWER) or ""
    assert "boils at 600 degrees" in changed
    assert "It is not a liquid" in changed
    assert "it can freeze at 0.1 km" in changed
    assert "1. First" in changed
    assert "2. Then it will not boil, as in 6995" in changed
    assert changed.count("\n") == ANSWER.count("\n")
    assert edited("facts", "It is not so.") == "It is so."


@pytest.mark.parametrize("name", ["sarcasm", "padding", "layout"])
def test_surface_edits_keep_every_word_in_order(name: str) -> None:
    left = iter(words((edited(name, ANSWER) or "").replace("**", "")))
    assert all(word in left for word in words(ANSWER))


def test_style_keeps_the_words_but_for_slips() -> None:
    changed = edited("style", ANSWER) or ""
    assert [sorted(word) for word in words(changed)] == [sorted(word) for word in words(ANSWER)]
    assert words(changed) != words(ANSWER)
    assert not re.search(r"[A-Z]", changed.replace(CODE, ""))


def test_padding_and_layout_show_in_the_surface() -> None:
    before = surface(ANSWER)
    assert surface(edited("padding", ANSWER) or "")["length"] > 1.5 * before["length"]
    laid_out = surface(edited("layout", ANSWER) or "")
    assert laid_out["headings"] > before["headings"]
    assert laid_out["bold"] > before["bold"] == 0
    assert (before["lists"], before["code"]) == (2, 1)


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("text", ["", " \n ", "```\nonly code\n```", "```unclosed 5 is"])
def test_nothing_to_change_is_none_or_harmless(name: str, text: str) -> None:
    changed = edited(name, text)
    assert changed is None or "```" in changed


def test_an_unknown_edit_is_an_error() -> None:
    with pytest.raises(KeyError):
        edited("nonsense", "text")
