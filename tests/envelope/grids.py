"""Small grids of tiny models, sealed and run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetyrepro.envelope.grid import Envelope
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.ledger import LEDGER, Entry, entry_hash, read_lines
from safetyrepro.envelope.plan import build_plan
from safetyrepro.envelope.seal import Sealed, write_seal
from safetyrepro.progress import Progress

QUIET = Progress(None)
OWN = Path(__file__).parents[2] / "anchor_configs" / "envelope"


def axis(name: str, levels: dict[str, Any], **only: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "only": only,
        "levels": [{"name": level, "config": config} for level, config in levels.items()],
    }


TEMPLATE = axis("template", {name: {"prompt": {"template": name}} for name in ("minimal", "chain_of_thought")})
SHOTS = axis("shots", {str(count): {"shots": {"count": count}} for count in (0, 1)})
SCORING = axis("scoring", {path: {"scoring": {"path": path}} for path in ("free", "logprob")})
DECODING = axis(
    "decoding",
    {"greedy": {"decoding": {"temperature": 0}}, "T=0.7": {"decoding": {"temperature": 0.7}}},
    scoring=["free"],
)
BBQ = {"benchmark": {"name": "bbq", "items": {"count": 2}}, "metric": "accuracy"}
CROWS = {
    "benchmark": {"name": "crows_pairs", "items": {"count": 2}},
    "metric": "parity",
    "config": {"scoring": {"candidate": "text"}},
    "levels": {"scoring": ["logprob"]},
}


def body(models: Sequence[Path | str], **changes: Any) -> dict[str, Any]:
    """An envelope over `models` as a YAML file would hold it; 16 cells a model."""
    return {
        "name": "small",
        "models": [
            {
                "name": f"tiny-{number}",
                "model": {"id": str(model), "quant": "none", "mode": "shared", "threads": 1, "cache_mb": 64},
            }
            for number, model in enumerate(models)
        ],
        "benchmarks": [BBQ, CROWS],
        "config": {
            "prompt": {"ask": "always"},
            "decoding": {"max_tokens": 2},
            "scoring": {"candidate": "letter", "extraction": "lenient"},
        },
        "axes": [TEMPLATE, SHOTS, SCORING, DECODING],
    } | changes


def envelope(models: Sequence[Path | str], **changes: Any) -> Envelope:
    return Envelope.model_validate_json(json.dumps(body(models, **changes)))


def seal(grid: Envelope, folder: Path) -> Sealed:
    return write_seal(build_plan(grid, Items(None), QUIET.say), folder)


def entries(folder: Path) -> list[Entry]:
    lines, problems = read_lines(folder / LEDGER)
    assert not problems
    return [entry for _, entry in lines]


def write_ledger(folder: Path, lines: Sequence[dict[str, Any]], *, seal: str) -> None:
    """What an owner could do: chain any lines anew."""
    import rfc8785

    previous = seal
    content = b""
    for number, line in enumerate(lines):
        body = {**line, "number": number, "previous": previous, "seal": seal}
        body["hash"] = previous = entry_hash(body)
        content += rfc8785.dumps(body) + b"\n"
    (folder / LEDGER).write_bytes(content)
