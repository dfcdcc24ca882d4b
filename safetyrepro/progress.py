"""Progress that people can watch: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from safetyrepro.plurals import lasting

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

PLAIN_SECONDS = 10.0
"""Between two lines of one task; where nothing has moved, half as long as that has lasted."""


class Task:
    """One piece of work with a known size."""

    def __init__(self, report: Progress, name: str, total: int) -> None:
        self._report, self._name, self._total = report, name, max(total, 1)
        self._started = self._said = self._moved = time.monotonic()
        self._done = 0
        self._bar = None if report.live is None else report.live.add_task(name, total=self._total)

    def update(self, done: int) -> None:
        """Say that `done` of the whole are done."""
        done = min(done, self._total)
        if self._report.live is not None and self._bar is not None:
            self._report.live.update(self._bar, completed=done)
            return
        now = time.monotonic()
        if done != self._done:
            self._done, self._moved = done, now
        if now - self._said < max(PLAIN_SECONDS, (now - self._moved) / 2):
            return
        self._said = now
        self._report.say(f"  {self._name}: {done} of {self._total}, {self._outlook(now)}")

    def _outlook(self, now: float) -> str:
        """What is to be expected, by the pace until it last moved; nothing where that has been too good to be true."""
        still = now - self._moved
        if not self._done:
            return f"none yet after {lasting(still)}"
        if self._done == self._total:
            return "finishing"
        left = (self._moved - self._started) / self._done * (self._total - self._done)
        return f"about {lasting(left - still)} left" if left > still else f"nothing new for {lasting(still)}"

    def finish(self, outcome: str) -> None:
        """Replace the bar by one line that says how it ended."""
        seconds = time.monotonic() - self._started
        if self._report.live is not None and self._bar is not None:
            self._report.live.remove_task(self._bar)
        self._report.say(f"{self._name}: {outcome} ({seconds:.1f} s)")


class Progress:
    """Where a long command says what it does; silent where `stream` is None."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.live: RichProgress | None = None

    def say(self, line: str) -> None:
        """Print one line (markup in it means nothing)."""
        if self._stream is None:
            return
        if self.live is not None:
            self.live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=self._stream, flush=True)

    def task(self, name: str, total: int) -> Task:
        """Start a piece of work of `total` steps."""
        return Task(self, name, total)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error for the time of a command."""
    report = Progress(None if quiet else sys.stderr)
    if quiet or not sys.stderr.isatty():
        yield report
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as live:
        report.live = live
        yield report
