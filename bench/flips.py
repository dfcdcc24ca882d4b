"""What collecting every signal costs: CPU time against plain scoring of the same items by both versions.

`python -m bench.flips [CONFIG] [UPDATE]` measures, prints, and writes bench/flips.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.engine.api import ScoreRequest
from safetyrepro.flips.collect import Versions, collect, versions_of
from safetyrepro.flips.config_task import config_task
from safetyrepro.flips.task import Task
from safetyrepro.flips.update import load_update
from safetyrepro.paths import data_dir
from safetyrepro.progress import Progress

CONFIG = Path("anchor_configs/anchors/truthfulqa-mc1-pocket.yaml")
UPDATE = Path("anchor_configs/updates/smollm2-nf4.yaml")
ITEMS = 8
ROUNDS = 2


def measure(config: Path, update: Path) -> dict[str, Any]:
    """Time plain scoring and collection of one task, in turns, after a round that warms up.

    Args:
        config: a canonical config scored by likelihood.
        update: both versions.

    Returns:
        Figures as JSON: the least of the rounds in CPU seconds of all threads, and their ratio.
    """
    task = config_task(config, data_dir(), ITEMS)
    with versions_of(load_update(update), Progress(sys.stderr), one_at_a_time=False) as versions:
        plain, collected = [], []
        for _ in range(ROUNDS + 1):
            plain.append(_seconds(lambda: _score(versions, task)))
            collected.append(_seconds(lambda: collect(versions, [task], Progress(None))))
    least = {"plain_cpu_s": min(plain[1:]), "collected_cpu_s": min(collected[1:])}
    return {
        "config": config.name,
        "update": update.name,
        "items": ITEMS,
        "rounds": ROUNDS,
        **{name: round(value, 3) for name, value in least.items()},
        "ratio": round(least["collected_cpu_s"] / least["plain_cpu_s"], 3),
    }


def _score(versions: Versions, task: Task) -> None:
    for version in ("old", "new"):
        engine = versions.side(version).engine
        engine.answer(
            [
                ScoreRequest((*question.ids, *option.ids), start=len(question.ids))
                for question in task.questions(engine.tokenizer)
                for option in question.options
            ],
            memo=False,
        )


def _seconds(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    found = measure(*(given + [CONFIG, UPDATE][len(given) :]))
    write_json(Path("bench/flips.json"), found)
    print(json.dumps(found, indent=1))
