"""Progress as plain lines: often while something moves, seldom while nothing does."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from safetyrepro.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("safetyrepro.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_lines_come_every_ten_seconds_while_it_moves_and_rarely_while_it_does_not(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    task = Progress(stream).task("cell", 60)
    for second in range(1, 61):
        clock.now = 100.0 + second
        task.update(second * 58 // 60)
    moving = stream.getvalue().splitlines()
    assert moving == [
        "  cell: 9 of 60, about 57 s left",
        "  cell: 19 of 60, about 43 s left",
        "  cell: 29 of 60, about 32 s left",
        "  cell: 38 of 60, about 23 s left",
        "  cell: 48 of 60, about 12 s left",
        "  cell: 58 of 60, about 2 s left",
    ]
    for second in range(61, 3001):
        clock.now = 100.0 + second
        task.update(58)
    still = stream.getvalue().splitlines()[len(moving) :]
    assert still[0] == "  cell: 58 of 60, nothing new for 10 s"
    assert still[-1].startswith("  cell: 58 of 60, nothing new for ")
    assert still[-1].endswith(" min")
    assert len(still) < 12
    clock.now += 1
    task.update(59)
    assert stream.getvalue().splitlines()[-1].startswith("  cell: 59 of 60, ")
    task.finish("60 items")
    assert stream.getvalue().splitlines()[-1] == "cell: 60 items (3001.0 s)"


def test_nothing_done_yet_is_said_without_a_guess(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    task = Progress(stream).task("cell", 60)
    clock.now += 10
    task.update(0)
    assert stream.getvalue() == "  cell: 0 of 60, none yet after 10 s\n"


def test_when_all_is_done_the_end_is_near(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    task = Progress(stream).task("cell", 4)
    for second in (10, 20):
        clock.now = 100.0 + second
        task.update(4)
    assert stream.getvalue().splitlines() == ["  cell: 4 of 4, finishing"] * 2
