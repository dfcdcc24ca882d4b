"""Programming problems of our own, in the forms of HumanEval and MBPP."""

from __future__ import annotations

from typing import Any


def human_eval(name: str) -> dict[str, Any]:
    """A row whose prompt has a helper that its tests use, and whose tests name the function itself."""
    sign = {"add": "+", "sub": "-"}[name]
    return {
        "task_id": f"Own/{name}",
        "prompt": f'def twice(x):\n    return x * 2\n\n\ndef {name}(a, b):\n    """ {name} two numbers.\n    """\n',
        "entry_point": name,
        "canonical_solution": f"    return a {sign} b\n",
        "test": (
            "METADATA = {'author': 'own'}\n\n\ndef check(candidate):\n"
            f"    assert candidate(2, 1) == {2 + 1 if name == 'add' else 2 - 1}, 'small numbers'\n"
            f"    for n in range(50):\n        assert twice(candidate(n, 0)) == twice(n)\n"
            f"    assert {name}(10 ** 30, 0) == 10 ** 30\n"
        ),
    }


MBPP: list[dict[str, Any]] = [
    {
        "task_id": 1,
        "text": "Write a function to sort the letters of a word.",
        "code": "def letters(word):\n    return sorted(word)\n",
        "test_list": ["assert letters('cab') == ['a', 'b', 'c']", "assert letters('') == []"],
        "test_setup_code": "",
    },
    {
        "task_id": 2,
        "text": "Write a function for the largest of pairs.",
        "code": (
            "class Pair:\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n"
            "def widest(pairs):\n    return max(p.b - p.a for p in pairs)\n"
        ),
        "test_list": ["assert widest([Pair(1, 4), Pair(2, 3)]) == 3", "assert widest([Pair(1, 1)]) == 0"],
    },
    {
        "task_id": 3,
        "text": "Write a function for the height of a tree.",
        "code": (
            "class Node:\n    def __init__(self, value):\n        self.value = value\n"
            "        self.left = self.right = None\n"
            "def height(node):\n    return 0 if node is None else 1 + max(height(node.left), height(node.right))\n"
        ),
        "test_list": ["assert (height(root)) == 3", "assert height(root.left) == 2", "assert root.value == 1"],
        "test_setup_code": "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)\n",
    },
    {
        "task_id": 4,
        "prompt": "Write a function for the doubled numbers.",
        "code": "def doubled(numbers):\n    for n in numbers:\n        yield 2 * n\n",
        "test_imports": ["import math"],
        "test_list": [
            "assert list(doubled([1, 2])) == [2, 4]",
            "assert math.isclose(sum(doubled((0.1, 0.2))), 0.6)",
            "assert len(list(doubled({1}))) == 1",
        ],
    },
    {
        "task_id": 5,
        "text": "Write a function that refuses numbers below zero, and gives a set and a mapping otherwise.",
        "code": (
            "from collections import Counter\ndef digits(n):\n    if n < 0:\n        raise ValueError('below zero')\n"
            "    return set(str(n)), Counter(str(n)), float('inf'), (1, b'x', None, 2j)\n"
        ),
        "test_list": [
            "assert digits(121) == ({'1', '2'}, {'1': 2, '2': 1}, float('inf'), (1, b'x', None, 2j))",
            "try:\n    digits(-1)\n    assert False\nexcept ValueError as e:\n    assert 'below zero' in str(e)",
        ],
    },
]
WRONG = [
    (
        "def letters(word):\n    return tuple(sorted(word))\n",
        "failed `assert letters('cab') == ['a', 'b', 'c']`; it gave (",
    ),
    ("def widest(pairs):\n    return 3\n", "it raised NameError: the code defines no 'Pair'"),
    (
        "class Node:\n    def __init__(self, value):\n        self.value, self.left = value, None\n"
        "def height(node):\n    return 1\n",
        "failed `assert (height(root)) == 3`; it gave 1",
    ),
    ("def doubled(numbers):\n    while True:\n        yield 1\n", "more than 100000 elements is too long"),
    ("def digits(n):\n    return object()\n", "it gave a object of its own, which no test can compare"),
]
"""For each row, code that fails, and a part of the reason."""
