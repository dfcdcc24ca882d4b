"""Writes records as they come, one file a cell, so that no more than a batch of them is in memory.

```
OUT/records.parquet                 the records, where all are of one cell (suite, model and configuration)
OUT/cells/<name>/records.parquet    the records of each cell, where there are several
OUT/import.json                     the summary
```
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.errors import InputError
from safetyrepro.records import Record, arrow_schema

BATCH = 4096
MOST_TEXT = 1 << 25
"""Characters of prompts and responses that are held at most, about: 32 M."""
RECORDS, SUMMARY, CELLS = "records.parquet", "import.json", "cells"
_COLUMNS = tuple(column.name for column in fields(Record))
_LONGEST_NAME = 60


class RecordFolder:
    """A new folder of records, there whole once the block ends without an error, or not at all."""

    def __init__(self, folder: Path) -> None:
        if folder.is_file():
            raise InputError(f"{folder}: is a file; name a new folder with --out.")
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder}: is there already and not empty; name a new folder with --out.")
        self._folder = folder
        self._open: dict[str, _Shard] = {}
        self._done: list[Path] = []

    def __enter__(self) -> RecordFolder:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = Path(tempfile.mkdtemp(dir=self._folder.parent, prefix=f".{self._folder.name}."))
        return self

    def add(self, record: Record) -> None:
        """Write a record, sooner or later."""
        shard = self._open.get(record.cell_id)
        if shard is None:
            folder = self._temporary / CELLS / _name(record)
            while folder.exists():
                folder = folder.with_name(f"{folder.name}-again")
            shard = self._open[record.cell_id] = _Shard(folder / RECORDS)
        shard.add(record)

    def end_run(self) -> None:
        """No further record is of a cell that has been written to."""
        for shard in self._open.values():
            shard.close()
            self._done.append(shard.path)
        self._open.clear()

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary beside the records."""
        if len(self._done) == 1:
            self._done[0].replace(self._temporary / RECORDS)
            shutil.rmtree(self._temporary / CELLS)
        write_json(self._temporary / SUMMARY, summary)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._temporary.chmod(0o755)
                if self._folder.exists():
                    self._folder.rmdir()
                self._temporary.replace(self._folder)
        finally:
            for shard in self._open.values():
                shard.close()
            shutil.rmtree(self._temporary, ignore_errors=True)


class _Shard:
    """The records of one cell."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        path.parent.mkdir(parents=True)
        self.path = path
        self._schema = arrow_schema()
        self._writer: Any = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[Record] = []
        self._text = 0

    def add(self, record: Record) -> None:
        self._waiting.append(record)
        self._text += text_size(vars(record))
        if len(self._waiting) >= BATCH or self._text > MOST_TEXT:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._waiting:
            return
        columns: dict[str, list[Any]] = {name: [getattr(record, name) for record in self._waiting] for name in _COLUMNS}
        columns["candidates"] = [[vars(one) for one in candidates] for candidates in columns["candidates"]]
        columns["extra"] = [list(extra.items()) for extra in columns["extra"]]
        arrays = [pa.array(columns[field.name], type=field.type) for field in self._schema]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._waiting.clear()
        self._text = 0


def text_size(fields: Mapping[str, Any]) -> int:
    """About how many characters the fields of a record hold."""
    return len(fields["prompt"] or "") + len(fields["response"] or "") + sum(map(len, fields["extra"].values()))


def _name(record: Record) -> str:
    """A folder's name for a cell: made of what is safe in a name, and the cell's id."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{record.benchmark}-{record.model or ''}").strip("-")
    return f"{plain[:_LONGEST_NAME].strip('-') or 'cell'}-{record.cell_id[:10]}".lower()
