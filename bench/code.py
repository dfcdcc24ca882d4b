"""Whether the judge of code is right about HumanEval, and what a judgement costs.

`python -m bench.code` runs every reference solution of the data folder's HumanEval, and every prompt without a body,
against the unit tests, prints, and writes bench/code.json.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.flips.code_file import read_code_items
from safetyrepro.flips.code_task import code_file
from safetyrepro.paths import data_dir
from safetyrepro.progress import Progress
from safetyrepro.sandbox.isolation import require_isolation
from safetyrepro.sandbox.judge import judge


def measure(path: Path) -> dict[str, Any]:
    """Judge what must pass and what must fail, one after the other.

    Returns:
        Figures as JSON; seconds are of wall clock, a judgement's median and the greatest.

    Raises:
        InputError: the file holds no problems, or code cannot be locked away here.
    """
    items, sha256 = read_code_items(path)
    require_isolation()
    watch = Progress(sys.stderr).task(path.name, 2 * len(items))
    passed, seconds, wrong = {"reference": 0, "empty": 0}, [], []
    for number, item in enumerate(items):
        for place, (kind, code) in enumerate((("reference", item.answer), ("empty", item.question))):
            started = time.perf_counter()
            verdict = judge(code, item.tests)
            seconds.append(time.perf_counter() - started)
            passed[kind] += verdict.passed
            if verdict.passed != (kind == "reference"):
                wrong.append({"item_id": item.item_id, "code": kind, "reason": verdict.reason})
            watch.update(2 * number + place + 1)
    watch.finish(f"{len(items)} problems")
    return {
        "data_sha256": sha256,
        "problems": len(items),
        "reference_solutions_passed": passed["reference"],
        "prompts_without_body_passed": passed["empty"],
        "wrong": wrong,
        "seconds_a_judgement": {"median": round(statistics.median(seconds), 3), "greatest": round(max(seconds), 3)},
    }


def main() -> None:
    """Measure on the data folder's HumanEval."""
    found = measure(code_file(Path("humaneval"), data_dir()))
    write_json(Path("bench/code.json"), found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
