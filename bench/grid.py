"""Time and memory of `safetyrepro grid` on the reference envelope's size: 612 cells of 1,000 items, 9,999 sign flips.

`python -m bench.grid` writes bench/grid.json. The aim is 60 s and 2 GB on two cores. The table is made first, the
command is measured in a process of its own, and what reading alone takes is measured in another.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.simulated import Population
from safetyrepro.atomic import write_json

MODELS = ("model-a", "model-b", "model-c")
TEMPLATES, DECODINGS, SHOTS = (
    ("minimal", "role", "detailed", "chain_of_thought"),
    ("greedy", "T=0.3", "T=0.7"),
    (0, 3, 5),
)
GENERATED = ("bbq", "toxigen", "truthfulqa", "xstest")
ITEMS, SEED = 1_000, 7
READ = "from pathlib import Path; import sys; from safetyrepro.stability.source import *; "
READ += "benchmark_grids(read_scores(Path(sys.argv[1])))"


def envelope(items: int = ITEMS) -> pd.DataFrame:
    """Item scores of the reference envelope's 612 cells."""
    rng = np.random.default_rng(SEED)
    logprob = [("logprob", t, "", s) for t, s in itertools.product(TEMPLATES, SHOTS)]
    free = [("free", t, d, s) for t, d, s in itertools.product(TEMPLATES, DECODINGS, SHOTS)]
    parts = []
    for benchmark in (*GENERATED, "crows_pairs"):
        axes = logprob if benchmark == "crows_pairs" else free + logprob
        shares = np.clip(0.5 + rng.normal(0, 0.05, (len(MODELS), len(axes))), 0.05, 0.95)
        scores = Population(items, len(axes)).draw(rng, shares)
        for m, model in enumerate(MODELS):
            for c, (scoring, template, decoding, shots) in enumerate(axes):
                cell = {
                    "model": model,
                    "benchmark": benchmark,
                    "config_id": f"{scoring}-{template}-{decoding}-{shots}",
                    "item_id": [f"item-{i:05}" for i in range(items)],
                    "score": scores[m, c],
                    "template": template,
                    "decoding": decoding,
                    "shots": shots,
                    "scoring": scoring,
                }
                parts.append(pd.DataFrame(cell))
    return pd.concat(parts, ignore_index=True)


def measure(items: int = ITEMS) -> dict[str, Any]:
    """Make the table, then time the command and reading alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "envelope.parquet"
        table = envelope(items)
        table.to_parquet(path)
        rows = len(table)
        del table
        reading = _child([sys.executable, "-c", READ, str(path)])
        whole = _child([sys.executable, "-m", "safetyrepro", "grid", str(path), "--out", f"{folder}/out"])
    return {
        "cells": rows // items,
        "items": items,
        "rows": rows,
        "draws": 9_999,
        "cores": os.cpu_count(),
        "reading": reading,
        "grid": whole,
        "aim": {"seconds": 60, "peak_mb": 2_000},
    }


def _child(command: list[str]) -> dict[str, float]:
    """Wall and CPU seconds and peak memory of a command, from the kernel's accounts of it."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[:4]} ended with {process.returncode}")
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def main() -> None:
    """Run the measurement from the repository's root."""
    found = measure()
    write_json(Path("bench/grid.json"), found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
