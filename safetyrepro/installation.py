"""What an installation has and lacks, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Final, Literal

State = Literal["ok", "missing", "broken"]
ROOM: Final = 6_000_000_000
"""Bytes that suites' environments and the two small models take together, about."""
MEMORY: Final = 4_000_000_000
"""Bytes below which the small models and a suite beside them are tight."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    """`missing` is something that is not there yet; `broken` is there and does not do."""
    found: str
    advice: str | None = None
    """What to do where it is not ok."""


def checks(say: Callable[[str], None]) -> list[Check]:
    """Look at everything that a comparison needs.

    Args:
        say: Called with one line before what takes seconds.
    """
    found = [_python(), *_packages()]
    say("importing torch, transformers and bitsandbytes")
    found.append(_engine())
    found += [_machine(), _cache(), *_suites()]
    say("checking the weights of the pulled models")
    return [*found, *_models(), _data()]


def _python() -> Check:
    from packaging.specifiers import SpecifierSet

    running = platform.python_version()
    found = f"{running}, {sys.executable}"
    try:
        needed = metadata("safetyrepro")["Requires-Python"] or ""
    except PackageNotFoundError:
        needed = ""
    if not SpecifierSet(needed).contains(running, prereleases=True):
        return Check("python", "broken", found, f"Install Python {needed}, and safetyrepro into it.")
    return Check("python", "ok", found)


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    try:
        needed = [Requirement(line) for line in requires("safetyrepro") or ()]
    except PackageNotFoundError:
        yield Check("packages", "broken", "safetyrepro is not installed", "Run `python -m pip install -e .`.")
        return
    asked = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = []
    for one in asked:
        try:
            installed = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} is not installed")
            continue
        if not one.specifier.contains(installed, prereleases=True):
            wrong.append(f"{one.name} is {installed}, needed is {one.specifier}")
    if wrong:
        yield Check("packages", "broken", "; ".join(wrong), "Run `python -m pip install --upgrade safetyrepro`.")
    else:
        yield Check("packages", "ok", f"safetyrepro {version('safetyrepro')}, {len(asked)} packages as needed")


def _engine() -> Check:
    try:
        import bitsandbytes
        import torch
        import transformers
    except Exception as error:
        return Check(
            "engine", "broken", f"cannot be imported ({error})", "Install safetyrepro into a fresh environment."
        )
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return Check("engine", "ok", f"{versions}, bitsandbytes {bitsandbytes.__version__}, on {device}")


def _machine() -> Check:
    cores, memory = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = f"{cores} cores, {memory / 1e9:.0f} GB of memory"
    if memory < MEMORY:
        return Check("machine", "broken", found, f"Use a machine with {MEMORY / 1e9:.0f} GB or more.")
    return Check("machine", "ok", found)


def _cache() -> Check:
    from safetyrepro.paths import cache_dir

    folder = cache_dir()
    advice = "Make the folder writable, or set SAFETYREPRO_CACHE to another one."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("cache", "broken", f"{folder} ({error.strerror or error})", advice)
    found = f"{folder}, {free / 1e9:.0f} GB free"
    if free < ROOM and not any(path.is_dir() for path in (folder / "suites").glob("*")):
        return Check("cache", "broken", found, f"Make {ROOM / 1e9:.0f} GB of room, or set SAFETYREPRO_CACHE elsewhere.")
    return Check("cache", "ok", found)


def _suites() -> Iterator[Check]:
    from safetyrepro import adapters
    from safetyrepro.errors import InputError
    from safetyrepro.suites.environments import find

    for name in adapters.NAMES:
        lock = adapters.get(name).lock
        if lock is None:
            continue
        try:
            environment = find(lock)
        except InputError as error:
            yield Check(f"suite {name}", "broken", str(error), "Install safetyrepro anew.")
            continue
        if environment is None:
            yield Check(f"suite {name}", "missing", "not built", f"Run `safetyrepro suites sync {name}`.")
        else:
            yield Check(f"suite {name}", "ok", environment.version)


def _models() -> Iterator[Check]:
    from safetyrepro.digest import file_sha256
    from safetyrepro.engine.catalogue import catalogue

    for model in catalogue().values():
        pull = f"Run `safetyrepro models pull {model.name}`."
        if not model.pulled:
            yield Check(f"model {model.name}", "missing", "not pulled", pull)
        elif file_sha256(model.path) != model.sha256:
            yield Check(f"model {model.name}", "broken", f"{model.path} is damaged", pull)
        else:
            yield Check(f"model {model.name}", "ok", f"{model.path.stat().st_size / 1e6:.0f} MB, sha256 as expected")


def _data() -> Check:
    from safetyrepro import benchmarks
    from safetyrepro.errors import InputError
    from safetyrepro.paths import data_dir

    try:
        folder = data_dir()
    except InputError as error:
        return Check("official data", "broken", str(error), "Correct SAFETYREPRO_DATA, or unset it.")
    if folder is None:
        advice = "Pocket items need none; for a benchmark's own, set SAFETYREPRO_DATA to a folder as docs/data.md says."
        return Check("official data", "missing", "SAFETYREPRO_DATA is not set", advice)
    there = [name for name in benchmarks.names() if (folder / benchmarks.get(name).usual_path).exists()]
    lacking = [name for name in benchmarks.names() if name not in there]
    if not lacking:
        return Check("official data", "ok", f"{folder}: {', '.join(there)}")
    found = f"{', '.join(lacking)} not in {folder}" + (f", which has {', '.join(there)}" if there else "")
    return Check("official data", "missing", found, f"Add {', '.join(lacking)} as docs/data.md says, where needed.")
