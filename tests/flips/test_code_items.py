from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.errors import InputError
from safetyrepro.flips.code_file import read_code_items
from safetyrepro.flips.code_task import CodeTask, code_file
from safetyrepro.sandbox.isolation import missing_isolation
from safetyrepro.sandbox.judge import judge
from tests.flips.problems import MBPP, WRONG, human_eval

_FOLDER = os.environ.get("SAFETYREPRO_DATA")
DATA = _FOLDER if _FOLDER and Path(_FOLDER, "humaneval", "HumanEval.jsonl.gz").is_file() else None


def write(path: Path, *rows: Any) -> Path:
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    raw = text.encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.fixture(scope="module")
def boxed() -> bool:
    """Whether code can be locked away here; where not, nothing is run (`tests/sandbox` shows that)."""
    return missing_isolation() is None


def test_problems_in_both_forms(tmp_path: Path) -> None:
    items, sha256 = read_code_items(write(tmp_path / "h.jsonl.gz", human_eval("add"), human_eval("sub")))
    assert [(item.item_id, item.form, item.tests.entry) for item in items] == [
        ("Own/add", "HumanEval", "add"),
        ("Own/sub", "HumanEval", "sub"),
    ]
    assert items[0].question == human_eval("add")["prompt"]
    assert len(sha256) == 64
    items, _ = read_code_items(write(tmp_path / "m.jsonl", *MBPP), limit=2)
    assert [(item.item_id, item.form, item.answer) for item in items] == [
        (str(row["task_id"]), "MBPP", row["code"]) for row in MBPP[:2]
    ]


@pytest.mark.parametrize("place", range(len(MBPP)))
def test_right_code_of_mbpp_rows_passes_and_wrong_code_fails(place: int, boxed: bool, tmp_path: Path) -> None:
    """Among them classes, setup code that builds objects of them, iterators, and imports that tests need."""
    item = read_code_items(write(tmp_path / "m.jsonl", MBPP[place]))[0][0]
    if boxed:
        assert judge(item.answer, item.tests).reason is None
        code, reason = WRONG[place]
        assert reason in (judge(code, item.tests).reason or "passed")


@pytest.mark.parametrize("official", [False, *([True] if DATA else [])], ids=["own", *(["official"] if DATA else [])])
def test_right_code_of_human_eval_rows_passes_and_nothing_fails(official: bool, boxed: bool, tmp_path: Path) -> None:
    """Of the official set, which does not ship with the project, every fortieth; `bench.code` runs them all."""
    own = write(tmp_path / "h.jsonl", human_eval("add"), human_eval("sub"))
    items, _ = read_code_items(Path(str(DATA), "humaneval", "HumanEval.jsonl.gz") if official else own)
    for item in items[:: 40 if official else 1]:
        if boxed:
            assert judge(item.answer, item.tests).reason is None
            assert "failed `assert candidate(" in (judge(item.question, item.tests).reason or "passed")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "x"}, "has neither entry_point and test (as HumanEval) nor test_list (as MBPP)"),
        (human_eval("add") | {"entry_point": "a b"}, "entry_point is 'a b', it should be the name of a function"),
        (human_eval("add") | {"entry_point": "other"}, "prompt does not begin the function 'other'"),
        (human_eval("add") | {"test": "x = 1"}, "test defines no function check(candidate)"),
        (human_eval("add") | {"test": "def check("}, "test is not Python"),
        (human_eval("add") | {"prompt": "def add(:"}, "prompt is not Python"),
        (human_eval("add") | {"prompt": 5}, "prompt is '5', it should be text"),
        (human_eval("add") | {"task_id": None}, "task_id is missing, it should be text or a whole number"),
        (human_eval("add") | {"task_id": True}, "task_id is 'True', it should be text"),
        (MBPP[0] | {"test_list": []}, "test_list is empty"),
        (MBPP[0] | {"test_list": "assert f()"}, "test_list is 'assert f()', it should be a list of texts"),
        (MBPP[0] | {"test_list": ["assert f("]}, "test_list is not Python"),
        (MBPP[0] | {"test_list": ["x\0"]}, "test_list is not Python"),
        (MBPP[0] | {"text": ""}, "text is '', it should be text"),
        (MBPP[0] | {"code": 7}, "code is '7', it should be text"),
        ("[]\n", "it should be a JSON object"),
        ("", "holds no items"),
    ],
)
def test_wrong_problems_are_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_code_items(write(tmp_path / "items.jsonl", row))
    assert message in str(caught.value)


def test_mixed_forms_and_broken_archives(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds rows of both HumanEval and MBPP"):
        read_code_items(write(tmp_path / "items.jsonl", human_eval("add"), MBPP[0]))
    broken = tmp_path / "items.jsonl.gz"
    for raw in (b"plain", gzip.compress(b"x" * 5000)[:20]):
        broken.write_bytes(raw)
        with pytest.raises(InputError, match=r"items.jsonl.gz: cannot be unpacked \("):
            read_code_items(broken)


def test_the_known_name_is_the_data_folders_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_file(Path("humaneval"), Path("/data")) == Path("/data/humaneval/HumanEval.jsonl.gz")
    with pytest.raises(
        InputError, match=r"--code humaneval reads humaneval/HumanEval.jsonl.gz of the data folder: name"
    ):
        code_file(Path("humaneval"), None)
    assert code_file(Path("own.jsonl"), Path("/data")) == Path("own.jsonl")


@pytest.mark.parametrize(
    ("name", "task"), [("HumanEval.jsonl.gz", "HumanEval"), ("my.set.jsonl", "my.set"), ("x", "x")]
)
def test_tasks_are_named_as_their_files(tmp_path: Path, name: str, task: str) -> None:
    items, sha256 = read_code_items(write(tmp_path / "items.jsonl", human_eval("add")))
    assert CodeTask(tmp_path / name, items, sha256, chat=False).name == task
