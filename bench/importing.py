"""What an import costs: time and memory of 1,000,000 generated samples, beside reading the same lines as JSON.

Seconds are the processor's, which other work on the machine changes little.

`python -m bench.importing [SAMPLES]` writes `bench/importing.json`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json

SAMPLES = 1_000_000
STAMP = "2026-01-01T00-00-00.000000"


def measure(samples: int) -> dict[str, Any]:
    """Generate a log of lm-evaluation-harness's and import it in a process of its own.

    Args:
        samples: How many, half of them multiple choice with four candidates, half generated text.

    Returns:
        Figures as JSON: processor seconds, samples a second, the ratio to decoding the same lines as JSON, peak memory
        in MB of the import and of one of 1,000 samples, which is the program itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        _generate(small, 1000)
        size = _generate(large, samples)
        _, base = _imported(small, Path(folder, "out-small"))
        seconds, peak = _imported(large, Path(folder, "out-large"))
        decoding = _decoding(large)
        written = sum(path.stat().st_size for path in Path(folder, "out-large").rglob("*.parquet"))
    return {
        "samples": samples,
        "log_mb": round(size / 1e6),
        "records_mb": round(written / 1e6),
        "processor_seconds": round(seconds, 1),
        "samples_per_second": round(samples / seconds),
        "over_decoding_json": round(seconds / decoding, 2),
        "peak_memory_mb": peak,
        "peak_memory_of_1000_samples_mb": base,
    }


def _generate(folder: Path, samples: int) -> int:
    folder.mkdir()
    size = 0
    for task, first in (("choices", True), ("answers", False)):
        path = folder / f"samples_{task}_{STAMP}.jsonl"
        with path.open("w", encoding="utf-8") as stream:
            for number in range(samples // 2):
                stream.write(json.dumps(_choice(number) if first else _answer(number)) + "\n")
        size += path.stat().st_size
    return size


def _choice(number: int) -> dict[str, Any]:
    sums = [str(-1 - (number * (place + 3)) % 97 / 10) for place in range(4)]
    context = f"Question {number}: which of the four options below comes first in the list?\nAnswer:"
    return {
        "doc_id": number,
        "doc": {"question": context, "gold": number % 4},
        "target": str(number % 4),
        "arguments": {f"gen_args_{place}": {"arg_0": context, "arg_1": f" option {place}"} for place in range(4)},
        "resps": [[[one, "False"]] for one in sums],
        "filtered_resps": [[one, "False"] for one in sums],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"{number:064x}",
        "acc": float(sums.index(max(sums, key=float)) == number % 4),
    }


def _answer(number: int) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": f"What is {number} plus one?"},
        "target": str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": f"Q: What is {number} plus one?\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [[f" It is {number + number % 2}."]],
        "filtered_resps": [str(number + number % 2)],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": f"{number:064x}",
        "exact_match": float(number % 2),
    }


def _imported(folder: Path, out: Path) -> tuple[float, int]:
    """Processor seconds and peak memory (MB) of an import in a process of its own."""
    command = [sys.executable, "-m", "bench.importing", "--import", str(folder), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    seconds, peak = ended.stdout.split()[-2:]
    return float(seconds), int(peak)


def _import_here(folder: Path, out: Path) -> None:
    from safetyrepro.crosspkg.importers import import_logs
    from safetyrepro.progress import Progress

    import_logs("lm_eval", folder, out, Progress(None), model="bench")
    print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def _decoding(folder: Path) -> float:
    before = time.process_time()
    for path in folder.iterdir():
        with path.open("rb") as stream:
            for line in stream:
                json.loads(line)
    return time.process_time() - before


def main(arguments: list[str]) -> None:
    """Run the measurement from the repository's root."""
    if arguments[:1] == ["--import"]:
        _import_here(Path(arguments[1]), Path(arguments[2]))
        return
    found = measure(int(arguments[0]) if arguments else SAMPLES)
    write_json(Path("bench/importing.json"), found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
