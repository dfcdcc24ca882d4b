"""Where a benchmark's rows come from: the pocket set, official files in the data folder, or the hub.

The SHA-256 of data in one file is that file's own. Of data in several files it is the SHA-256 of what
`sha256sum` prints for them in order of their names, so that anybody can compute it with two commands.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.config import UNVERIFIED
from safetyrepro.errors import InputError
from safetyrepro.unicode import is_text

if TYPE_CHECKING:
    from safetyrepro.config import BenchmarkSpec

POCKET = Path(__file__).parent / "pocket"


@dataclass(frozen=True)
class SourceFile:
    """A file of data, wholly read."""

    shown: str
    """How errors name it: the full path."""
    name: str
    """The file's own name, as it enters the hash of several files."""
    content: bytes

    def text(self) -> str:
        """The content as UTF-8, without a byte order mark.

        Raises:
            InputError: the bytes are not UTF-8.
        """
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.shown}: byte {error.start} is {self.content[error.start]:#04x}, which is not UTF-8; "
                "take the official file unchanged."
            ) from None


def read(path: Path, advice: str) -> SourceFile:
    """Read one file; `advice` says where it can be had.

    Raises:
        InputError: the file is not there or cannot be read.
    """
    try:
        return SourceFile(str(path), path.name, path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {advice}") from None


def local(spec: BenchmarkSpec, data_dir: Path | None, usual: str, advice: str) -> Path:
    """The path of official data: `spec.path`, else `usual`, below the data folder.

    Raises:
        InputError: no data folder is named.
    """
    relative = Path(spec.path if spec.path is not None else usual)
    if data_dir is None and not relative.is_absolute():
        raise InputError(
            f"benchmark.source is 'file' and no data folder is named: looked for {relative} below it; give --data-dir "
            f"or set SAFETYREPRO_DATA to a folder laid out as docs/data.md says. {advice[0].upper()}{advice[1:]}"
        )
    return relative if data_dir is None else data_dir / relative


def official(spec: BenchmarkSpec, usual: str) -> str:
    """How people are told of official data: by the path below the data folder, never by one of this machine."""
    return f"official file {usual if spec.path is None or Path(spec.path).is_absolute() else spec.path}"


def csv_rows(file: SourceFile, columns: Sequence[str], advice: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a CSV file by column, with where it ends (`FILE, line N`).

    Args:
        file: The file.
        columns: What the header must hold; further columns are kept.
        advice: Where the right file can be had.

    Raises:
        InputError: a column is missing or stands twice, a row has another number of fields, or it is no CSV.
    """
    reader = csv.reader(io.StringIO(file.text(), newline=""), strict=True)
    try:
        header = next(reader, [])
        for column in columns:
            if header.count(column) != 1:
                what = "stands twice" if column in header else "is missing"
                found = ", ".join(header)[:200] or "nothing"
                raise InputError(f"{file.shown}, line 1: column {column!r} {what}, found {found}; {advice}")
        for values in reader:
            where = f"{file.shown}, line {reader.line_num}"
            if len(values) != len(header):
                raise InputError(f"{where}: found {len(values)} fields, the header has {len(header)}.")
            yield where, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise InputError(f"{file.shown}, line {reader.line_num}: not a CSV row ({error}); {advice}") from None


def parquet_rows(file: SourceFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a Parquet file by column, with where it stands (`FILE, row N`).

    Raises:
        InputError: it is no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # In this thread alone: a reader thread that drops Python's bytes while the interpreter ends aborts the process.
        rows = pq.ParquetFile(pa.BufferReader(file.content), pre_buffer=False).read(use_threads=False).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file.shown}: not a Parquet file ({str(error).splitlines()[0]}).") from None
    return ((f"{file.shown}, row {number}", row) for number, row in enumerate(rows, 1))


def json_lines(file: SourceFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a JSONL file, with where it stands (`FILE, line N`).

    Raises:
        InputError: a line is not a JSON object.
    """
    for number, line in enumerate(file.text().split("\n"), 1):
        if not line.strip():
            continue
        where = f"{file.shown}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not a JSON object ({error}); take the official file unchanged.") from None
        if not isinstance(row, dict):
            raise InputError(f"{where}: found {line.strip()[:40]!r}, it should be a JSON object.")
        if not is_text(row):
            raise InputError(f"{where}: holds half of a surrogate pair, which is no text; take the official file.")
        yield where, row


def data_sha256(files: Sequence[SourceFile]) -> str:
    """SHA-256 (hex) of the data: of the one file, or of the several files' `sha256sum` lines in order of name."""
    hashes = {file.name: hashlib.sha256(file.content).hexdigest() for file in files}
    if len(files) == 1:
        return hashes[files[0].name]
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def hub_commit(repository: str, revision: str | None) -> str:
    """The commit that `revision` of a hub data set stands for; `unverified` stands for the newest.

    Raises:
        InputError: the hub cannot be reached or knows no such revision.
    """
    from huggingface_hub import HfApi

    if revision is not None and revision != UNVERIFIED:
        return revision
    try:
        commit = HfApi().dataset_info(repository).sha
    except Exception as error:
        raise InputError(_hub_problem(repository, "its newest revision", error)) from None
    if commit is None:
        raise InputError(f"{repository}: the hub names no commit for it; set benchmark.revision to one.")
    return commit


def hub_file(repository: str, name: str, revision: str) -> SourceFile:
    """One file of a hub data set at a commit, from the hub's cache where it is there already.

    Raises:
        InputError: the file cannot be had.
    """
    from huggingface_hub import hf_hub_download

    try:
        path = Path(hf_hub_download(repository, name, repo_type="dataset", revision=revision))
    except Exception as error:
        raise InputError(_hub_problem(repository, f"{name} at revision {revision}", error)) from None
    return SourceFile(f"{repository}/{name}@{revision}", Path(name).name, path.read_bytes())


def _hub_problem(repository: str, wanted: str, error: Exception) -> str:
    # The hub client wraps whatever its transport raises, so the kinds of error are open-ended.
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return (
        f"Hub data set {repository}: {wanted} could not be had ({reason}); check benchmark.revision and the "
        "connection, or put the official files in a data folder and set benchmark.source to 'file'."
    )
