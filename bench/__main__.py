"""`python -m bench`: measure, print, and write bench/anchor.json and bench/engine.json."""

from __future__ import annotations

import json
from pathlib import Path

from bench import engine
from bench.gateway import measure
from safetyrepro.atomic import write_json

CONFIG = Path("anchor_configs/anchors/truthfulqa-mc1-pocket.yaml")


def main() -> None:
    """Run the measurements from the repository's root."""
    found = measure(CONFIG)
    write_json(Path("bench/anchor.json"), found)
    print(json.dumps(found, indent=1))
    engine.main()


main()
