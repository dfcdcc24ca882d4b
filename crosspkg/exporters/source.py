"""The records below a folder, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.crosspkg.folder import counted_files
from safetyrepro.crosspkg.importers.scoring import METRIC
from safetyrepro.errors import InputError
from safetyrepro.records import SCHEMA_VERSION, Candidate, Record, wrong_column

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 8192


def record_files(folder: Path) -> list[Path]:
    """The records files of a run, an import or any folder of them that count; a single file stands for itself.

    Raises:
        InputError: there are none, or one has another schema version or columns that are not those of records.
    """
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; name one that a run or an import wrote.")
    found = [folder] if folder.is_file() else counted_files(folder)
    files = [path for path in found if _is_records(path)]
    if not files:
        raise InputError(f"{folder}: holds no records; name a folder that a run or an import wrote.")
    return files


def _is_records(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file ({str(error).splitlines()[0]}).") from None
    version = (schema.metadata or {}).get(b"safetyrepro.schema", b"").decode()
    if version and version != SCHEMA_VERSION:
        raise InputError(f"{path}: records schema is {version!r}, this version reads {SCHEMA_VERSION!r}.")
    if version and (wrong := wrong_column(schema)) is not None:
        raise InputError(f"{path}: not a records file ({wrong}).")
    return bool(version)


def iterate_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a records file, some thousands at a time.

    Raises:
        InputError: the file is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH, columns=None if columns is None else list(columns))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: damaged ({str(error).splitlines()[0]}).") from None


def iterate_records(path: Path) -> Iterator[Record]:
    """The records of a file, in its order."""
    for batch in iterate_batches(path):
        for row in batch.to_pylist():
            row["wire_ids"], row["gold"] = tuple(row["wire_ids"]), tuple(row["gold"])
            row["candidates"] = tuple(Candidate(**one) for one in row["candidates"])
            row["extra"] = dict(row["extra"] or [])
            yield Record(**row)


def metric_value(wanted: str, metric: str, suite_score: float | None, extra: dict[str, Any]) -> float | None:
    """A record's value of the metric `wanted`, as its suite recorded it; None where it holds none."""
    if metric == wanted:
        return suite_score
    held = extra.get(f"{METRIC}{wanted}")
    return float(held) if held else None
