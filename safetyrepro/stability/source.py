"""The scores that `safetyrepro grid` reads: a score table, an anchor run's folder, or a folder of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro import benchmarks
from safetyrepro.errors import InputError
from safetyrepro.tables import KEY, LARGEST_SCORE, place, read_table, records_to_table

if TYPE_CHECKING:
    import pandas as pd

    from safetyrepro.analysis.aggregate import Aggregate
    from safetyrepro.analysis.grid import BenchmarkGrid

CHANCE: Mapping[str, float] = {"bbq": 1 / 3, "toxigen": 1 / 2, "xstest": 1 / 2}
"""Expected score of a guess where it is the same for every item; elsewhere a run's folder or a `chance` column says."""


@dataclass(frozen=True)
class Scores:
    """What was read, before it is cut into benchmarks."""

    frame: pd.DataFrame
    """Columns and types as `safetyrepro.tables.read_table` gives them."""
    item_level: bool
    chance: Mapping[tuple[str, str], float]
    """Expected score of a guess by benchmark and `config_id`, where the source says."""
    written_nan: int
    """Scores that the table writes as a bare NaN."""
    unfinished: tuple[str, ...] = ()
    """Cells of a run that have not ended."""


def read_scores(path: Path) -> Scores:
    """Read a score table (a file) or a results folder.

    Raises:
        InputError: naming file, row and column, what was found and what would be right.
    """
    if path.is_dir():
        scores = _experiment(path) if (path / "experiment.json").is_file() else _records(path)
        largest = scores.frame["score"].abs().max()
        if largest > LARGEST_SCORE:
            raise InputError(f"{path}: holds a score of size {largest:g}, it should be at most {LARGEST_SCORE:g}.")
        return scores
    table = read_table(path)
    return Scores(table.frame, table.item_level, _chance_column(path, table.frame), table.written_nan)


def benchmark_grids(scores: Scores, *, parity: Iterable[str] = ()) -> tuple[BenchmarkGrid, ...]:
    """The benchmarks of what was read.

    Args:
        scores: as `read_scores` gives them.
        parity: further benchmarks that are ranked by parity.

    Raises:
        InputError: the table contradicts itself, or `parity` names a benchmark that is not in it.
    """
    from safetyrepro.analysis.grid import grids

    names = set(parity)
    unknown = names - set(scores.frame["benchmark"])
    if unknown:
        held = ", ".join(sorted(set(scores.frame["benchmark"])))
        raise InputError(f"--parity names {sorted(unknown)[0]!r}, the table has {held}.")
    return grids(
        scores.frame,
        item_level=scores.item_level,
        kind=lambda name: "parity" if name in names else _kind(name),
        chance=_chance(scores.chance),
    )


def _kind(name: str) -> Aggregate:
    """The benchmark's own way, whatever punctuation its name is spelt with; the mean where it is not known."""
    known = {_plain(own): benchmarks.get(own).aggregate for own in benchmarks.names()}
    return known.get(_plain(name), "mean")


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _chance(given: Mapping[tuple[str, str], float]) -> Callable[[str, str], float | None]:
    return lambda benchmark, config_id: given.get((benchmark, config_id), CHANCE.get(_plain(benchmark)))


def _chance_column(path: Path, frame: pd.DataFrame) -> dict[tuple[str, str], float]:
    if "chance" not in frame:
        return {}
    found: dict[tuple[str, str], float] = {}
    rows = frame[["benchmark", "config_id", "chance"]].drop_duplicates()
    for benchmark, config_id, value in rows.itertuples(index=False):
        if value is None or value == "" or value != value:
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = -1.0
        key = (str(benchmark), str(config_id))
        if not 0 <= number <= 1 or found.get(key, number) != number:
            raise InputError(
                f"{path}: chance of benchmark {benchmark!r}, config_id {config_id!r} is {repr(value)[:80]}; give one "
                "share in [0, 1] for all rows of a configuration, or leave it empty."
            )
        found[key] = number
    return found


def _experiment(folder: Path) -> Scores:
    from safetyrepro.crosspkg.folder import load_experiment

    experiment = load_experiment(folder)
    records = [record for cell in experiment.cells for record in cell.records]
    if not records:
        raise InputError(f"{folder}: none of its cells ended with records; run `safetyrepro anchor run` again.")
    frame = records_to_table(records)
    frame["metric"] = [record.metric for record in records]
    frame = _metrics_apart(frame)
    chance = {
        (str(b), info.config_id): info.chance for info in experiment.configs for b in _names(frame, info.config_id)
    }
    return Scores(frame, True, chance, 0, experiment.unfinished)


def _names(frame: pd.DataFrame, config_id: str) -> list[str]:
    return [str(name) for name in frame.loc[frame["config_id"] == config_id, "benchmark"].unique()]


def _metrics_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """Name a benchmark by its metric too where a run scores it by several: they are not cells of one grid."""
    several = frame.groupby("benchmark")["metric"].transform("nunique") > 1
    frame["benchmark"] = frame["benchmark"].where(~several, frame["benchmark"] + " " + frame["metric"])
    return frame.drop(columns="metric")


def _records(folder: Path) -> Scores:
    """Read the score columns of every records file below `folder` that counts, and nothing else of them."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from safetyrepro.crosspkg.folder import counted_files
    from safetyrepro.records import SCHEMA_VERSION, wrong_column

    columns = list(records_to_table([]).columns)
    tables = []
    for path in counted_files(folder):
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: not a records file ({str(error).splitlines()[0]}).") from None
        version = (file.schema_arrow.metadata or {}).get(b"safetyrepro.schema", b"").decode()
        if not version:
            continue
        if version != SCHEMA_VERSION:
            raise InputError(f"{path}: records schema is {version!r}, this version reads {SCHEMA_VERSION!r}.")
        if (wrong := wrong_column(file.schema_arrow, [*columns, "metric"])) is not None:
            raise InputError(f"{path}: not a records file ({wrong}).")
        tables.append(file.read(columns=[*columns, "metric"]))
    if not tables:
        raise InputError(f"{folder}: holds neither experiment.json nor a records file; name a score table or a run.")
    frame = pa.concat_tables(tables).to_pandas()
    for name in frame:
        if name == "score":
            frame[name] = frame[name].astype("float64")
        elif name in ("shots", "repeat"):
            frame[name] = frame[name].astype("Int64")
        else:
            frame[name] = frame[name].fillna("").astype("object")
    frame = _metrics_apart(frame)
    keys = [name for name in KEY if name in frame]
    twice = frame[frame.duplicated(keys)]
    if len(twice):
        row = place(dict(twice.iloc[0]), keys)
        raise InputError(f"{folder}: holds two records for {row}; each is run once, or numbered as a repeat.")
    return Scores(pd.DataFrame(frame), True, {}, 0)
