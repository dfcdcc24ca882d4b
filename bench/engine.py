"""`python -m bench.engine`: tokens that go through the model over the fewest that could, and bench/engine.json.

Tokens are counted by a hook on the model, padding included. The fewest come from a tree that is built here, apart from
the engine's. They depend on token ids alone, so that the counts are of a tiny random model with SmolLM2's tokenizer;
wall times are of SmolLM2 itself, as ratios within one run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.instruments import counted, plain, seconds
from safetyrepro import benchmarks
from safetyrepro.atomic import write_json
from safetyrepro.canonical import render
from safetyrepro.config import Config, ModelSpec, load_config
from safetyrepro.engine import Decoding, Engine, GenerateRequest, ScoreRequest, load, load_tokenizer
from safetyrepro.paths import data_dir

CONFIG = Path("anchor_configs/anchors/truthfulqa-mc1-100.yaml")
MODEL = "smollm2-135m-instruct"
SHOTS = (0, 3, 5)
ITEMS = (25, 50, 100)
TIMED_ITEMS = 8
BATCH = 16
"""Rows of plain transformers, which the wall times are set against."""


def main() -> None:
    """Run every measurement in a process of its own, so that peaks of memory are its own, and write them."""
    if len(sys.argv) > 1:
        print(json.dumps(_STEPS[sys.argv[1]](*sys.argv[2:])))
        return
    found = {
        "tokens": _apart("tokens", str(ITEMS[-1])),
        "growth": {str(items): _apart("grow", str(items)) for items in ITEMS},
        "wall": _apart("wall", str(TIMED_ITEMS)),
    }
    write_json(Path("bench/engine.json"), found)
    print(json.dumps(found, indent=1))


def tokens(items: str) -> dict[str, Any]:
    """Tokens forwarded for the likelihood configs of TruthfulQA, exact and shared, over the fewest.

    Returns:
        Counts, ratios, and what one forward pass for each candidate would take over the fewest.
    """
    jobs = _jobs(int(items))
    every = [ask for job in jobs.values() for ask in job]
    fewest = _fewest(ask.ids[:-1] for ask in every)
    found: dict[str, Any] = {
        "configs": list(jobs),
        "items": int(items),
        "sequences": len(every),
        "fewest_tokens": fewest,
        "one_forward_per_candidate_over_fewest": round(sum(len(ask.ids) for ask in every) / fewest, 3),
    }
    for mode in ("shared", "exact"):
        with _tiny(mode) as (engine, count):
            for name, job in jobs.items():
                print(mode, name, file=sys.stderr)
                engine.answer(job)
            found[f"{mode}_tokens"] = count[0]
            found[f"{mode}_over_fewest"] = round(count[0] / fewest, 4)
    return found


def grow(items: str) -> dict[str, Any]:
    """Tokens, seconds and peak memory of shared mode with so many items."""
    jobs = _jobs(int(items))
    with _tiny("shared") as (engine, count):
        taken = seconds(lambda: [engine.answer(job) for job in jobs.values()])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tokens": count[0], "seconds": round(taken, 2), "peak_memory_mb": round(peak)}


def wall(items: str) -> dict[str, Any]:
    """Seconds of exact mode and of plain transformers in batches over those of shared mode, on SmolLM2 itself."""
    shared = load(ModelSpec(id=MODEL, mode="shared"))
    found: dict[str, Any] = {"items": int(items), "batch": BATCH, "numerics": shared.info.numerics}
    jobs = _jobs(int(items))
    named = [f"minimal, {shots} shots" for shots in SHOTS]
    scores = [ask for name in named for ask in jobs[name]]
    texts = _generations(int(items))
    ours = seconds(lambda: shared.answer(scores, memo=False)), seconds(lambda: shared.answer((), texts, memo=False))
    batches = _plain(shared, scores, texts)
    shared.close()
    exact = load(ModelSpec(id=MODEL))
    theirs = seconds(lambda: exact.answer(scores, memo=False)), seconds(lambda: exact.answer((), texts, memo=False))
    exact.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for at, name in enumerate(("logprob", "free")):
        found[name] = {
            "shared_seconds": round(ours[at], 2),
            "exact_over_shared": round(theirs[at] / ours[at], 2),
            "plain_batches_over_shared": round(batches[at] / ours[at], 2),
        }
    return {**found, "peak_memory_mb": round(peak)}


_STEPS: dict[str, Callable[..., dict[str, Any]]] = {"tokens": tokens, "grow": grow, "wall": wall}


def _apart(*step: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "bench.engine", *step], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _configs(items: int, **changes: Any) -> Iterator[tuple[str, Config]]:
    body = json.loads(load_config(CONFIG).model_dump_json())
    if data_dir() is None:
        body["benchmark"] |= {"source": "pocket", "sha256": None}
    for template in benchmarks.get("truthfulqa").templates():
        for shots in SHOTS:
            own = json.loads(json.dumps(body)) | changes
            own["benchmark"]["items"]["count"] = items
            own["prompt"]["template"], own["shots"]["count"] = template, shots
            yield f"{template}, {shots} shots", Config.model_validate_json(json.dumps(own))


def _jobs(items: int) -> dict[str, list[ScoreRequest]]:
    tokenizer, benchmark = load_tokenizer(ModelSpec(id=MODEL)), benchmarks.get("truthfulqa")
    made = {}
    for name, config in _configs(items):
        canonical = render(config, benchmark, benchmarks.load_data(config, data_dir()), tokenizer)
        made[name] = [ScoreRequest(one.ids, one.n_context) for one in canonical.sequences]
    return made


def _generations(items: int) -> list[GenerateRequest]:
    tokenizer, benchmark = load_tokenizer(ModelSpec(id=MODEL)), benchmarks.get("truthfulqa")
    decodings = [Decoding(16, temperature, 1.0, ("\n",), seed=1) for temperature in (0.0, 0.3, 0.7)]
    made = []
    for name, config in _configs(items, scoring={"path": "free"}):
        if name.startswith("minimal"):
            canonical = render(config, benchmark, benchmarks.load_data(config, data_dir()), tokenizer)
            made += [GenerateRequest(one.ids, decoding) for one in canonical.prompts for decoding in decodings]
    return made


def _fewest(sequences: Iterator[tuple[int, ...]]) -> int:
    """Nodes of a tree of nested mappings: each beginning once."""
    root: dict[int, Any] = {}
    nodes = 0
    for ids in sequences:
        here = root
        for token in ids:
            if token not in here:
                here[token] = {}
                nodes += 1
            here = here[token]
    return nodes


@contextmanager
def _tiny(mode: str) -> Iterator[tuple[Engine, list[int]]]:
    """A tiny random model with SmolLM2's vocabulary behind an engine, and a count of what goes through it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = load_tokenizer(ModelSpec(id=MODEL))
    with tempfile.TemporaryDirectory() as folder:
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=8192,
        )
        LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.hugging_face.save_pretrained(folder)
        engine = load(ModelSpec.model_validate({"id": folder, "quant": "none", "mode": mode, "threads": 1}))
        count = counted(engine)
        try:
            yield engine, count
        finally:
            engine.close()


def _plain(engine: Engine, scores: Sequence[ScoreRequest], texts: Sequence[GenerateRequest]) -> tuple[float, float]:
    """Seconds of transformers itself on the same weights, candidates sorted by length, right- and left-padded."""
    import torch

    model, tokenizer = plain(engine)

    @torch.inference_mode()
    def score() -> None:
        ordered = sorted(scores, key=lambda ask: -len(ask.ids))
        for first in range(0, len(ordered), BATCH):
            batch = ordered[first : first + BATCH]
            ids = torch.zeros(len(batch), max(len(ask.ids) for ask in batch) - 1, dtype=torch.long)
            for row, ask in enumerate(batch):
                ids[row, : len(ask.ids) - 1] = torch.tensor(ask.ids[:-1])
            table = model(ids).logits.log_softmax(-1)
            for row, ask in enumerate(batch):
                own = table[row, ask.start - 1 : len(ask.ids) - 1]
                own.gather(-1, torch.tensor(ask.ids[ask.start :])[:, None]).sum().item()

    @torch.inference_mode()
    def generate() -> None:
        for decoding in dict.fromkeys(ask.decoding for ask in texts):
            ordered = sorted((ask for ask in texts if ask.decoding == decoding), key=lambda ask: -len(ask.ids))
            for first in range(0, len(ordered), BATCH):
                batch = ordered[first : first + BATCH]
                longest = max(len(ask.ids) for ask in batch)
                ids = torch.zeros(len(batch), longest, dtype=torch.long)
                mask = torch.zeros_like(ids)
                for row, ask in enumerate(batch):
                    ids[row, longest - len(ask.ids) :], mask[row, longest - len(ask.ids) :] = torch.tensor(ask.ids), 1
                sampled = {"do_sample": True, "temperature": decoding.temperature, "top_k": 0}
                model.generate(
                    ids,
                    attention_mask=mask,
                    max_new_tokens=decoding.max_tokens,
                    pad_token_id=0,
                    stop_strings=list(decoding.stop),
                    tokenizer=tokenizer,
                    **(sampled if decoding.temperature else {"do_sample": False}),
                )

    return seconds(score), seconds(generate)


if __name__ == "__main__":
    main()
