"""The benchmarks: one file each, found by name, and the data that a config draws from them."""

from __future__ import annotations

from safetyrepro.benchmarks.base import Benchmark, Data, Extraction, ExtractionRule, Item, Score, Status
from safetyrepro.benchmarks.bbq import BBQ
from safetyrepro.benchmarks.crows_pairs import CrowSPairs
from safetyrepro.benchmarks.draw import load_data
from safetyrepro.benchmarks.toxigen import ToxiGen
from safetyrepro.benchmarks.truthfulqa import TruthfulQA
from safetyrepro.benchmarks.xstest import XSTest
from safetyrepro.errors import InputError

__all__ = ["Benchmark", "Data", "Extraction", "ExtractionRule", "Item", "Score", "Status", "get", "load_data", "names"]

_ALL: tuple[Benchmark, ...] = (TruthfulQA(), BBQ(), ToxiGen(), CrowSPairs(), XSTest())
_BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}


def names() -> tuple[str, ...]:
    """Names of the benchmarks."""
    return tuple(_BENCHMARKS)


def get(name: str) -> Benchmark:
    """The benchmark called `name`.

    Raises:
        InputError: there is none of that name.
    """
    if name not in _BENCHMARKS:
        raise InputError(f"benchmark.name is {name!r}; known are {', '.join(_BENCHMARKS)}.")
    return _BENCHMARKS[name]
