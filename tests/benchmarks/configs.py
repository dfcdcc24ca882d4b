"""Configs for tests, from a few dotted values."""

from __future__ import annotations

import json
from typing import Any

from safetyrepro.config import Config


def make_config(benchmark: str, **fields: Any) -> Config:
    """A config of `benchmark` with `section__field=value` set, defaults elsewhere."""
    body: dict[str, Any] = {
        "name": "test",
        "benchmark": {"name": benchmark},
        "metric": {"truthfulqa": "mc1", "crows_pairs": "parity"}.get(benchmark, "accuracy"),
        "models": [{"id": "m"}],
    }
    for dotted, value in fields.items():
        *sections, last = dotted.split("__")
        target = body
        for section in sections:
            target = target.setdefault(section, {})
        target[last] = value
    return Config.model_validate_json(json.dumps(body))
