"""A suite's environment: built once from its lock file, kept in the user's cache under the lock's hash.

A virtual environment cannot be moved, so it is built where it stays; `ready.json`, written last, says that it stands.
A folder without it was cut off and is built anew. A file lock beside it keeps two processes from building at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from safetyrepro.atomic import write_json
from safetyrepro.errors import EnvironmentMissing
from safetyrepro.paths import cache_dir
from safetyrepro.suites.lockfile import Lock, label, read_lock

PYTHON = "3.11"
"""The Python that every suite runs on: the newest for which all three install."""
_MARKER = "ready.json"
_TOLD = ("Resolved", "Downloading", "Building", "Prepared", "Installed")
_NO_UV = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """A suite's environment, ready to run."""

    name: str
    python: Path
    """Its interpreter."""
    version: str
    """The suite's installed version; further packages that make up the suite follow in brackets."""
    lock_sha256: str
    size: int
    """Bytes on disk, hard links to uv's cache counted in full."""


def folder_of(lock: Lock) -> Path:
    """Where a lock's environment is kept."""
    return cache_dir() / "suites" / f"{lock.name.replace('@', '-')}-{lock.sha256[:16]}-py{PYTHON}"


def find(lock: Path) -> Environment | None:
    """The environment of a lock if it stands, without building it.

    Raises:
        InputError: the lock file cannot be read.
    """
    return _standing(read_lock(lock))


def ensure(lock: Path, *, progress: Say | None = None, rebuild: bool = False) -> Environment:
    """The environment of a lock, built if it does not stand; safe when several processes ask at once.

    Args:
        lock: A `suite.lock`; its folder's name is the suite's.
        progress: Called with a line for everything worth telling.
        rebuild: Build it anew even where it stands.

    Raises:
        InputError: the lock file cannot be read.
        EnvironmentMissing: it does not stand and cannot be built: no network, a package that is not the one that the
            lock names, no such Python, no room.
    """
    from filelock import FileLock, Timeout

    read, say = read_lock(lock), progress or (lambda _: None)
    standing = None if rebuild else _standing(read)
    if standing is not None:
        return standing
    folder = folder_of(read)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        guard = FileLock(f"{folder}.lock")
        try:
            guard.acquire(timeout=0)
        except Timeout:
            say(f"{read.name}: another process is building this environment, waiting for it")
            guard.acquire()
            rebuild = False
        try:
            return (None if rebuild else _standing(read)) or _build(read, folder, say)
        finally:
            guard.release()
    except OSError as error:
        raise EnvironmentMissing(
            f"The environment of {read.name} cannot be written below {folder.parent} ({error}); make room there, or "
            f"set SAFETYREPRO_CACHE to another folder, then run `safetyrepro suites sync {read.name}`."
        ) from None


def _standing(lock: Lock) -> Environment | None:
    folder = folder_of(lock)
    python = folder / "bin" / "python"
    try:
        facts = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        whole = facts["lock_sha256"] == lock.sha256 and python.exists()
        return Environment(lock.name, python, facts["version"], lock.sha256, facts["size"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(lock: Lock, folder: Path, say: Say) -> Environment:
    if folder.exists():
        shutil.rmtree(folder)
    say(f"{lock.name}: building its environment in {folder}")
    # A build that was killed may leave a process that still writes there for a moment.
    _uv(lock, ["venv", "--clear", "--no-project", "--python", _interpreter(), str(folder)], say)
    python = folder / "bin" / "python"
    try:
        _uv(lock, ["pip", "sync", "--require-hashes", "--python", str(python), str(lock.path.absolute())], say)
        version = _version(lock, folder)
    except EnvironmentMissing:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    size = sum(entry.lstat().st_size for entry in folder.rglob("*") if not entry.is_symlink())
    write_json(folder / _MARKER, {"name": lock.name, "version": version, "lock_sha256": lock.sha256, "size": size})
    say(f"{lock.name} {version}: ready ({size / 1e6:.0f} MB)")
    return Environment(lock.name, python, version, lock.sha256, size)


def _interpreter() -> str:
    """Our own interpreter where its version is right, so that nothing needs to be looked for or fetched."""
    return sys.executable if "{}.{}".format(*sys.version_info) == PYTHON else PYTHON


def _version(lock: Lock, folder: Path) -> str:
    site = folder / "lib" / f"python{PYTHON}" / "site-packages"
    versions = []
    for package in lock.main:
        found = next(iter(Distribution.discover(name=package, path=[str(site)])), None)
        if found is None:
            raise EnvironmentMissing(f"{lock.path}: installs no {package}, which its first lines name as the suite.")
        versions.append((package, found.version))
    return label(versions)


def _uv(lock: Lock, arguments: Sequence[str], say: Say) -> None:
    command = [sys.executable, "-m", "uv", "--no-progress", "--color", "never", *arguments]
    variables = {name: value for name, value in os.environ.items() if name not in _NO_UV}
    lines: list[str] = []
    # The cache is the current folder, so that no project's uv settings up the user's own tree apply.
    with subprocess.Popen(
        command,
        cwd=folder_of(lock).parent,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line.strip())
            if line.strip().startswith(_TOLD):
                say(f"{lock.name}: {line.strip()}")
    if process.returncode != 0:
        said = " | ".join([line for line in lines if line][-6:]) or "it said nothing"
        raise EnvironmentMissing(
            f"The environment of {lock.name} could not be built: uv {arguments[0]} ended with {process.returncode} "
            f"({said}); {_advice(said)}, then run `safetyrepro suites sync {lock.name}`."
        )


def _advice(said: str) -> str:
    lower = said.lower()
    if "hash mismatch" in lower or "hash-checking" in lower or "--require-hashes" in lower:
        return "the lock and the package index do not agree: use the index that the lock was made from, or another lock"
    if "no interpreter found" in lower:
        return f"install Python {PYTHON}"
    if "no module named uv" in lower:
        return "install uv beside safetyrepro"
    if any(sign in lower for sign in ("failed to fetch", "dns", "connect", "network", "offline", "timed out")):
        return "check the network"
    return "correct what it names"
