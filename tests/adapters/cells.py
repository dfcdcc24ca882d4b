"""A cell as an experiment would give it to an adapter, made from a few changes to a small config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetyrepro.adapters.base import Cell
from safetyrepro.benchmarks import get, load_data
from safetyrepro.canonical import render
from safetyrepro.config import Arm, Config, cell_id, config_id
from safetyrepro.engine.api import Engine


def cell_of(suite: str, version: str, engine: Engine, arm: Arm, data_dir: Path | None = None, **changes: Any) -> Cell:
    """Three pocket items of TruthfulQA, mc1, unless `changes` to the config say otherwise."""
    body = {
        "name": "tiny",
        "benchmark": {"name": "truthfulqa", "items": {"count": 3, "seed": 2}},
        "metric": "mc1",
        "models": [{"id": "tiny", "quant": "none"}],
        **changes,
    }
    config = Config.model_validate_json(json.dumps(body))
    benchmark, data = get(config.benchmark.name), load_data(config, data_dir)
    return Cell(
        run_id="run",
        suite=suite,
        suite_version=version,
        arm=arm,
        config=config,
        config_id=config_id(config),
        cell_id=cell_id(config, config.models[0], suite, arm),
        model=engine.info,
        benchmark=benchmark,
        data=data,
        canonical=render(config, benchmark, data, engine.tokenizer),
    )
