"""Wire sets as they come: odd shapes are read, wrong ones refused with file, line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safetyrepro.crosspkg.sides import open_side
from safetyrepro.crosspkg.sides.anatomy import split_shots
from safetyrepro.crosspkg.sides.options import find_options
from safetyrepro.crosspkg.sides.turns import turns_of
from safetyrepro.errors import InputError
from tests.crosspkg.divergence.rows import free, write


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no rows"),
        ("\n \n", "holds no rows"),
        ("[1]\n", "line 1: found '[1]', it should be a JSON object"),
        ("{\n", "line 1: not JSON"),
        ('{"item_id": "a"}\n{"item_id": [1]}\n', "line 2: item_id"),
        ('{"item_id": "a", "request": "hello"}\n', "line 1: request is 'hello'"),
        ('{"item_id": "a", "prompt_token_ids": ["x"]}\n', "line 1: prompt_token_ids"),
        ('{"item_id": "a", "score": "high"}\n', "line 1: score is 'high'"),
        ('{"item_id": "a", "score": Infinity}\n', "line 1: score"),
        ('{"question": "a"}\n', "line 1: holds none of a wire row's fields"),
        ('{"wire_id": "a", "seen": [], "request": {}}\n', "is a gateway's wire log"),
        ('{"model": "m", "config_id": "c", "item_id": "a", "score": 1}\n', "looks like a score table"),
        ('{"item_id": "a", "response": null}\n', "is no wire set: no row holds a request"),
        ("[" * 100_000, "line 1: not JSON"),
    ],
)
def test_wrong_lines_are_refused_in_one_sentence(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        open_side(path)
    assert problem in str(error.value)
    assert str(path) in str(error.value)


def test_no_utf8_no_file_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xff\xfe")
    for wrong, problem in ((path, "not UTF-8"), (tmp_path / "none.jsonl", "no such file"), (tmp_path, "no records")):
        with pytest.raises(InputError, match=problem):
            open_side(wrong)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="a wire set ends in"):
        open_side(tmp_path / "a.txt")


def test_a_byte_order_mark_blank_lines_and_nan_are_read(tmp_path: Path) -> None:
    rows = [json.dumps(row) for row in free(2)]
    path = tmp_path / "a.jsonl"
    path.write_text("\ufeff" + rows[0] + "\r\n\n" + rows[1].replace("1.0}", "1.0}") + "\n", encoding="utf-8")
    assert list(open_side(path).by_item) == ["q0", "q1"]
    path.write_text('{"item_id": 7, "score": NaN, "extracted": "a"}\n', encoding="utf-8")
    assert open_side(path).score("7") is None


def test_candidates_are_told_from_their_context(tmp_path: Path) -> None:
    rows = [
        {
            "item_id": "a",
            "request": {"prompt": [f"Q: which?\nA:{text}" for text in (" the pear", " the plum")], "max_tokens": 0},
            "response": {"choices": []},
        }
    ]
    exchange = open_side(write(tmp_path / "a.jsonl", rows)).by_item["a"][0]
    assert exchange.path == "logprob"
    assert exchange.prompt == "Q: which?\nA:"
    assert [candidate.text for candidate in exchange.candidates] == [" the pear", " the plum"]


def test_repeats_without_numbers_are_counted(tmp_path: Path) -> None:
    side = open_side(write(tmp_path / "a.jsonl", [*free(2), *free(2), *free(2)]))
    assert {item: len(repeats) for item, repeats in side.by_item.items()} == {"q0": 3, "q1": 3}


def test_rows_of_several_filters_are_not_repeats(tmp_path: Path) -> None:
    rows = [row | {"meta": {"filter": name}} for name in ("strict", "flexible") for row in free(2)]
    assert len(open_side(write(tmp_path / "a.jsonl", rows)).by_item) == 4


def test_a_records_folder_of_several_cells_is_refused(tmp_path: Path) -> None:
    from tests.crosspkg.report_experiment import Shape, make

    made = make(tmp_path / "made", Shape(items=4, benchmarks=("bbq",), failed=False, hostile=False))
    with pytest.raises(InputError, match="is an experiment of"):
        open_side(made)
    cell = sorted(path.parent for path in made.glob("cells/*/records.parquet"))[0]
    side = open_side(cell)
    assert len(side.by_item) == 4
    assert side.clusters


@pytest.mark.parametrize(
    ("text", "shots", "header"),
    [
        ("Q: a?\nA: b\n\nQ: c?\nA: d\n\nQ: e?\nA:", 2, ""),
        ("Read.\n\nQ: a?\nA: b\n\nQ: e?\nA:", 1, "Read.\n\n"),
        ("Question: a?\nAnswer: b\nQuestion: e?\nAnswer:", 1, ""),
        (
            "The following are questions.\n\nWhat is a?\nA. x\nB. y\nAnswer: A\n\nWhat is b?\nA. x\nB. y\nAnswer:",
            1,
            None,
        ),
        ("Context: one.\n\nQuestion: a?\nAnswer:", 0, ""),
        ("Question: a?\nA. Answer: none\nAnswer:", 0, ""),
        ("", 0, ""),
    ],
)
def test_shots_are_parted_from_the_item(text: str, shots: int, header: str | None) -> None:
    split = split_shots(text)
    assert len(split.shots) == shots
    assert split.header + split.section + split.item == text
    assert header is None or split.header == header


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Q?\nA. x\nB. y\nAnswer:", ("x", "y")),
        ("Q?\n(A) x (B) y (C) z\nAnswer:", ("x", "y", "z")),
        ("Q?\n- x\n- y\nAnswer:", ("x", "y")),
        ("Q?\n1) x\n2) y\n", ("x", "y")),
        ("Choices:\nA) x, B) y", ("x", "y")),
        ("Was it A. Lincoln?\nAnswer:", None),
        ("A sentence with a dash - and another - in it", None),
    ],
)
def test_options_are_found_where_they_are_listed(text: str, options: tuple[str, ...] | None) -> None:
    found = find_options(text)
    assert (None if found is None else found.texts) == options


@pytest.mark.parametrize(
    "text",
    [
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n",
        "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>",
        "<start_of_turn>system\nS<end_of_turn>\n<start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\n",
        "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\n",
        "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]",
    ],
)
def test_turns_of_common_templates_are_read(text: str) -> None:
    turns = turns_of(text)
    assert [(turn.role, turn.content.strip()) for turn in turns[:2]] == [("system", "S"), ("user", "U")]
    assert turns_of("no template at all") == ()
