"""What a run depends on besides its grid: the code, the packages, the suites' locks, the model's files."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from safetyrepro import adapters, benchmarks, engine
from safetyrepro.config import UNVERIFIED, ModelSpec
from safetyrepro.errors import InputError

_KINDS = (".py", ".jinja")
_SMALL = ("*.json", "*.jinja")
"""A model folder's files beside its weights that decide what the model is and reads."""


@dataclass(frozen=True)
class Weights:
    """A model's files as they are here."""

    sha256: str
    verified: bool
    """Whether a hash was given beforehand and agreed."""
    source_quant: str | None
    files: dict[str, str]
    """SHA-256 of its config's and tokenizer's files, where they are files of their own."""
    folder: Path


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def code_sha256() -> str:
    """SHA-256 over the lines `<sha256>  <path>` of every source file that a shard runs, sorted by path."""
    package = Path(benchmarks.__file__).parent.parent
    folders = [package / "benchmarks", Path(engine.__file__).parent, Path(__file__).parent]
    files = {f"safetyrepro/{path.name}": path for path in package.glob("*.py")}
    for folder in folders:
        files |= {f"{folder.name}/{path.relative_to(folder)}": path for path in _sources(folder)}
    suites = Path(adapters.__file__).parent
    files |= {f"adapters/{path.name}": path for path in suites.glob("*.py")}
    files |= {f"adapters/native/{path.name}": path for path in (suites / "native").glob("*.py")}
    lines = "".join(f"{file_sha256(files[name])}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def commit() -> tuple[str | None, bool | None]:
    """The checkout's commit and whether tracked files differ from it; None where there is no checkout."""
    folder = Path(benchmarks.__file__).parent
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
        status = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head.stdout.strip(), bool(status.stdout.strip())


def packages() -> dict[str, str]:
    """Versions of Python, of this package and of every package that it names as needed."""
    found = {"python": platform.python_version(), "safetyrepro": version("safetyrepro")}
    for requirement in requires("safetyrepro") or ():
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            raise InputError(f"Package {name} is not installed; run `python -m pip install -e .` again.") from None
    return found


def locks() -> dict[str, str]:
    """SHA-256 of every suite's lock files, by adapter and file."""
    found = {}
    for name in adapters.NAMES:
        for path in sorted(adapters.get(name).runner.parent.glob("suite*.lock")):
            found[f"{name}/{path.name}"] = file_sha256(path)
    return found


def template_sha256(benchmark: str, template: str) -> str:
    """SHA-256 of a prompt template's file.

    Raises:
        InputError: the benchmark has no template of that name.
    """
    known = benchmarks.get(benchmark).templates()
    if template not in known:
        raise InputError(f"prompt.template is {template!r}; {benchmark} has {', '.join(known)}.")
    from safetyrepro.benchmarks.prompts import FOLDER

    return file_sha256(FOLDER / benchmark / f"{template}.jinja")


def on_hub(spec: ModelSpec) -> bool:
    """Whether `spec.id` is to be had from the hub alone."""
    from safetyrepro.engine.catalogue import catalogue

    return spec.id not in catalogue() and not Path(spec.id).expanduser().exists()


def weights(spec: ModelSpec, say: Callable[[str], None]) -> Weights:
    """Find and hash a model's files; one from the hub is fetched.

    Raises:
        InputError: there is no such model, or it is another one than its spec says.
    """
    from safetyrepro.engine.catalogue import catalogue
    from safetyrepro.engine.source import find_source

    source = find_source(spec, say)
    whole = spec.id in catalogue() or spec.id.endswith(".gguf")
    files = {} if whole else {path.name: file_sha256(path) for path in _small(source.folder)}
    return Weights(source.weights_sha256, source.weights_verified, source.source_quant, files, source.folder)


def stated(value: str | None) -> str | None:
    """A hash that was written down beforehand, if it is one."""
    return None if value in (None, UNVERIFIED) else value


def _sources(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _KINDS)


def _small(folder: Path) -> list[Path]:
    # The index of a sharded model's weights is a list of the files that `weights_sha256` covers.
    found = {path for pattern in _SMALL for path in folder.glob(pattern) if not path.name.endswith(".index.json")}
    return sorted(found)
