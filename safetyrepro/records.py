"""Records: one row per (run, suite, arm, model, benchmark, config, item, repeat), the same for every suite."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.atomic import write_bytes
from safetyrepro.benchmarks.base import Status
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = "1"
STATUSES: tuple[Status, ...] = ("ok", "unparsed", "refused", "truncated", "error", "missing", "undefined")


@dataclass(frozen=True)
class Candidate:
    """One scored candidate as the suite sent it."""

    text: str
    """The candidate's text as scored, with the delimiter that the suite put before it."""
    logprob: float | None
    """Summed logprob in nats; None where the suite got none."""
    n_tokens: int | None
    n_chars: int
    n_bytes: int
    ids_sha256: str | None
    """`ids_sha256` of the whole sequence, context and candidate."""
    wire_id: str | None


@dataclass(frozen=True)
class Record:
    """One item's outcome in one cell.

    A run of ours fills in every field; of logs that were imported, what the log does not hold is None.
    """

    run_id: str
    suite: str
    suite_version: str | None
    arm: str | None
    model: str | None
    model_sha256: str | None
    """SHA-256 of the weights; None where nobody here has read them."""
    numerics: str | None
    """`quant/compute dtype/decode/mode`, or `upstream`."""
    benchmark: str
    config_id: str
    cell_id: str
    item_id: str
    cluster: str
    repeat: int
    metric: str
    template: str | None
    decoding: str | None
    """`greedy` or `T=0.3`."""
    shots: int | None
    scoring: str | None
    """`logprob` or `free`: the path by which the suite really scored."""
    prompt: str | None
    """What was sent: the context before the candidates, or the prompt of the generation; chat as templated."""
    prompt_sha256: str | None
    """`ids_sha256` of the prompt's token ids as the model saw them."""
    n_prompt_tokens: int | None
    wire_ids: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    response: str | None
    finish_reason: str | None
    extracted: str | None
    """What the suite (or the config's rule) read from the response, or the chosen candidate's text."""
    extracted_other: str | None
    """What the config's other extraction rule reads."""
    gold: tuple[str, ...]
    """The right answers as this suite scores them: texts or letters."""
    choice: int | None
    """Index into `candidates` of the chosen one."""
    score: float | None
    """In [0, 1]; None unless the status gives one."""
    suite_score: float | None
    """The suite's own recorded item score, before any reading of ours."""
    status: Status
    reason: str | None
    extra: dict[str, str] = field(default_factory=dict)
    """Further facts of the suite's own, as text."""


def arrow_schema() -> pa.Schema:
    """The Parquet schema of a records file, with the schema version in its metadata."""
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    candidate = pa.struct(
        [
            ("text", text),
            ("logprob", real),
            ("n_tokens", whole),
            ("n_chars", whole),
            ("n_bytes", whole),
            ("ids_sha256", text),
            ("wire_id", text),
        ]
    )
    special: dict[str, Any] = {
        "repeat": whole,
        "shots": whole,
        "n_prompt_tokens": whole,
        "choice": whole,
        "score": real,
        "suite_score": real,
        "wire_ids": pa.list_(text),
        "gold": pa.list_(text),
        "candidates": pa.list_(candidate),
        "extra": pa.map_(text, text),
    }
    columns = [(column.name, special.get(column.name, text)) for column in fields(Record)]
    return pa.schema(columns, metadata={"safetyrepro.schema": SCHEMA_VERSION})


def wrong_column(schema: pa.Schema, names: Iterable[str] | None = None) -> str | None:
    """What keeps a Parquet file's columns from being those of records, in words; None where they are.

    Args:
        schema: the file's.
        names: the columns that are needed; all of them by default.
    """
    held = arrow_schema()
    for name in held.names if names is None else names:
        wanted, at = held.field(name).type, schema.get_field_index(name)
        if at < 0:
            return f"column {name!r} {'stands twice' if name in schema.names else 'is missing'}"
        if schema.field(at).type != wanted:
            return f"column {name!r} is {schema.field(at).type}, it should be {wanted}"
    return None


def write_records(path: Path, records: list[Record]) -> None:
    """Write records as Parquet (zstd), atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for record in records:
        row = asdict(record)
        row["extra"] = list(record.extra.items())
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=arrow_schema())
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


def read_records(path: Path) -> list[Record]:
    """Read one Parquet file of records.

    Raises:
        InputError: no Parquet file, another schema version, or columns that are not those of records.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a records file ({str(error).splitlines()[0]}).") from None
    version = (table.schema.metadata or {}).get(b"safetyrepro.schema", b"none").decode()
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: records schema is {version!r}, this version reads {SCHEMA_VERSION!r}.")
    if (wrong := wrong_column(table.schema)) is not None:
        raise InputError(f"{path}: not a records file ({wrong}).")
    records = []
    for row in table.select(arrow_schema().names).to_pylist():
        row["wire_ids"] = tuple(row["wire_ids"])
        row["gold"] = tuple(row["gold"])
        row["candidates"] = tuple(Candidate(**candidate) for candidate in row["candidates"])
        row["extra"] = dict(row["extra"] or [])
        records.append(Record(**row))
    return records
