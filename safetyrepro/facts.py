"""What a run depends on besides its configs: the code, the machine, packages, suites' locks, model's files, items."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from safetyrepro import adapters, benchmarks, crosspkg
from safetyrepro.benchmarks.base import Item
from safetyrepro.config import UNVERIFIED, ModelSpec, Strict, canonical_sha256
from safetyrepro.digest import file_sha256
from safetyrepro.errors import InputError

_KINDS = (".py", ".jinja")
_ROOTS = {
    "safetyrepro": Path(benchmarks.__file__).parent.parent,
    "adapters": Path(adapters.__file__).parent,
    "crosspkg": Path(crosspkg.__file__).parent,
}
"""Folders of the namespace by their names in a checkout."""


class CodeFacts(Strict):
    """The code."""

    version: str
    commit: str | None
    """None where the package is no checkout."""
    dirty: bool | None
    """Whether tracked files differed from the commit."""
    files_sha256: str
    """Over every source file that decides a result."""


class Machine(Strict):
    """What ran it, without anything that tells one machine from others of its kind."""

    system: str
    """Operating system, release and C library."""
    processor: str
    """Architecture."""
    cores: int | None


def code(patterns: Iterable[str]) -> CodeFacts:
    """The code as it is here.

    Args:
        patterns: as `code_sha256` takes them.
    """
    head, dirty = commit()
    return CodeFacts(
        version=version("safetyrepro"), commit=head, dirty=dirty, files_sha256=code_sha256(tuple(patterns))
    )


def code_sha256(patterns: Iterable[str]) -> str:
    """SHA-256 over the lines `<sha256>  <path>` of every source file that a run executes, sorted by path.

    Args:
        patterns: a folder of the namespace, a slash, and a glob below it: `adapters/native/*.py`.
    """
    files: dict[str, Path] = {}
    for pattern in patterns:
        name, _, below = pattern.partition("/")
        found = (path for path in _ROOTS[name].glob(below) if path.suffix in _KINDS)
        files |= {f"{name}/{path.relative_to(_ROOTS[name]).as_posix()}": path for path in found}
    lines = "".join(f"{file_sha256(files[name])}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def commit() -> tuple[str | None, bool | None]:
    """The checkout's commit and whether tracked files differ from it; None where there is no checkout."""
    # Installed into an environment below somebody else's repository, the package is none of its files.
    source = Path(benchmarks.__file__).resolve()
    try:
        _git(source.parent, "ls-files", "--error-unmatch", source.name)
        head = _git(source.parent, "rev-parse", "HEAD")
        status = _git(source.parent, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head, bool(status)


def machine() -> Machine:
    """The machine, by its system, architecture and cores."""
    return Machine(system=platform.platform(), processor=platform.machine(), cores=os.cpu_count())


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


def item_sha256(item: Item) -> str:
    """SHA-256 of the canonical JSON of all that is asked and scored of an item (the source's own row left out)."""
    return canonical_sha256(
        {
            "item_id": item.item_id,
            "cluster": item.cluster,
            "question": item.question,
            "context": item.context,
            "options": list(item.options),
            "gold": list(item.gold),
            "category": item.category,
            "options_by_metric": {
                name: [list(options), list(gold)] for name, (options, gold) in item.options_by_metric.items()
            },
        }
    )


def items_sha256(items: Iterable[tuple[str, str]]) -> str:
    """SHA-256 of the canonical JSON of the sorted, distinct pairs of an item's id and its content's SHA-256."""
    return canonical_sha256([list(pair) for pair in sorted(set(items))])


def stated(value: str | None) -> str | None:
    """A hash that was written down beforehand, if it is one."""
    return None if value in (None, UNVERIFIED) else value


def _git(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout.strip()
