"""Cells at a time: what is in flight stops when one fails, and the failure is what is raised."""

from __future__ import annotations

import threading
import time

import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.crosspkg.schedule import Halt, Halted, cells_at_once, run_all


def test_as_many_run_together_as_are_allowed_and_no_more() -> None:
    lock, running, most, seen = threading.Lock(), 0, 0, []

    def work(piece: int, _halt: Halt) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            seen.append(piece)
        time.sleep(0.02)
        with lock:
            running -= 1

    run_all(range(9), work, 3)
    assert most == 3
    assert sorted(seen) == list(range(9))


def test_a_failure_stops_the_others_and_is_raised() -> None:
    started, halted = [], threading.Event()

    def work(piece: int, halt: Halt) -> None:
        started.append(piece)
        if piece == 1:
            raise OSError("disk")
        end = time.monotonic() + 10
        try:
            while time.monotonic() < end:
                halt.check()
                time.sleep(0.01)
        except Halted:
            halted.set()
            raise

    with pytest.raises(OSError, match="disk"):
        run_all(range(50), work, 2)
    assert halted.is_set()
    assert len(started) < 50


def test_only_exact_mode_shares_a_model() -> None:
    assert cells_at_once(ModelSpec(id="m")) >= 1
    assert cells_at_once(ModelSpec(id="m", upstream="http://127.0.0.1:1/v1", tokenizer="t")) == 1
