"""Several cells at a time: while one suite starts or thinks, the model answers another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from safetyrepro.config import ModelSpec

MOST_AT_ONCE = 4
"""A suite's process takes up to a gigabyte."""
Work = TypeVar("Work")


class Halted(Exception):
    """The work was told to stop; nothing is wrong with it."""


class Halt:
    """Tells every cell in flight to stop."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Stop everybody."""
        self._event.set()

    def check(self) -> None:
        """Raise `Halted` once stopped."""
        if self._event.is_set():
            raise Halted


def cells_at_once(model: ModelSpec) -> int:
    """How many cells may share a model: several only where an answer does not depend on who else asks."""
    if model.upstream is not None or model.mode != "exact":
        return 1
    return min(MOST_AT_ONCE, os.cpu_count() or 1)


def run_all(pieces: Iterable[Work], run: Callable[[Work, Halt], None], at_once: int) -> None:
    """Run every piece, `at_once` of them at a time, in order of their start.

    The first exception, an interrupt included, stops what is in flight and is raised once all have ended.
    """
    halt = Halt()

    def guarded(piece: Work) -> None:
        halt.check()
        run(piece, halt)

    with ThreadPoolExecutor(at_once, thread_name_prefix="cell") as pool:
        futures = [pool.submit(guarded, piece) for piece in pieces]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            halt.set()
    failures = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(failures, key=lambda error: isinstance(error, Halted)):
        raise error
