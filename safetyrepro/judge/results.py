"""Result tables for the meta-benchmark: wide CSV, LiveBench, lm-evaluation-harness results, score tables, records.

Every source becomes the same thing: a table by model whose columns hold numbers. Columns of lm-evaluation-harness are
named `task/metric`, whatever the release wrote (`acc`, `acc,none`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safetyrepro.analysis.cells import own_cells
from safetyrepro.errors import InputError
from safetyrepro.stability.source import Scores, benchmark_grids, read_scores
from safetyrepro.tables import read_rows

MODEL_COLUMNS = ("model", "name", "model_name")
VERDICT_COLUMNS = frozenset({"judge", "item_id", "order", "verdict"})
SCORE_TABLE_COLUMNS = frozenset({"model", "benchmark", "config_id", "score"})
LARGEST_JSON = 100 * 2**20
WHAT = "a result table"


@dataclass(frozen=True)
class ResultTable:
    """One source of results."""

    name: str
    """The file's stem or the folder's name: what a names table calls it."""
    path: Path
    rows: Mapping[str, tuple[str, Mapping[str, Any]]]
    """By model: the words that name the place, and the row."""
    columns: tuple[str, ...]

    def number(self, model: str, column: str) -> float | None:
        """The value of a cell; None where it is empty.

        Raises:
            InputError: the cell holds something else than a number.
        """
        where, row = self.rows[model]
        value = row.get(column)
        if value is None or (isinstance(value, str) and value.strip().casefold() in ("", "nan")):
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.inf
        if math.isinf(number) or (isinstance(value, str) and "_" in value):
            shown = repr(value)[:80]
            raise InputError(f"{self.path}, {where}: {column} is {shown}, it should be a number or empty.")
        return None if math.isnan(number) else number


@dataclass
class Sources:
    """Everything found under the paths that were given."""

    tables: list[ResultTable] = field(default_factory=list)
    verdicts: list[Path] = field(default_factory=list)
    names: list[tuple[Path, list[tuple[str, Mapping[str, str]]]]] = field(default_factory=list)
    """Names tables: a path and its rows, each with its place and a model's name by table."""
    ignored: list[str] = field(default_factory=list)
    """Files below a folder that are none of these, and cells of a run that have not ended, in words."""


def read_sources(paths: Iterable[Path]) -> Sources:
    """Read result tables, names tables and verdict tables from files and folders.

    Of a folder the tables that lie in it are read, and the lm-evaluation-harness results files anywhere below it. A
    folder of an anchor run gives its records.

    Raises:
        InputError: a path that is no such thing, or a table with an error, naming file, row and column.
    """
    found = Sources()
    plain: list[tuple[Path, list[str], list[tuple[str, Mapping[str, Any]]]]] = []
    for path in paths:
        if path.is_dir():
            _read_folder(path, found, plain)
        elif path.suffix.lower() == ".json":
            _add_harness(path.stem, path, [path], found, explicit=True)
        elif not _read_file(path, found, plain):
            raise InputError(f"{path}: column 'model' is missing; {WHAT} has a row per model, with its name in it.")
    stems = {table.name for table in found.tables} | {path.stem for path in found.verdicts}
    for path, columns, rows in plain:
        if len(columns) > 1 and set(columns) <= stems:
            found.names.append(_names_table(path, rows))
        else:
            found.ignored.append(f"{path.name}: no column names the model")
    return found


def read_names(path: Path) -> tuple[Path, list[tuple[str, Mapping[str, str]]]]:
    """A names table: a row per model, a column per table, its name in each.

    Raises:
        InputError: no table, or an empty one.
    """
    _, rows = read_rows(path, "a names table")
    return _names_table(path, rows)


def _names_table(
    path: Path, rows: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[Path, list[tuple[str, Mapping[str, str]]]]:
    listed: list[tuple[str, Mapping[str, str]]] = [
        (where, {key: str(value or "").strip() for key, value in row.items()}) for where, row in rows
    ]
    if not listed:
        raise InputError(f"{path}: holds no rows; a names table has a row per model and a column per table.")
    return path, listed


def _read_folder(
    folder: Path, found: Sources, plain: list[tuple[Path, list[str], list[tuple[str, Mapping[str, Any]]]]]
) -> None:
    before = len(found.tables) + len(found.verdicts) + len(plain)
    if (folder / "experiment.json").is_file() or any(folder.glob("cells/*/records.parquet")):
        _read_run(folder, found)
        return
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.startswith("samples_"):
            continue
        if path.suffix.lower() in (".csv", ".jsonl", ".ndjson", ".parquet"):
            _read_file(path, found, plain)
    _add_harness(folder.name, folder, sorted(folder.rglob("*.json")), found, explicit=False)
    if len(found.tables) + len(found.verdicts) + len(plain) == before:
        raise InputError(
            f"{folder}: holds no result table; name a folder with CSV tables, with lm-evaluation-harness results files "
            "(*.json), or of an anchor run."
        )


def _read_file(
    path: Path, found: Sources, plain: list[tuple[Path, list[str], list[tuple[str, Mapping[str, Any]]]]]
) -> bool:
    """Read one file; False where no column names the model."""
    columns, lazily = read_rows(path, WHAT)
    if set(columns) >= VERDICT_COLUMNS:
        found.verdicts.append(path)
        return True
    if set(columns) >= SCORE_TABLE_COLUMNS:
        found.tables.append(_long(path.stem, path, _cell_means(read_scores(path))))
        return True
    rows = list(lazily)
    key = next((column for name in MODEL_COLUMNS for column in columns if column.casefold() == name), None)
    if key is None:
        plain.append((path, columns, rows))
        return False
    by_model: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for where, row in rows:
        model = "" if row.get(key) is None else str(row[key]).strip()
        if not model:
            raise InputError(f"{path}, {where}: {key} is empty, it should be a model's name.")
        if model in by_model:
            raise InputError(
                f"{path}, {where}: model {model!r} stands in {by_model[model][0]} already; give each model one row."
            )
        by_model[model] = (where, row)
    if not by_model:
        raise InputError(f"{path}: holds no rows.")
    found.tables.append(ResultTable(path.stem, path, by_model, tuple(name for name in columns if name != key)))
    return True


def _add_harness(name: str, place: Path, files: list[Path], found: Sources, *, explicit: bool) -> None:
    """Results files of lm-evaluation-harness as one table; of two files with a model's task the newer one counts."""
    cells: dict[tuple[str, str], float] = {}
    taken: dict[tuple[str, str], tuple[float, Path]] = {}
    for path in files:
        body = _results_file(path)
        if body is None:
            if explicit:
                raise InputError(f"{path}: no lm-evaluation-harness results file; it should hold 'results' by task.")
            continue
        model, date = _model_of(path, body), _date(path, body)
        for task, metrics in body["results"].items():
            if not isinstance(metrics, dict):
                continue
            for metric, value in metrics.items():
                short = metric.removesuffix(",none")
                if isinstance(value, bool) or not isinstance(value, (int, float)) or "_stderr" in short:
                    continue
                key = (model, f"{task}/{short}")
                if key in taken and taken[key][1] != path:
                    before = taken[key]
                    newer = (date, path.name) > (before[0], before[1].name)
                    old, new = (before[1], path) if newer else (path, before[1])
                    found.ignored.append(f"{old.name}: {model} has a newer {task}/{short} in {new.name}")
                    if not newer:
                        continue
                taken[key] = (date, path)
                cells[key] = _number(path, f"results.{task}.{metric}", value)
    if cells:
        found.tables.append(_long(name, place, cells))


def _date(path: Path, body: Mapping[str, Any]) -> float:
    """Unix time of a run; 0 where the file does not say."""
    given = body.get("date")
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return 0.0
    date = _number(path, "date", given)
    if not math.isfinite(date):
        raise InputError(f"{path}: date is {date}, it should be a Unix time.")
    return date


def _number(path: Path, name: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{path}: {name} is {str(value)[:20]}..., it should be a number of at most 1e308.") from None


def _results_file(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise InputError(f"{path}: is over {LARGEST_JSON // 2**20} MiB; no results file is that large.")
        body = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name {WHAT}.") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({str(error)[:120]}).") from None
    if not isinstance(body, dict) or not isinstance(body.get("results"), dict) or not body["results"]:
        return None
    return body


def _model_of(path: Path, body: Mapping[str, Any]) -> str:
    config = body.get("config") if isinstance(body.get("config"), dict) else {}
    assert isinstance(config, dict)
    arguments = config.get("model_args")
    candidates = [body.get("model_name")]
    if isinstance(arguments, dict):
        candidates += [arguments.get("pretrained"), arguments.get("model")]
    elif isinstance(arguments, str):
        pairs = dict(pair.split("=", 1) for pair in arguments.split(",") if "=" in pair)
        candidates += [pairs.get("pretrained"), pairs.get("model")]
    candidates.append(config.get("model"))
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()
    raise InputError(f"{path}: does not say which model was run (model_name, config.model_args); add model_name.")


def _read_run(folder: Path, found: Sources) -> None:
    scores = read_scores(folder)
    means = _cell_means(scores)
    if not means:
        raise InputError(f"{folder}: no record holds a score; run the experiment to its end.")
    found.tables.append(_long(folder.name, folder, means))
    found.ignored += [f"{folder.name}: cell {name} has not ended" for name in scores.unfinished]


def _cell_means(scores: Scores) -> dict[tuple[str, str], float]:
    """By model and benchmark the mean of its cells' scores, each weighted by its items that hold one.

    Cells are scored as `grid` scores them: by parity where the benchmark is ranked so, which is taken before any mean
    over cells, since cells that lean to opposite sides are no fair model.
    """
    means: dict[tuple[str, str], float] = {}
    for grid in benchmark_grids(scores):
        weights = (~np.isnan(grid.scores)).sum(axis=2)
        cells = np.nan_to_num(own_cells(grid.scores, kind=grid.kind))
        for model, own, weight in zip(grid.models, cells, weights, strict=True):
            if weight.any():
                means[model, grid.benchmark] = float(np.average(own, weights=weight))
    return means


def _long(name: str, path: Path, cells: Mapping[tuple[str, str], float]) -> ResultTable:
    rows: dict[str, dict[str, float]] = {}
    for (model, column), value in cells.items():
        rows.setdefault(model, {})[column] = value
    columns = dict.fromkeys(column for _, column in cells)
    return ResultTable(name, path, {model: (f"model {model}", row) for model, row in rows.items()}, tuple(columns))
