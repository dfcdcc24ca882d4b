"""Records as a plain score table: a DataFrame, or a CSV, JSONL or Parquet file that every analysis reads."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from safetyrepro.crosspkg.exporters.source import iterate_batches, metric_value, record_files
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "model",
    "benchmark",
    "config_id",
    "item_id",
    "score",
    "suite",
    "arm",
    "cluster",
    "template",
    "decoding",
    "shots",
    "scoring",
    "repeat",
    "status",
    "metric",
)
_TEXTS = tuple(name for name in COLUMNS if name not in ("score", "shots", "repeat"))
_NEEDED = ("suite_score", "extra")


def records_frame(folder: Path, metric: str | None = None) -> pd.DataFrame:
    """The score table of the records below `folder`.

    Args:
        folder: Of a run, of an import, or any with records files.
        metric: Take this metric's values, as the suite recorded them, instead of the records' scores.

    Returns:
        One row a record: text columns as `str` ("" where the log holds nothing), `shots` and `repeat` as Int64, `score`
        as float64 with NaN where there is none.

    Raises:
        InputError: no records there, records without a model, or none with that metric.
    """
    import pandas as pd

    return pd.concat(list(_frames(folder, metric)), ignore_index=True)


@dataclass(frozen=True)
class Written:
    """What a score table came to hold."""

    rows: int
    models: tuple[str, ...]
    """In the order of the table."""


def export_table(folder: Path, out: Path, metric: str | None = None) -> Written:
    """Write the score table of the records below `folder` to `out`, whole or not at all.

    Raises:
        InputError: as `records_frame`, `out` has another ending than .csv, .jsonl or .parquet, or is a file of the run.
    """
    writers: dict[str, Callable[[Path], _Writer]] = {
        ".csv": _Csv,
        ".jsonl": _Jsonl,
        ".ndjson": _Jsonl,
        ".parquet": _Parquet,
    }
    writer_of = writers.get(out.suffix.lower())
    if writer_of is None:
        raise InputError(f"{out}: a score table ends in .csv, .jsonl or .parquet.")
    _check_not_of_the_run(folder, out)
    frames = _frames(folder, metric)
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    os.close(handle)
    temporary, rows = Path(name), 0
    models: dict[str, None] = {}
    try:
        writer = writer_of(temporary)
        try:
            for frame in frames:
                writer.add(frame)
                rows += len(frame)
                models.update(dict.fromkeys(frame["model"].unique()))
        finally:
            writer.close()
        temporary.chmod(0o644)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return Written(rows, tuple(models))


def _check_not_of_the_run(folder: Path, out: Path) -> None:
    """Refuse to replace records, or any other file of the run; an earlier export in its folder may be replaced."""
    for path in record_files(folder):
        if out.exists() and out.samefile(path):
            raise InputError(f"{out}: holds the records that would be exported; give --out another path.")
    if out.is_file() and folder.resolve() in out.resolve().parents and not _is_export(out):
        raise InputError(f"{out}: is a file of the run, not an earlier score table; give --out another path.")


def _is_export(path: Path) -> bool:
    """Whether a file holds the columns that this module writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".parquet":
            return tuple(pq.read_schema(path).names) == COLUMNS
        with path.open(encoding="utf-8") as stream:
            first = stream.readline()
        return first.strip() == ",".join(COLUMNS) or tuple(json.loads(first)) == COLUMNS
    except (ValueError, TypeError, OSError, pa.ArrowException):
        return False


def _frames(folder: Path, metric: str | None) -> Iterator[pd.DataFrame]:
    found: dict[str, None] = {}
    held = False
    for path in record_files(folder):
        columns = [*COLUMNS, *_NEEDED] if metric is not None else COLUMNS
        for batch in iterate_batches(path, columns):
            frame = batch.to_pandas()
            if frame["model"].isna().any():
                raise InputError(
                    f"{path}: {int(frame['model'].isna().sum())} records name no model; import the log again with "
                    "--model NAME."
                )
            if metric is not None:
                rows = zip(frame["metric"], frame["suite_score"], frame["extra"], strict=True)
                frame["score"] = [metric_value(metric, *_plain(row)) for row in rows]
                held = held or bool(frame["score"].notna().any())
                found.update(dict.fromkeys(_metrics(frame)))
                frame["metric"] = metric
            yield _typed(frame)
    if metric is not None and not held:
        raise InputError(f"{folder}: no record holds the metric {metric!r}; there are {', '.join(found) or 'none'}.")


def _plain(row: tuple[Any, Any, Any]) -> tuple[str, float | None, dict[str, Any]]:
    name, value, extra = row
    return (
        str(name),
        None if value is None or value != value else float(value),
        dict(extra if extra is not None else ()),
    )


def _metrics(frame: pd.DataFrame) -> list[str]:
    from safetyrepro.crosspkg.importers.scoring import METRIC

    names = list(frame["metric"].unique())
    names += [key.removeprefix(METRIC) for extra in frame["extra"] for key in dict(extra) if key.startswith(METRIC)]
    return names


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame[list(COLUMNS)].copy()
    for name in _TEXTS:
        frame[name] = frame[name].fillna("").astype("object")
    frame["shots"] = frame["shots"].astype("Int64")
    frame["repeat"] = frame["repeat"].astype("Int64")
    frame["score"] = frame["score"].astype("float64")
    return frame


class _Writer(Protocol):
    def add(self, frame: pd.DataFrame) -> None: ...

    def close(self) -> None: ...


class _Csv:
    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8", newline="")
        self._header = True

    def add(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self._stream, index=False, header=self._header, lineterminator="\n")
        self._header = False

    def close(self) -> None:
        self._stream.close()


class _Jsonl:
    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8")

    def add(self, frame: pd.DataFrame) -> None:
        # pandas' own writer rounds to 15 digits.
        plain = frame.astype("object").where(frame.notna(), None)
        for row in plain.to_dict(orient="records"):
            self._stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

    def close(self) -> None:
        self._stream.close()


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def add(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(frame, schema=_schema(), preserve_index=False)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"score": pa.float64(), "shots": pa.int64(), "repeat": pa.int64()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
