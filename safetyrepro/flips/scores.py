"""Outcomes of both models, from score tables or from folders of records, with what their rows say beside the score."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.analysis.flips.pairing import RIGHT_AT, counted_scores
from safetyrepro.errors import InputError
from safetyrepro.records import Record, read_records
from safetyrepro.tables import KEY, ScoreTable, place, read_table, records_to_table

if TYPE_CHECKING:
    import pandas as pd

TEXT_COLUMNS = ("prompt", "question", "answer", "response", "extracted", "gold")
"""Columns of a table that a report shows beside an item."""
OPTIONS = "option_logprobs"
"""Column of records: the options' texts with their summed logprobs."""


@dataclass(frozen=True)
class Outcomes:
    """What was read."""

    frame: pd.DataFrame
    """Columns and types as `safetyrepro.tables.read_table` gives them; from records also texts and options."""
    columns: tuple[str, ...]
    """Columns as the sources name them, without those that reading adds."""
    unfinished: tuple[str, ...] = ()
    """Cells of a run that have not ended."""


def read_outcomes(paths: Sequence[Path]) -> Outcomes:
    """Read and join score tables and folders of records.

    Raises:
        InputError: a table that cannot be read or has no items, a folder without records, or the same row in two.
    """
    import pandas as pd

    read = [_from_folder(path) if path.is_dir() else _from_table(path) for path in paths]
    frame = read[0].frame if len(read) == 1 else pd.concat([part.frame for part in read], ignore_index=True)
    for name in ("suite", "arm"):
        if name in frame:
            frame[name] = frame[name].fillna("").astype(str)
    keys = [name for name in KEY if name in frame]
    twice = frame[frame.duplicated(keys)]
    if len(twice):
        where = " and ".join(str(path) for path in paths)
        row = place(dict(twice.iloc[0]), keys)
        raise InputError(
            f"{where}: hold two rows for {row}; give each once, or number repeated runs in a repeat column."
        )
    columns = dict.fromkeys(name for part in read for name in part.columns)
    return Outcomes(frame, tuple(columns), tuple(name for part in read for name in part.unfinished))


def find_model(frame: pd.DataFrame, name: str, option: str) -> str:
    """A model of the table by name.

    Raises:
        InputError: there is none; the message names those there are.
    """
    models = [str(model) for model in frame["model"].unique()]
    if name in models:
        return name
    close = difflib.get_close_matches(name, models, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(f"{option} is {name!r}, the table holds {', '.join(map(repr, models[:12]))}{hint}")


def find_column(outcomes: Outcomes, name: str, option: str) -> None:
    """Refuse a column that the sources lack.

    Raises:
        InputError: the message names those there are.
    """
    if name not in outcomes.columns:
        raise InputError(f"{option} is {name!r}, the table has no such column; found {', '.join(outcomes.columns)}.")


def right_from(frame: pd.DataFrame, models: Collection[str], benchmarks: Collection[str], given: float | None) -> float:
    """From which score on an item is right.

    Args:
        frame: as `read_outcomes` gives it.
        models: those that are compared.
        benchmarks: those that they are compared on.
        given: what the user asked for; by default 0.5, which means something for scores from 0 to 1 alone.

    Raises:
        InputError: scores lie outside [0, 1] and nothing was asked for, or no score of a benchmark can reach what was.
    """
    asked = frame[frame["model"].isin(list(models))]
    for benchmark in sorted(benchmarks):
        scores = counted_scores(asked[asked["benchmark"] == benchmark]).dropna()
        outside = scores[(scores < 0) | (scores > 1)]
        if given is None and len(outside):
            raise InputError(
                f"{benchmark}: {len(outside)} of {len(scores)} scores lie outside 0 to 1, the first is "
                f"{outside.iloc[0]:g}; say with --right-at from which score on an item is right, or divide them."
            )
        largest = max(1.0, float(scores.max())) if len(scores) else 1.0
        if given is not None and given > largest:
            raise InputError(
                f"--right-at is {given:g}, but no score of {benchmark} is above {largest:g}, so that nothing could be "
                "right; name a score that can be reached."
            )
    return RIGHT_AT if given is None else given


def _from_table(path: Path) -> Outcomes:
    table: ScoreTable = read_table(path)
    if not table.item_level:
        raise InputError(
            f"{path}: has no item_id column, so that its rows are cell means; flips are counted item by item: "
            "give a table with one row per item."
        )
    return Outcomes(table.frame, table.columns)


def _from_folder(folder: Path) -> Outcomes:
    import pandas as pd

    records, unfinished = _records(folder)
    if not records:
        raise InputError(f"{folder}: holds no records (*.parquet); name a score table, or a folder that a run wrote.")
    frame = records_to_table(records)
    frame["model"] = _model_names(records)
    frame["benchmark"] = _benchmark_names(records)
    for name in ("suite", "arm"):
        frame[name] = frame[name].fillna("")
    frame["prompt"] = [record.prompt for record in records]
    frame["answer"] = [_answer(record) for record in records]
    frame["gold"] = ["\n".join(record.gold) for record in records]
    frame[OPTIONS] = pd.Series([_options(record) for record in records], dtype="object", index=frame.index)
    if any(record.benchmark == "bbq" for record in records):
        frame["category"] = [_category(record) for record in records]
    return Outcomes(frame, tuple(map(str, frame.columns)), unfinished)


def _records(folder: Path) -> tuple[list[Record], tuple[str, ...]]:
    """A run's records as its plan lists them, or those of all records files below a folder that count."""
    from safetyrepro.crosspkg.folder import counted_files, load_experiment

    if (folder / "experiment.json").is_file():
        experiment = load_experiment(folder)
        return [record for cell in experiment.cells for record in cell.records], experiment.unfinished
    return [record for path in counted_files(folder) for record in read_records(path)], ()


def _model_names(records: Sequence[Record]) -> list[str]:
    """Models by name; by name and numerics where one name stands for several."""
    named = [(record.model or "unknown model", record.numerics or "unknown numerics") for record in records]
    numerics: dict[str, set[str]] = {}
    for model, how in named:
        numerics.setdefault(model, set()).add(how)
    return [model if len(numerics[model]) == 1 else f"{model} ({how})" for model, how in named]


def _benchmark_names(records: Sequence[Record]) -> list[str]:
    """Benchmarks by name; by name and metric where a run scores one by several: those are several tasks."""
    metrics: dict[str, set[str]] = {}
    for record in records:
        metrics.setdefault(record.benchmark, set()).add(record.metric)
    several = {name for name, known in metrics.items() if len(known) > 1}
    return [f"{r.benchmark} {r.metric}" if r.benchmark in several else r.benchmark for r in records]


def _answer(record: Record) -> str:
    if record.response is not None:
        return record.response
    if record.choice is not None and 0 <= record.choice < len(record.candidates):
        return record.candidates[record.choice].text
    return record.extracted or ""


def _options(record: Record) -> dict[str, float] | None:
    """Summed logprobs by option; None where a sum is missing or two options read alike."""
    sums: dict[str, Any] = {candidate.text: candidate.logprob for candidate in record.candidates}
    if len(sums) < 2 or len(sums) < len(record.candidates) or any(value is None for value in sums.values()):
        return None
    return sums


def _category(record: Record) -> str:
    """BBQ's cluster is `bbq-<category>-<template>`."""
    return record.cluster.removeprefix("bbq-").rsplit("-", 1)[0] if record.benchmark == "bbq" else record.benchmark
