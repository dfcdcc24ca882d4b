from __future__ import annotations

import pytest

from safetyrepro.flips.code_answer import read_function, read_module

PROMPT = 'import math\n\n\ndef root(x):\n    """ The root.\n    """\n'
WHOLE = "def root(x):\n    return math.sqrt(x)\n"
BODY = "    return math.sqrt(x)\n"


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"{BODY}\n\ndef other():\n    pass\n",
        f"{BODY}\nprint(root(4))\n",
        f"{BODY}\nif __name__ == '__main__':\n    root(\n",
        f"{BODY}```\nThat is all.",
        f"```python\n{BODY}```",
        WHOLE,
        f"Here is the function:\n\n{WHOLE}",
        f"Sure!\n```python\n{WHOLE}```\nIt uses `math`, and def root(x): is the function.",
        f"First the idea:\n```\nx = 4\n```\nNow:\n```python\n{WHOLE}\n```\nTry it:\n```python\nprint(root(4))\n```",
        f"```py\n{WHOLE}",
        f" Sure:\n```py\n{WHOLE}```",
        f"\n{BODY}",
        f"```python\nfrom math import sqrt\n{WHOLE}```",
        f"  ```python\n{WHOLE}  ```",
    ],
)
def test_functions_are_found(text: str) -> None:
    code = read_function(text, PROMPT, "root")
    assert code is not None
    names: dict[str, object] = {}
    exec(code, names)
    assert names["root"](9) == 3  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", " \n\n", "```python\n```", "```python"])
def test_nothing_written_is_no_function(text: str) -> None:
    assert read_function(text, PROMPT, "root") is None


def test_prose_is_tried_as_it_stands() -> None:
    """It is what the model put behind the prompt: no Python, so that it will fail as such."""
    code = read_function("I cannot do that.", PROMPT, "root")
    assert code == f"{PROMPT}I cannot do that."


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1\n", "x = 1\n"),
        ("Here you are:\ndef f():\n    pass\n", "def f():\n    pass\n"),
        ("```\nno code\n```\n```python\nimport re\n```", "import re\n"),
        ("@cache\ndef f(): ...", "@cache\ndef f(): ..."),
        ("I cannot.", None),
        ("", None),
    ],
)
def test_modules_are_found(text: str, code: str | None) -> None:
    assert read_module(text) == code


def test_long_answers_take_no_time() -> None:
    assert read_module("```" * 200_000) is None
    assert read_function("```\n" * 200_000, PROMPT, "root") is None
