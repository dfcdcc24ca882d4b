"""What the gateway and the memo cost: wall time of the same unique requests, as ratios within one run."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from safetyrepro import benchmarks
from safetyrepro.canonical import render
from safetyrepro.config import load_config
from safetyrepro.engine import load
from safetyrepro.gateway import Gateway

if TYPE_CHECKING:
    from safetyrepro.config import Config
    from safetyrepro.engine.api import Engine

ROUNDS = 3


def measure(path: Path) -> dict[str, Any]:
    """Time the candidates of one config directly, through the gateway, and from the memo.

    Args:
        path: A canonical config scored by likelihood; its first model is measured.

    Returns:
        Figures as JSON: the least of three rounds in seconds, ratios to the direct time, peak memory in MB.
    """
    config = load_config(path)
    engine = load(config.models[0], progress=lambda line: print(line, file=sys.stderr))
    try:
        sequences = _sequences(config, engine)
        direct = min(_seconds(lambda: engine.score(sequences, memo=False)) for _ in range(ROUNDS))
        with Gateway(engine) as gateway:
            through = min(_through(gateway, sequences, memo=False) for _ in range(ROUNDS))
            first = _through(gateway, sequences, memo=True)
            again = min(_through(gateway, sequences, memo=True) for _ in range(ROUNDS))
        return {
            "config": config.name,
            "model": engine.info.name,
            "numerics": engine.info.numerics,
            "unique_sequences": len(sequences),
            "tokens": sum(map(len, sequences)),
            "direct_seconds": round(direct, 3),
            "gateway_over_direct": round(through / direct, 3),
            "memo_first_pass_over_direct": round(first / direct, 3),
            "memo_second_pass_over_direct": round(again / direct, 3),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
    finally:
        engine.close()


def _sequences(config: Config, engine: Engine) -> list[list[int]]:
    benchmark = benchmarks.get(config.benchmark.name)
    canonical = render(config, benchmark, benchmarks.load_data(config, None), engine.tokenizer)
    return [list(ids) for ids in dict.fromkeys(sequence.ids for sequence in canonical.sequences)]


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _through(gateway: Gateway, sequences: list[list[int]], *, memo: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = gateway.open_run("bench", Path(folder) / "wire.jsonl", memo=memo)
        headers = {"Authorization": f"Bearer {run.token}"}
        with httpx.Client(headers=headers, timeout=None, trust_env=False) as client:  # noqa: S113 - a bench waits

            def ask() -> None:
                for ids in sequences:
                    body = {"model": "model", "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1}
                    client.post(f"{run.base_url}/completions", json=body).raise_for_status()

            seconds = _seconds(ask)
        gateway.close_run("bench")
    return seconds
