"""lm-evaluation-harness: its adapter."""

from __future__ import annotations

from pathlib import Path

from safetyrepro.adapters.base import Adapter
from safetyrepro.adapters.lm_eval import normalise, translate

_FOLDER = Path(__file__).parent


class LmEval:
    """The adapter of lm-evaluation-harness (see docs/adapters/lm_eval.md)."""

    name = "lm_eval"
    runner = _FOLDER / "runner.py"
    lock: Path | None = _FOLDER / "suite.lock"
    translate = staticmethod(translate.translate)
    normalise = staticmethod(normalise.normalise)


adapter: Adapter = LmEval()
