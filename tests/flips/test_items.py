from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.errors import InputError
from safetyrepro.flips.final_answer import final_answer, read_answer, same_answer
from safetyrepro.flips.item_file import read_choices, read_problems


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "items.jsonl"
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_choices_in_the_forms_that_sets_have(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"question_id": 7, "question": "Q1", "options": ["a", "b", "c"], "answer": "C", "category": "law"},
        {"question": "Q2", "choices": ["a", "b"], "answer": 1},
        {"question": "Q3", "options": ["x", "B"], "answer": "B"},
        {
            "Question": "Q4",
            "Correct Answer": "w",
            "Incorrect Answer 1": "x",
            "Incorrect Answer 2": "y",
            "Incorrect Answer 3": "z",
        },
    )
    items, _ = read_choices(path)
    assert [(item.item_id, item.answer) for item in items[:1]] == [("7", "c")]
    assert [item.answer for item in items] == ["c", "b", "B", "w"]
    assert [item.options[item.gold] for item in items] == ["c", "b", "B", "w"]
    assert sorted(items[3].options) == ["w", "x", "y", "z"]
    assert items[0].category == "law"
    assert read_choices(path)[0] == items
    assert len(read_choices(path, 2)[0]) == 2


def test_problems_in_the_forms_that_sets_have(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"question": "How many?", "answer": "3 + 4 = 7\n#### 7"},
        {"problem": "Half?", "solution": "So it is $\\boxed{\\frac{1}{2}}$."},
        {"question": "Who?", "answer": "Nobody"},
    )
    assert [item.answer for item in read_problems(path)[0]] == ["7", "\\frac{1}{2}", "Nobody"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]\n", "line 1: found '[1]', it should be a JSON object"),
        ({"options": ["a", "b"], "answer": "A"}, "question is missing, it should be text"),
        ({"question": 5, "options": ["a", "b"], "answer": "A"}, "question is '5', it should be text"),
        ({"question": "Q", "options": ["a"], "answer": "A"}, "holds 1 options"),
        ({"question": "Q", "options": "ab", "answer": "A"}, "options is 'ab', it should be a list of texts"),
        ({"question": "Q", "options": ["a", "b"], "answer": "C"}, "answer is 'C', it should be a letter from A to B"),
        ({"question": "Q", "options": ["a", "b"], "answer": 2}, "an index from 0 to 1"),
        ({"question": "Q", "options": ["a", "b"], "answer": True}, "answer is 'True'"),
        ({"question": "Q", "options": ["a", "a"], "answer": 0}, "two options are the same text"),
        ("", "holds no items"),
    ],
)
def test_wrong_items_are_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_choices(write(tmp_path, row))
    assert message in str(caught.value)


def test_the_same_item_twice(tmp_path: Path) -> None:
    row = {"question": "Q", "options": ["a", "b"], "answer": 0}
    with pytest.raises(InputError, match=r"line 2: item 'item-[0-9a-f]{12}' stands twice"):
        read_choices(write(tmp_path, row, row))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("It is 3, then 4.\nAnswer: 12", "12"),
        ("The answer is $1,250.50.", "$1,250.50"),
        ("so \\boxed{\\frac{3}{4}} and done", "\\frac{3}{4}"),
        ("\\boxed{open", None),
        ("first 3 and then 41 apples", "41"),
        ("#### -7", "-7"),
        ("Answer: blue.", "blue"),
        ("no idea", None),
        ("\\boxed{" * 50_000, None),
    ],
)
def test_answers_are_read(text: str, read: str | None) -> None:
    assert read_answer(text) == read


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,250", "1250.0", True),
        ("\\frac{1}{2}", "0.5", True),
        ("$12$", "12.", True),
        ("50%", "50", True),
        ("x + 1", "x+1", True),
        ("12", "13", False),
        ("x", "y", False),
        ("1/0", "1/0", True),
        ("1e9999999", "2", False),
        ("9" * 10_000, "9", False),
    ],
)
def test_answers_are_compared(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) is same


def test_the_final_answer_of_a_solution() -> None:
    assert final_answer("2 + 2 = <<2+2=4>>4\n#### 4") == "4"
    assert final_answer("\\boxed{1} then \\boxed{2}") == "2"
    assert final_answer(" 5 ") == "5"
