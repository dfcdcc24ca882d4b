"""What a diff costs: time and memory over 10,000 generated items whose prompts differ everywhere.

`python -m bench.diff [ITEMS]` writes `bench/diff.json`.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.crosspkg.divergence import diff_sides
from safetyrepro.crosspkg.sides import open_side

ITEMS = 10_000
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


def measure(items: int) -> dict[str, Any]:
    """Write two wire sets and compare them in this process.

    Args:
        items: Items of each side; prompts of about 120 words, one side with two worked examples, the other with a
            header, another cue and a line end more.

    Returns:
        Figures as JSON: processor seconds of reading and of comparing, peak memory in MB, items by class found.
    """
    with tempfile.TemporaryDirectory() as folder:
        sides = [_write(Path(folder, name), items, plain=name == "a.jsonl") for name in ("a.jsonl", "b.jsonl")]
        size = sum(path.stat().st_size for path in sides)
        started = time.process_time()
        a, b = (open_side(path) for path in sides)
        read = time.process_time()
        found = diff_sides(a, b)
        compared = time.process_time()
    return {
        "items": items,
        "wire_sets_mb": round(size / 1e6),
        "seconds_reading": round(read - started, 1),
        "seconds_comparing": round(compared - read, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "classes": {entry.id: len(entry.items) for entry in found.classes},
    }


def _write(path: Path, items: int, *, plain: bool) -> Path:
    generator = random.Random(0)  # noqa: S311  Words of a measurement.
    with path.open("w", encoding="utf-8") as stream:
        for number in range(items):
            words = " ".join(generator.choice(WORDS) for _ in range(100))
            item = f"Question: {words} {number}?\nA. one\nB. two\nC. three\n"
            shots = "Question: which?\nAnswer: one\n\nQuestion: who?\nAnswer: two\n\n"
            prompt = f"{shots}{item}Answer:" if plain else f"Read with care.\n\n{item}Reply:\n"
            row = {
                "item_id": f"i{number}",
                "request": {"prompt": prompt, "max_tokens": 8, "temperature": 0},
                "prompt_token_ids": [1, *(len(word) + 3 for word in prompt.split())],
                "response": {"choices": [{"index": 0, "text": " A", "finish_reason": "stop"}]},
                "extracted": "A",
                "gold": "A",
                "score": 1.0,
            }
            stream.write(json.dumps(row) + "\n")
    return path


def main() -> None:
    """Run the measurement from the repository's root."""
    items = int(sys.argv[1]) if len(sys.argv) > 1 else ITEMS
    found = measure(items)
    write_json(Path("bench/diff.json"), found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
