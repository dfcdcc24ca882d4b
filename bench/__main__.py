"""`python -m bench`: measure, print, and write bench/anchor.json, bench/engine.json and bench/envelope.json."""

from __future__ import annotations

import json
from pathlib import Path

from bench import engine, envelope
from bench.gateway import measure
from safetyrepro.atomic import write_json

CONFIG = Path("anchor_configs/anchors/truthfulqa-mc1-pocket.yaml")


def main() -> None:
    """Run the measurements from the repository's root."""
    found = measure(CONFIG)
    write_json(Path("bench/anchor.json"), found)
    print(json.dumps(found, indent=1))
    engine.main()
    envelope.main()


main()
