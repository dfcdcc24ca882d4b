"""The suites' adapters: one folder a suite.

Adapters are imported when they are asked for, and never import each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.errors import InputError
from safetyrepro.runners import SUITES, release_of, suite_of

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Adapter

NAMES: tuple[str, ...] = SUITES
"""Folders of this package that hold an `adapter`, in report order."""


def get(runner: str) -> Adapter:
    """The adapter of a suite, whatever its release.

    Raises:
        InputError: no such suite.
    """
    name = suite_of(runner)
    if name not in NAMES:
        raise InputError(f"suite is {name!r}: there are {', '.join(NAMES)}.")
    adapter: Adapter = import_module(f"safetyrepro.adapters.{name}").adapter
    return adapter


def releases(suite: str) -> dict[str, Path]:
    """Lock files of a suite's other releases that its adapter brings: `suite-<release>.lock`, by release."""
    lock = get(suite).lock
    found = sorted(lock.parent.glob("suite-*.lock")) if lock is not None else []
    return {path.stem.removeprefix("suite-"): path for path in found}


def lock_of(runner: str, own: Mapping[str, str] | None = None) -> Path | None:
    """The lock file of a runner's environment; None where it runs in our own.

    Args:
        runner: A suite, or a suite at a release (`inspect_ai@0.3.258`).
        own: Lock files of a config's own, by runner.

    Raises:
        InputError: no such suite, or no lock of that release.
    """
    lock, release = get(runner).lock, release_of(runner)
    if release is None:
        return lock
    if lock is None:
        raise InputError(
            f"suite {runner}: {suite_of(runner)} runs in safetyrepro's own environment and has one release; take "
            f"{suite_of(runner)}."
        )
    if own and runner in own:
        return Path(own[runner])
    known = releases(runner)
    if release not in known:
        there = ", ".join(f"{suite_of(runner)}@{name}" for name in known) or "none"
        raise InputError(
            f"suite {runner}: there is no lock of that release (locks of other releases: {there}); name a lock file "
            f"of your own in the config, as locks: {{{runner}: FILE}}, or take {suite_of(runner)}."
        )
    return known[release]


def registry() -> tuple[Adapter, ...]:
    """All adapters, in report order."""
    return tuple(get(name) for name in NAMES)
