"""The suites' adapters: one folder a suite, and a line here.

Adapters are imported when they are asked for, and never import each other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Adapter

NAMES: tuple[str, ...] = ("lm_eval", "helm", "inspect_ai", "native")
"""Folders of this package that hold an `adapter`, in report order."""


def get(name: str) -> Adapter:
    """The adapter of one suite.

    Raises:
        InputError: no such suite.
    """
    if name not in NAMES:
        raise InputError(f"suite is {name!r}: there are {', '.join(NAMES)}.")
    adapter: Adapter = import_module(f"safetyrepro.adapters.{name}").adapter
    return adapter


def registry() -> tuple[Adapter, ...]:
    """All adapters, in report order."""
    return tuple(get(name) for name in NAMES)
