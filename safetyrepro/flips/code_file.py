"""Programming problems with unit tests from JSONL files, in the forms of HumanEval and MBPP.

HumanEval (Chen et al., 2021, https://arxiv.org/abs/2107.03374; MIT): `task_id`, `prompt` (the beginning of a module,
up to a function's docstring), `entry_point`, `test` (defines `check(candidate)`), optional `canonical_solution`.
MBPP (Austin et al., 2021, https://arxiv.org/abs/2108.07732; CC-BY-4.0): `task_id`, `text` (or `prompt`), `test_list`
(assertions), optional `code`, `test_setup_code`, `test_imports`. Optional for both: `item_id`, `category`, `cluster`.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from safetyrepro.errors import InputError
from safetyrepro.flips.item_file import FileItem, Row, read_items
from safetyrepro.sandbox.judge import UnitTests

Form = Literal["HumanEval", "MBPP"]


@dataclass(frozen=True)
class CodeItem(FileItem):
    """One problem."""

    form: Form
    tests: UnitTests


def read_code_items(path: Path, limit: int | None = None) -> tuple[tuple[CodeItem, ...], str]:
    """Problems of one form, and the SHA-256 of the file.

    Raises:
        InputError: naming file and line, what was found and what would be right.
    """
    items, sha256 = read_items(path, limit, _item)
    forms = sorted({item.form for item in items})
    if len(forms) > 1:
        raise InputError(f"{path}: holds rows of both {' and '.join(forms)}; give each form a file of its own.")
    return items, sha256


def _item(where: str, row: Row) -> CodeItem:
    if "test_list" in row:
        return _mbpp(where, row)
    if "entry_point" in row or "test" in row:
        return _human_eval(where, row)
    raise InputError(
        f"{where}: has neither entry_point and test (as HumanEval) nor test_list (as MBPP); add its unit tests."
    )


def _human_eval(where: str, row: Row) -> CodeItem:
    prompt, test, entry = (_text(where, row, name) for name in ("prompt", "test", "entry_point"))
    if not entry.isidentifier():
        raise InputError(f"{where}: entry_point is {entry[:60]!r}, it should be the name of a function.")
    defined = [node.name for node in _parsed(where, "test", test).body if isinstance(node, ast.FunctionDef)]
    if "check" not in defined:
        raise InputError(f"{where}: test defines no function check(candidate), which the tests are called by.")
    names = [node.name for node in _parsed(where, "prompt", prompt).body if isinstance(node, ast.FunctionDef)]
    if entry not in names:
        raise InputError(f"{where}: prompt does not begin the function {entry!r} that entry_point names.")
    # The prompt stands alone as Python, since a docstring is a body: its other functions are there for the tests.
    solution = _optional(where, row, "canonical_solution")
    return _made(
        where, row, prompt, prompt + solution if solution else test, "HumanEval", UnitTests(test, entry, prompt)
    )


def _mbpp(where: str, row: Row) -> CodeItem:
    text = _text(where, row, "text" if "text" in row else "prompt")
    tests, imports = _lines(where, row, "test_list"), _lines(where, row, "test_imports")
    if not tests:
        raise InputError(f"{where}: test_list is empty; a problem needs a test.")
    setup = "\n".join([*imports, _optional(where, row, "test_setup_code")])
    joined = "\n".join(tests)
    _parsed(where, "test_list", joined)
    _parsed(where, "test_setup_code", setup)
    code = _optional(where, row, "code")
    return _made(where, row, text, code or joined, "MBPP", UnitTests(joined, setup=setup))


def _made(where: str, row: Row, question: str, answer: str, form: Form, tests: UnitTests) -> CodeItem:
    named = row.get("item_id", row.get("task_id"))
    if isinstance(named, bool) or not isinstance(named, (str, int)) or not str(named).strip():
        found = "is missing" if named is None else f"is {str(named)[:60]!r}"
        raise InputError(f"{where}: task_id {found}, it should be text or a whole number.")
    item_id = str(named).strip()
    cluster, category = (_optional(where, row, name) for name in ("cluster", "category"))
    return CodeItem(item_id, cluster or item_id, category, question, "", (), 0, answer, form, tests)


def _parsed(where: str, name: str, source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: {name} is not Python ({error}).") from None


def _text(where: str, row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        found = f"is {str(value)[:60]!r}" if name in row else "is missing"
        raise InputError(f"{where}: {name} {found}, it should be text.")
    return value


def _optional(where: str, row: Row, name: str) -> str:
    return "" if row.get(name) in (None, "") else _text(where, row, name)


def _lines(where: str, row: Row, name: str) -> list[str]:
    value = row.get(name, [])
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise InputError(f"{where}: {name} is {str(value)[:60]!r}, it should be a list of texts.")
    return value
