"""`python -m bench.envelope`: `envelope run` against lm-evaluation-harness's `hf` runner, in bench/envelope.json.

Both answer the same cells on the same items with the same weights in memory, dtype and threads, one after the other in
one process: by likelihood the cells of all benchmarks, written those of one. lm-evaluation-harness comes from the
environment of its suite, and is given the token ids of all candidates of all cells in one call and the prompts of all
generating cells in another, as its evaluator does; candidates of one token behind one prompt take it one forward pass.
The batch size is the fastest of several on fewer items. Tokens are counted by a hook on the model, padding included.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.instruments import counted, plain, seconds
from safetyrepro import benchmarks
from safetyrepro.adapters import lock_of
from safetyrepro.atomic import write_json
from safetyrepro.canonical import render
from safetyrepro.engine import Engine, load
from safetyrepro.envelope.grid import GridCell, cells, load_envelope, narrowed
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.shard import execute, job_of
from safetyrepro.paths import data_dir
from safetyrepro.suites.environments import ensure

GRID = Path("anchor_configs/envelope/embedded.yaml")
MODEL = "smollm2-nf4"
TEMPLATE = "minimal"
GROWTH = "truthfulqa"
GROWTH_ITEMS = (3, 6, 12)
BATCHES = (1, 4, 16, 64)
TRIED = 2
"""Items on which lm-evaluation-harness's batch size is chosen."""


@dataclass(frozen=True)
class _Compared:
    path: str
    benchmarks: tuple[str, ...]
    items: int

    def cells(self, items: int | None = None) -> list[GridCell]:
        """The cells, with `items` where that is given."""
        return _cells(self.benchmarks, items or self.items, self.path)


COMPARED = (
    _Compared("logprob", ("truthfulqa", "bbq", "toxigen", "xstest", "crows_pairs"), 24),
    _Compared("free", (GROWTH,), 12),
)


def main() -> None:
    """Measure and write."""
    whole = _cells((GROWTH,), max(GROWTH_ITEMS))
    engine = load(whole[0].model.model, progress=_say)
    count = counted(engine)
    shots = list(dict.fromkeys(cell.config.shots.count for cell in whole))
    found: dict[str, Any] = {
        "grid": GRID.name,
        "model": MODEL,
        "numerics": engine.info.numerics,
        "template": TEMPLATE,
        "growth_with_items": [_ours(engine, count, _cells((GROWTH,), items)) for items in GROWTH_ITEMS],
        "growth_with_cells": [
            _ours(engine, count, [cell for cell in whole if cell.config.shots.count in shots[:levels]])
            for levels in range(1, len(shots) + 1)
        ],
    }
    own = {compared.path: _ours(engine, count, compared.cells()) for compared in COMPARED}
    found["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    with_lm_eval = _LmEval(engine, count)
    for compared in COMPARED:
        path, ours = compared.path, own[compared.path]
        tried = [with_lm_eval.answer(compared.cells(TRIED), path, batch) for batch in BATCHES]
        best = min(tried, key=lambda run: float(run["seconds"]))
        theirs = with_lm_eval.answer(compared.cells(), path, best["batch"])
        found[path] = {
            "benchmarks": compared.benchmarks,
            "ours": ours,
            "lm_eval": theirs,
            "lm_eval_batch_sizes_tried": tried,
        }
        found[f"{path}_speedup_vs_lm_eval"] = round(theirs["seconds"] / ours["seconds"], 2)
        found[f"{path}_tokens_of_lm_eval_over_ours"] = round(theirs["tokens"] / ours["tokens"], 2)
    engine.close()
    write_json(Path("bench/envelope.json"), found)
    print(json.dumps(found, indent=1))


def _cells(chosen: tuple[str, ...], items: int, path: str | None = None) -> list[GridCell]:
    grid = narrowed(load_envelope(GRID), limit=items, models=(MODEL,), benchmarks=chosen)
    return [
        cell for cell in cells(grid) if cell.axes["template"] == TEMPLATE and path in (None, cell.config.scoring.path)
    ]


def _ours(engine: Engine, count: list[int], chosen: list[GridCell]) -> dict[str, Any]:
    """The cells as `envelope run` answers them, records made: a shard for each benchmark and number of shots."""
    source = Items(data_dir())
    before, taken, records = count[0], 0.0, 0
    shards: dict[tuple[str, int], list[GridCell]] = {}
    for cell in chosen:
        shards.setdefault((cell.config.benchmark.name, cell.config.shots.count), []).append(cell)
    for (benchmark, shots), group in shards.items():
        job = job_of("bench", f"{benchmark}-{shots}", group, None, source.of(group[0].config), known=False)
        started = time.perf_counter()
        records += len(execute(job, engine, source).records)
        taken += time.perf_counter() - started
    _say(f"ours, {len(chosen)} cells, {records} records: {taken:.1f} s")
    return {"cells": len(chosen), "records": records, "tokens": count[0] - before, "seconds": round(taken, 2)}


class _LmEval:
    """lm-evaluation-harness's `hf` runner on the engine's own weights."""

    def __init__(self, engine: Engine, count: list[int]) -> None:
        environment = ensure(lock_of("lm_eval") or Path(), progress=_say)
        packages = next(environment.python.parents[1].glob("lib/python*/site-packages"))
        sys.path.append(str(packages))  # behind our own packages: it brings what only the suite has
        self._count = count
        self._encode = engine.tokenizer
        self._model, self._tokenizer = plain(engine)

    def answer(self, chosen: list[GridCell], path: str, batch: int) -> dict[str, Any]:
        """All cells of one scoring path in one call."""
        from lm_eval.models.huggingface import HFLM

        runner = HFLM(pretrained=self._model, tokenizer=self._tokenizer, batch_size=batch, device="cpu")
        asked = [request for cell in chosen for request in self._requests(cell)]
        ask = runner._loglikelihood_tokens if path == "logprob" else runner.generate_until
        before, taken = self._count[0], seconds(lambda: ask(asked, disable_tqdm=True))
        _say(f"lm_eval, {len(asked)} requests, batch {batch}, {path}: {taken:.1f} s")
        tokens = self._count[0] - before
        return {"batch": batch, "requests": len(asked), "tokens": tokens, "seconds": round(taken, 2)}

    def _requests(self, cell: GridCell) -> list[Any]:
        from lm_eval.api.instance import Instance

        data = Items(data_dir()).of(cell.config)
        canonical = render(cell.config, benchmarks.get(cell.config.benchmark.name), data, self._encode)
        if cell.config.scoring.path == "logprob":
            return [
                (("", ""), list(one.ids[: one.n_context]), list(one.ids[one.n_context :]))
                for one in canonical.sequences
            ]
        decoding = cell.config.decoding
        sampled = {"do_sample": True, "temperature": decoding.temperature, "top_k": 0}
        arguments = {
            "until": list(decoding.stop),
            "max_gen_toks": decoding.max_tokens,
            **(sampled if decoding.temperature else {"do_sample": False}),
        }
        return [
            Instance("generate_until", {}, (prompt.text, dict(arguments)), at)
            for at, prompt in enumerate(canonical.prompts)
        ]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
