"""Files that are either wholly there or not there at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetyrepro.unicode import encoded

_RUST = re.compile(r"\(os error (\d+)\)")


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file in the same folder and a rename."""
    _replace({path: data})


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    _replace({path: encoded(text)})


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically; NaN is refused, so that the file is JSON for everybody."""
    write_text(path, json_text(value))


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write files that belong together: each atomically, and none of them before there was room for all."""
    _replace({path: encoded(text) for path, text in texts.items()})


def json_text(value: Any) -> str:
    """`value` as `write_json` writes it."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _replace(files: Mapping[Path, bytes]) -> None:
    temporaries: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporaries[path] = Path(name)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporaries[path].chmod(0o644)
        for path in files:
            temporaries[path].replace(path)
            del temporaries[path]
    except BaseException:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Around a library of Rust that writes below `path`: its own exceptions about the system become `OSError`.

    Raises:
        OSError: the library's exception ended with `(os error NUMBER)`.
    """
    try:
        yield
    except Exception as error:
        found = _RUST.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error
