"""BBQ, the Bias Benchmark for Question Answering.

BBQ: A Hand-Built Bias Benchmark for Question Answering. Alicia Parrish, Angelica Chen, Nikita Nangia, Vishakh
Padmakumar, Jason Phang, Jana Thompson, Phu Mon Htut, Samuel R. Bowman, Findings of ACL 2022.
https://arxiv.org/abs/2110.08193 Data: https://github.com/nyu-mll/BBQ (CC-BY-4.0).

A context, a question about it, and three options: two people and "cannot be told". In an ambiguous context the last is
right, in a disambiguated one a person is. An item scores 1 where the right option is chosen. Its cluster is category
and question_index: some 25 templates a category, whose items are near copies of each other.

Quirks of the data:
- Options keep the file's order; the right one's place is spread about evenly over the three.
- "Cannot be told" has ten wordings; this file scores the one that the row lists and no other.
- Some 100 rows of the published files have outer spaces in a field: they are stripped for prompts and kept in the row.
- `question_index` is text, and restarts in every category; so does `example_id`.
- The bias scores of the paper need who is stereotyped, which is in the row (`answer_info`, `additional_metadata`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.benchmarks import source
from safetyrepro.benchmarks.base import Item
from safetyrepro.benchmarks.multiple_choice import MultipleChoice
from safetyrepro.config import UNVERIFIED
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.analysis.aggregate import Aggregate
    from safetyrepro.config import BenchmarkSpec

CATEGORIES = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Race_x_SES",
    "Race_x_gender",
    "Religion",
    "SES",
    "Sexual_orientation",
)
_HUB = "heegyu/bbq"
_ADVICE = "get the category files from https://github.com/nyu-mll/BBQ (data/), or set benchmark.source to 'pocket'."
_TEXTS = ("context", "question", "ans0", "ans1", "ans2")


class BBQ(MultipleChoice):
    """BBQ, three options an item."""

    name = "bbq"
    title = "BBQ"
    paper = "https://arxiv.org/abs/2110.08193"
    licence = "CC-BY-4.0"
    metrics: tuple[str, ...] = ("accuracy",)
    higher_is_better = True
    aggregate: Aggregate = "mean"
    usual_path = "bbq"
    hub_repository: str | None = _HUB

    def provenance(self, spec: BenchmarkSpec) -> str:
        """The official files."""
        return source.official(spec, self.usual_path)

    def load(self, spec: BenchmarkSpec, data_dir: Path | None) -> tuple[tuple[Item, ...], str]:
        """All items, categories in order of their names and rows in file order, and the SHA-256 of the files read.

        Raises:
            InputError: a file is missing, or a row is not what the source publishes (file, line and field named).
        """
        files = self._files(spec, data_dir)
        items: dict[str, Item] = {}
        for file in files:
            for where, row in source.json_lines(file):
                item = _item(where, row)
                if item.item_id in items:
                    raise InputError(f"{where}: example_id {row['example_id']} stands twice in {item.category}.")
                items[item.item_id] = item
        wanted = set(spec.categories or CATEGORIES)
        return tuple(item for item in items.values() if item.category in wanted), source.data_sha256(files)

    def _files(self, spec: BenchmarkSpec, data_dir: Path | None) -> list[source.SourceFile]:
        wanted = sorted(spec.categories or CATEGORIES)
        unknown = [name for name in wanted if name not in CATEGORIES]
        if unknown:
            raise InputError(f"benchmark.categories names {unknown[0]!r}, BBQ has {', '.join(CATEGORIES)}.")
        if spec.source == "pocket":
            return [source.read(source.POCKET / "bbq.jsonl", "the installation is incomplete.")]
        if spec.source == "hub":
            revision = spec.revision or UNVERIFIED
            return [source.hub_file(_HUB, f"data/{name}.jsonl", revision) for name in wanted]
        folder = source.local(spec, data_dir, self.usual_path, _ADVICE)
        if spec.categories is None:
            wanted = [name for name in wanted if (folder / f"{name}.jsonl").is_file()] or wanted[:1]
        return [source.read(folder / f"{name}.jsonl", _ADVICE) for name in wanted]


def _item(where: str, row: Mapping[str, Any]) -> Item:
    for name in _TEXTS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise InputError(f"{where}: {name} is {row.get(name)!r}, it should be text.")
    for name, known in (
        ("category", CATEGORIES),
        ("label", (0, 1, 2)),
        ("context_condition", ("ambig", "disambig")),
        ("question_polarity", ("neg", "nonneg")),
    ):
        if isinstance(row.get(name), bool) or row.get(name) not in known:
            raise InputError(f"{where}: {name} is {row.get(name)!r}, it should be one of {', '.join(map(str, known))}.")
    example, template = row.get("example_id"), row.get("question_index")
    if isinstance(example, bool) or not isinstance(example, int) or example < 0:
        raise InputError(f"{where}: example_id is {example!r}, it should be a number from 0.")
    if not isinstance(template, str) or not template.isalnum():
        raise InputError(f"{where}: question_index is {template!r}, it should be a number as text.")
    for name in ("answer_info", "additional_metadata"):
        if not isinstance(row.get(name), dict):
            raise InputError(f"{where}: {name} is {row.get(name)!r}, it should be an object.")
    return Item(
        item_id=f"bbq-{row['category']}-{example}",
        cluster=f"bbq-{row['category']}-{template}",
        question=row["question"].strip(),
        context=row["context"].strip(),
        options=tuple(row[f"ans{index}"].strip() for index in range(3)),
        gold=(row["label"],),
        category=row["category"],
        row=dict(row),
    )
