"""Joins a judge's scores of models with their benchmark results, under the names that each table gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from safetyrepro.errors import InputError
from safetyrepro.judge.composition import Benchmark, Composition
from safetyrepro.judge.results import ResultTable, Sources

JUDGE_COLUMNS = ("judge_score", "judge", "win_rate", "winrate", "score")
"""Columns taken for the judge's score, the first one that a table has."""
LARGEST_SCORE = 1e12

Name = Callable[[str], str | None]


@dataclass(frozen=True)
class JudgeScores:
    """A judge's score of each model."""

    table: str
    column: str
    scores: Mapping[str, float]


@dataclass
class Joined:
    """Scores and benchmark values under the judge's names for the models."""

    judge: JudgeScores
    values: dict[str, dict[str, dict[str, float]]]
    """By factor, benchmark and model; shares in [0, 1], higher is better."""
    columns: dict[str, list[str]]
    """By benchmark, where its value came from."""
    absent: dict[str, list[str]]
    """By factor, benchmarks that no table holds."""
    left_out: dict[str, str]
    """Models with a judge score that no factor could use, with the reason."""
    incomplete: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By factor and model, the benchmarks that it lacks: it is left out of that factor."""


def join(
    sources: Sources,
    composition: Composition,
    *,
    judge_table: str | None = None,
    judge_column: str | None = None,
    given: JudgeScores | None = None,
) -> Joined:
    """Find the judge's scores and every benchmark, under one name per model.

    Args:
        sources: what was read.
        composition: the factors.
        judge_table: the table that holds the judge's scores, where more than one could.
        judge_column: its column, where it is none of `JUDGE_COLUMNS`.
        given: the judge's scores, where they come from verdicts.

    Raises:
        InputError: no table or more than one holds the judge's scores, a names table that does not fit, a benchmark
            that two tables hold, or a value that is no share.
    """
    judging, column = (None, None) if given else _judge_table(sources.tables, judge_table, judge_column)
    canonical = given.table if given else judging.name if judging else ""
    renamed = _names(sources, canonical)
    if given is not None:
        judge = given
    else:
        assert judging is not None
        assert column is not None
        judge = JudgeScores(judging.name, column, _numbers(judging, column, renamed[judging.name]))
    if not judge.scores:
        raise InputError(f"Judge scores ({judge.table}, {judge.column}): no model has one.")
    values: dict[str, dict[str, dict[str, float]]] = {}
    columns: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    for factor, benchmarks in composition.factors.items():
        values[factor] = {}
        for benchmark in benchmarks:
            place = _place(benchmark, sources.tables, judge, judging)
            if place is None:
                absent.setdefault(factor, []).append(benchmark.name)
                continue
            table, found = place
            columns[benchmark.name] = [f"{table.name}: {name}" for name in found]
            values[factor][benchmark.name] = _shares(table, found, benchmark, renamed[table.name])
    joined = Joined(judge, values, columns, absent, {})
    _complete(joined)
    return joined


def _judge_table(tables: Sequence[ResultTable], named: str | None, column: str | None) -> tuple[ResultTable, str]:
    wanted = (column,) if column is not None else JUDGE_COLUMNS
    found = []
    for table in tables:
        if named is not None and table.name != named:
            continue
        match = next((name for want in wanted for name in table.columns if name.casefold() == want.casefold()), None)
        if match is not None:
            found.append((table, match))
    if len(found) == 1:
        return found[0]
    listed = ", ".join(table.name for table in tables) or "none"
    looked = " or ".join(repr(want) for want in wanted)
    if not found:
        where = f"table {named!r}" if named is not None else "any table"
        raise InputError(
            f"Judge scores: no column {looked} in {where} (tables: {listed}); name it with --judge-column."
        )
    several = ", ".join(f"{table.name} ({match})" for table, match in found)
    raise InputError(f"Judge scores: {several} could all hold them; name one with --judge-table.")


def _names(sources: Sources, canonical: str) -> dict[str, Name]:
    """Per table the function from its name for a model to the judge's; None where a names table leaves it out."""
    renamed: dict[str, Name] = {table.name: lambda name: name for table in sources.tables}
    twice = next((t.name for t in sources.tables if [o.name for o in sources.tables].count(t.name) > 1), None)
    if twice is not None:
        raise InputError(f"Two tables are called {twice!r}: rename one, since tables are told apart by name.")
    if len(sources.names) > 1:
        raise InputError(f"{sources.names[0][0]} and {sources.names[1][0]} are both names tables: keep one.")
    for path, rows in sources.names:
        columns = list(rows[0][1])
        target = canonical if canonical in columns else columns[0]
        for table in sources.tables:
            if table.name in columns:
                mapping = _mapping(path, rows, table, target)
                renamed[table.name] = mapping.get
    return renamed


def _mapping(
    path: object, rows: Sequence[tuple[str, Mapping[str, str]]], table: ResultTable, target: str
) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for where, row in rows:
        own, name = row.get(table.name, ""), row.get(target, "")
        if not own or not name:
            continue
        if own not in table.rows:
            raise InputError(f"{path}, {where}: {table.name} is {own!r}, which {table.path} does not hold.")
        if own in mapping or name in mapping.values():
            raise InputError(f"{path}, {where}: {own!r} stands twice; a names table has one row per model.")
        mapping[own] = name
    return mapping


def _numbers(table: ResultTable, column: str, rename: Name) -> dict[str, float]:
    found = {}
    for model in table.rows:
        name = rename(model)
        value = table.number(model, column) if name is not None else None
        if name is not None and value is not None:
            if abs(value) > LARGEST_SCORE:
                where, _ = table.rows[model]
                raise InputError(
                    f"{table.path}, {where}: {column} is {value:g}, it should lie within {LARGEST_SCORE:g} of 0."
                )
            found[name] = value
    return found


def _place(
    benchmark: Benchmark, tables: Sequence[ResultTable], judge: JudgeScores, judging: ResultTable | None
) -> tuple[ResultTable, list[str]] | None:
    for find in (
        lambda columns: _matching(columns, benchmark.columns),
        lambda columns: _matching(columns, benchmark.or_columns),
        lambda columns: [name for name in columns if _plain(name) == _plain(benchmark.name)],
    ):
        places = []
        for table in tables:
            columns = [name for name in table.columns if not (table is judging and name == judge.column)]
            found = find(columns)
            if found:
                places.append((table, found))
        if len(places) > 1:
            both = " and ".join(table.name for table, _ in places[:2])
            raise InputError(f"Benchmark {benchmark.name} stands in {both}: leave one of the tables out.")
        if places:
            return places[0]
    return None


def _matching(columns: Sequence[str], patterns: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        matched = [name for name in columns if fnmatchcase(name, pattern)]
        if not matched:
            return []
        found.update(dict.fromkeys(matched))
    return list(found)


def _plain(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.casefold())


def _shares(table: ResultTable, columns: Sequence[str], benchmark: Benchmark, rename: Name) -> dict[str, float]:
    raw: dict[str, float] = {}
    for model in table.rows:
        name = rename(model)
        cells = [table.number(model, column) for column in columns] if name is not None else []
        known = [cell for cell in cells if cell is not None]
        if name is not None and len(known) == len(columns):
            raw[name] = sum(known) / len(known)
    scale = benchmark.scale or (100.0 if any(value > 1 for value in raw.values()) else 1.0)
    for name, value in raw.items():
        if not 0 <= value <= scale:
            raise InputError(
                f"{table.path}: {benchmark.name} of {name} is {value:g}, it should lie between 0 and {scale:g} "
                "(a composition's scale says what a full score is)."
            )
    return {name: 1 - value / scale if benchmark.invert else value / scale for name, value in raw.items()}


def _complete(joined: Joined) -> None:
    """Note which models lack what."""
    for factor, benchmarks in joined.values.items():
        lacking = {}
        for model in joined.judge.scores:
            missing = [name for name, values in benchmarks.items() if model not in values]
            if missing:
                lacking[model] = missing
        joined.incomplete[factor] = lacking
    for model in joined.judge.scores:
        used = [f for f, benchmarks in joined.values.items() if benchmarks and model not in joined.incomplete[f]]
        if not used:
            joined.left_out[model] = "no factor has all its benchmarks for it"
