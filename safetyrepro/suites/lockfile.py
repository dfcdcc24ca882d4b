"""A suite's lock file: every package with its version and hashes, and which of them are the suite itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetyrepro.errors import InputError

_MAIN = re.compile(r"^# safetyrepro: main (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Lock:
    """A lock file as read."""

    path: Path
    name: str
    """The runner's name: the lock's folder, and for `suite-<release>.lock` the release behind an `@`."""
    sha256: str
    main: tuple[str, ...]
    """The packages that make up the suite, itself first (line `# safetyrepro: main NAME...`)."""
    version: str
    """The suite's version as pinned; further packages of it follow in brackets."""


def read_lock(path: Path) -> Lock:
    """Read a lock file's identity.

    Raises:
        InputError: no such file, no text, or no line that names the main package.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: lock file cannot be read ({error}); name a file that docs/suites.md says.") from None
    line = _MAIN.search(text)
    if line is None:
        raise InputError(f"{path}: no line '# safetyrepro: main PACKAGE', which says whose version the suite's is.")
    main = tuple(line[1].split())
    pins = {name: _pinned(text, name) for name in main}
    for name, pin in pins.items():
        if pin is None:
            raise InputError(f"{path}: pins no {name}, which its line '# safetyrepro: main' names; compile it again.")
    version = label([(name, pin or "") for name, pin in pins.items()])
    return Lock(path, _runner(path), hashlib.sha256(data).hexdigest(), main, version)


def _runner(path: Path) -> str:
    suite, release = path.absolute().parent.name, path.stem.removeprefix("suite-")
    return suite if release == path.stem else f"{suite}@{release}"


def label(versions: Sequence[tuple[str, str]]) -> str:
    """One text for a suite's (package, version) pairs: `0.3.285 (inspect-evals 0.26.0)`."""
    also = ", ".join(f"{package} {version}" for package, version in versions[1:])
    return f"{versions[0][1]} ({also})" if also else versions[0][1]


def _pinned(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}==([^\s;\\]+)", text, re.MULTILINE)
    return None if found is None else found[1]
