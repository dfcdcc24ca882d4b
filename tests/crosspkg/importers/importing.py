"""What the importers' tests share: an import on the command line, and an import in this process with its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from safetyrepro.cli.imports import import_
from safetyrepro.crosspkg.exporters.source import iterate_records, record_files
from safetyrepro.crosspkg.importers import import_logs
from safetyrepro.progress import Progress
from safetyrepro.records import Record


def summary(suite: str, path: Path, **options: Any) -> dict[str, Any]:
    """The summary of an import that writes nothing."""
    return import_logs(suite, path, None, Progress(None), **options).as_json()


def imported(suite: str, path: Path, out: Path, **options: Any) -> tuple[dict[str, Any], list[Record]]:
    """The summary of an import and its records, in the order of their files."""
    body = import_logs(suite, path, out, Progress(None), **options).as_json()
    assert json.loads((out / "import.json").read_text()) == body
    return body, [record for file in record_files(out) for record in iterate_records(file)]


def command(suite: str, path: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that the command prints."""
    ended = CliRunner().invoke(import_, [suite, str(path), "--json", *arguments], standalone_mode=False)
    if ended.exception is not None:
        raise ended.exception
    body: dict[str, Any] = json.loads(ended.stdout)
    return body


def said(body: dict[str, Any], *words: str) -> bool:
    """Whether one warning holds all of the words."""
    return any(all(word in warning for word in words) for warning in body["warnings"])


def metrics(body: dict[str, Any]) -> dict[str, Any]:
    """The metrics of the one task."""
    (task,) = body["tasks"]
    found: dict[str, Any] = task["metrics"]
    return found


def write_json(path: Path, value: Any) -> Path:
    """`value` as JSON at `path`, NaN bare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    """JSON lines at `path`, NaN bare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
