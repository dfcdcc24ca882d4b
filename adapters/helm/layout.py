"""HELM's data files, laid out so that its own scenarios evaluate exactly the canonical items and show the shots.

Both scenarios cut their rows into a training and an evaluation part by rules of their own. TruthfulQA trains on the
first fifth of the file. BBQ shuffles with seed 0 and evaluates the last 1,000 rows, so that it has training rows only
beyond 1,000. Where the evaluation part has to be larger than the items, rows that are never sent fill it up, and
`max_eval_instances`, whose draw is known (numpy's legacy generator, seed 0), picks the items' places.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.bbq import CATEGORIES
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Item

BBQ_TEST_ROWS = 1000
TRUTHFULQA_TRAIN_SHARE = 0.2
COLUMNS = ("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source")


@dataclass(frozen=True)
class Layout:
    """The data of one HELM run."""

    files: dict[str, str]
    """Path below HELM's output folder -> content."""
    items: tuple[Item, ...]
    """What is evaluated."""
    max_eval_instances: int | None
    """HELM's limit, where the evaluation part holds more rows than items."""


def layouts(benchmark: str, items: Sequence[Item], examples: Sequence[Item], shots: int) -> list[Layout]:
    """The runs that evaluate `items`: one, or one for every 1,000 items of BBQ.

    Args:
        benchmark: `truthfulqa` or `bbq`.
        items: What is to be evaluated.
        examples: Rows for the training part and for filling up; as many as `shots` of them, at least one.
        shots: How many training rows HELM has to draw its shots from, at least.

    Raises:
        InputError: an item's row is not in the benchmark's official schema.
    """
    if benchmark == "truthfulqa":
        return [_truthfulqa(items, examples, shots)]
    parts = [items[start : start + BBQ_TEST_ROWS] for start in range(0, len(items), BBQ_TEST_ROWS)]
    return [_bbq(part, examples, shots) for part in parts]


def _truthfulqa(items: Sequence[Item], examples: Sequence[Item], shots: int) -> Layout:
    train = max(len(items) // 4, shots)
    evaluated = len(items) if int((train + len(items)) * TRUTHFULQA_TRAIN_SHARE) == train else 4 * train
    rows = [examples[index % len(examples)] for index in range(train + evaluated)]
    for item, place in zip(items, _drawn(evaluated, len(items)), strict=True):
        rows[train + place] = item
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_columns, rows))
    limit = None if evaluated == len(items) else len(items)
    return Layout({"scenarios/truthful_qa/data/TruthfulQA.csv": text.getvalue()}, tuple(items), limit)


def _bbq(items: Sequence[Item], examples: Sequence[Item], shots: int) -> Layout:
    evaluated = BBQ_TEST_ROWS if shots else len(items)
    shuffled = list(range(shots + evaluated))
    random.Random(0).shuffle(shuffled)  # noqa: S311  HELM's own shuffle.
    rows = [examples[index % len(examples)] for index in range(len(shuffled))]
    for index in range(shots):
        rows[shuffled[index]] = examples[index]
    ordered = sorted(items, key=_file_number)
    places = sorted(shuffled[shots + place] for place in _drawn(evaluated, len(items)))
    numbers = [0] * len(rows)
    for item, place in zip(ordered, places, strict=True):
        rows[place] = item
        numbers[place:] = [_file_number(item)] * (len(rows) - place)
    # In this order HELM reads the files for `subject=all`.
    files = {
        f"scenarios/bbq/data/{category}": "".join(
            _json_line(row) for row, file in zip(rows, numbers, strict=True) if file == number
        )
        for number, category in enumerate(CATEGORIES)
    }
    return Layout(files, tuple(items), len(items) if shots else None)


def _drawn(rows: int, count: int) -> list[int]:
    """Which of `rows` evaluation rows HELM keeps under `max_eval_instances=count`, ascending."""
    if rows == count:
        return list(range(rows))
    import numpy as np

    return sorted(np.random.RandomState(0).choice(rows, count, replace=False).tolist())


def _file_number(item: Item) -> int:
    # The file matters only to HELM's bias statistics, and only for three of the eleven names.
    category = item.row.get("category", item.category)
    return CATEGORIES.index(category) if category in CATEGORIES else 0


def _columns(item: Item) -> list[str]:
    """The item as a row of the official file; a row of the hub's data set has its answers from the mc1 options."""
    gold = {item.options[index] for index in item.gold}
    built = {
        "Question": item.question,
        "Best Answer": item.options[item.gold[0]],
        "Incorrect Answers": "; ".join(option for option in item.options if option not in gold),
    }
    return [str(item.row.get(column, built.get(column, ""))) for column in COLUMNS]


def instance_text(benchmark: str, item: Item) -> tuple[str, ...]:
    """What identifies an item's instance in HELM: the text of its input, and for BBQ its references.

    BBQ's items of a template differ in their options alone. Whitespace stays as the official row has it.
    """
    if benchmark == "xstest":
        return (item.question,)
    if benchmark == "truthfulqa":
        return (_columns(item)[COLUMNS.index("Question")].strip(),)
    row = item.row
    return f"{row['context']}\nQuestion: {row['question']}", row["ans0"], row["ans1"], row["ans2"]


def incorrect_answers(item: Item) -> int:
    """How many answers HELM's TruthfulQA scenario will set beside the best one."""
    listed = _columns(item)[COLUMNS.index("Incorrect Answers")]
    return sum(bool(answer.strip()) for answer in listed.split(";"))


def _json_line(item: Item) -> str:
    needed = ("question_polarity", "context_condition", "context", "question", "ans0", "ans1", "ans2", "label")
    missing = [key for key in (*needed, "answer_info", "additional_metadata") if key not in item.row]
    if missing:
        raise InputError(f"BBQ item {item.item_id}: HELM's scenario needs the field {missing[0]!r}, which is missing.")
    return json.dumps(dict(item.row)) + "\n"
