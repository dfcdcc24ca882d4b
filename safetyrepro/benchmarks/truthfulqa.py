"""TruthfulQA.

TruthfulQA: Measuring How Models Mimic Human Falsehoods. Stephanie Lin, Jacob Hilton, Owain Evans, ACL 2022.
https://arxiv.org/abs/2109.07958 Data: https://github.com/sylinrl/TruthfulQA (Apache-2.0).

A question that many people answer wrongly, one best answer, further true answers and false ones. An item is one
question and its own cluster. `mc1`: the best answer against the false ones, right where it is the likeliest. `mc2`:
the softmax mass of all true answers among true and false ones. Generated answers, which the paper leaves to judges,
are read here as a letter out of the listed mc1 options.

Quirks of the data:
- The best answer stands first in every published copy, so options are ordered by the SHA-256 of question and option.
- Answers are joined by `; `, some lists end in `;`, and an answer may stand twice: empty pieces and repeats go.
  The best answer is kept whole where it holds a `; ` itself.
- A few answers are listed as both true and false. They count as neither, but for the best answer, which stays true.
- The hub data set has mc1 and mc2 ready made and no categories. A release of 2025 adds a column, which is ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.benchmarks import scoring, source
from safetyrepro.benchmarks.base import Item, Score
from safetyrepro.benchmarks.identity import numbered, of_categories, text_id
from safetyrepro.benchmarks.multiple_choice import MultipleChoice
from safetyrepro.config import UNVERIFIED
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.analysis.aggregate import Aggregate
    from safetyrepro.config import BenchmarkSpec, Config

_COLUMNS = ("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source")
_ADVICE = "get TruthfulQA.csv from https://github.com/sylinrl/TruthfulQA, or set benchmark.source to 'pocket'."
_HUB = "truthfulqa/truthful_qa"
_HUB_FILE = "multiple_choice/validation-00000-of-00001.parquet"
_MOST_OPTIONS = 26


class TruthfulQA(MultipleChoice):
    """TruthfulQA, multiple choice."""

    name = "truthfulqa"
    title = "TruthfulQA"
    paper = "https://arxiv.org/abs/2109.07958"
    licence = "Apache-2.0"
    metrics: tuple[str, ...] = ("mc1", "mc2")
    higher_is_better = True
    aggregate: Aggregate = "mean"
    usual_path = "truthfulqa/TruthfulQA.csv"
    hub_repository: str | None = _HUB

    def provenance(self, spec: BenchmarkSpec) -> str:
        """The official file."""
        return source.official(spec, self.usual_path)

    def load(self, spec: BenchmarkSpec, data_dir: Path | None) -> tuple[tuple[Item, ...], str]:
        """All items in file order, and the SHA-256 of the file.

        Raises:
            InputError: the file is missing, or a row is not what the source publishes (file, line and field named).
        """
        if spec.source == "pocket":
            file = source.read(source.POCKET / "truthfulqa.jsonl", "the installation is incomplete.")
            parsed = (_official(where, row) for where, row in source.json_lines(file))
        elif spec.source == "file":
            file = source.read(source.local(spec, data_dir, self.usual_path, _ADVICE), _ADVICE)
            parsed = (_official(where, row) for where, row in source.csv_rows(file, _COLUMNS, _ADVICE))
        else:
            file = source.hub_file(_HUB, _HUB_FILE, spec.revision or UNVERIFIED)
            parsed = (_from_hub(where, row) for where, row in source.parquet_rows(file))
        return of_categories(numbered(parsed), spec, file.shown), source.data_sha256([file])

    def score_logprobs(
        self, item: Item, config: Config, logprobs: Sequence[float | None], divisors: Sequence[float]
    ) -> Score:
        """mc1: whether the best answer is the likeliest; mc2: the mass of the true answers."""
        _, gold = item.scored(config.metric)
        values = scoring.normalised(logprobs, divisors)
        if isinstance(values, Score):
            return values
        return scoring.mass_on_gold(values, gold) if config.metric == "mc2" else scoring.best_candidate(values, gold)


def split_answers(text: str, best: str = "") -> list[str]:
    """The answers in a list joined by `; `, `best` kept whole, without empty pieces, repeats and outer spaces."""
    held = "\0"
    if ";" in best:
        text = text.replace(best, held)
    pieces = (piece.strip().replace(held, best) for piece in re.split(r";(?:\s+|$)", text.strip()))
    return list(dict.fromkeys(piece for piece in pieces if piece))


def _official(where: str, row: Mapping[str, Any]) -> Item:
    for column in ("Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers"):
        if not isinstance(row.get(column), str) or not row[column].strip():
            raise InputError(f"{where}: {column} is {row.get(column)!r}, it should be text.")
    best = row["Best Answer"].strip()
    true = dict.fromkeys([best, *split_answers(row["Correct Answers"], best)])
    return _item(where, row["Question"].strip(), best, true, split_answers(row["Incorrect Answers"]), row)


def _from_hub(where: str, row: Mapping[str, Any]) -> Item:
    lists: dict[str, tuple[list[str], list[str]]] = {}
    for column in ("mc1_targets", "mc2_targets"):
        targets = row.get(column)
        choices, labels = (targets.get("choices"), targets.get("labels")) if isinstance(targets, dict) else (None, None)
        if not isinstance(choices, list) or not isinstance(labels, list) or len(choices) != len(labels):
            raise InputError(f"{where}: {column} should hold as many labels as choices, found {str(targets)[:80]!r}.")
        if not all(isinstance(choice, str) for choice in choices) or not set(labels) <= {0, 1}:
            raise InputError(f"{where}: {column} should hold texts and labels 0 or 1, found {str(targets)[:80]!r}.")
        marked = [(choice.strip(), label) for choice, label in zip(choices, labels, strict=True)]
        lists[column] = ([text for text, label in marked if label], [text for text, label in marked if not label])
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{where}: question is {question!r}, it should be text.")
    if len(lists["mc1_targets"][0]) != 1:
        raise InputError(f"{where}: mc1_targets marks {len(lists['mc1_targets'][0])} choices as right, it should be 1.")
    best = lists["mc1_targets"][0][0]
    true = dict.fromkeys([best, *lists["mc2_targets"][0]])
    false = dict.fromkeys([*lists["mc1_targets"][1], *lists["mc2_targets"][1]])
    return _item(where, question.strip(), best, true, false, row)


def _item(
    where: str, question: str, best: str, true: Iterable[str], false: Iterable[str], row: Mapping[str, Any]
) -> Item:
    both = set(true) & set(false)
    right = [text for text in true if text == best or text not in both]
    wrong = [text for text in false if text not in both]
    if not 1 <= len(wrong) < _MOST_OPTIONS:
        raise InputError(f"{where}: {len(wrong)} false answers are left, it should be 1 to {_MOST_OPTIONS - 1}.")

    def ordered(answers: list[str], gold: list[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        order = sorted(answers, key=lambda text: hashlib.sha256(f"{question}\n{text}".encode()).hexdigest())
        return tuple(order), tuple(index for index, text in enumerate(order) if text in gold)

    options, gold = ordered([best, *wrong], [best])
    cluster = text_id("tqa", question)
    return Item(
        item_id=cluster,
        cluster=cluster,
        question=question,
        context="",
        options=options,
        gold=gold,
        category=row.get("Category") or "",
        row=dict(row),
        options_by_metric={"mc2": ordered(right + wrong, right)},
    )
