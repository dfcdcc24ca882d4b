"""The native runner: the canonical token ids sent as they are, and the benchmark's own rules applied to the answers.

It stands beside the suites in the matched arm, as what they are compared with; it ships no tasks of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.adapters.native import normalise, translate

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Adapter


class Native:
    """The native runner as an adapter; it runs in our own environment."""

    name = "native"
    runner = Path(__file__).with_name("runner.py")
    lock: Path | None = None
    translate = staticmethod(translate.translate)
    normalise = staticmethod(normalise.normalise)


adapter: Adapter = Native()
