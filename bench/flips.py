"""What collecting every signal costs: CPU time against plain scoring of the same items by both versions.

Like with like in both of the engine's modes: exact, in which an update's versions are as a rule, and shared, in which
common beginnings of all items are computed once in full forward passes.

`python -m bench.flips [CONFIG] [UPDATE]` measures, prints, and writes bench/flips.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from safetyrepro.atomic import write_json
from safetyrepro.engine.api import ScoreRequest
from safetyrepro.flips.collect import Versions, collect, versions_of
from safetyrepro.flips.config_task import config_task
from safetyrepro.flips.task import Task
from safetyrepro.flips.update import Update, load_update
from safetyrepro.paths import data_dir
from safetyrepro.progress import Progress

CONFIG = Path("anchor_configs/anchors/truthfulqa-mc1-pocket.yaml")
UPDATE = Path("anchor_configs/updates/smollm2-nf4.yaml")
ITEMS = 8
ROUNDS = 3
MODES = ("exact", "shared")


def measure(config: Path, update: Path) -> dict[str, Any]:
    """Time plain scoring and collection of one task.

    Args:
        config: a canonical config scored by likelihood.
        update: both versions.

    Returns:
        Figures as JSON: the least of the rounds in CPU seconds of all threads, and what collecting costs over them.
    """
    task = config_task(config, data_dir(), ITEMS)
    pair = load_update(update)
    seconds: dict[str, float] = {}
    for mode in MODES:
        in_mode = {version: getattr(pair, version).model_copy(update={"mode": mode}) for version in ("old", "new")}
        with _both(pair.model_copy(update=in_mode)) as versions:
            seconds[f"plain_{mode}"], seconds[f"collected_{mode}"] = _least(
                lambda versions=versions: _score(versions, task),
                lambda versions=versions: _collect(versions, task),
            )
    return {
        "config": config.name,
        "update": update.name,
        "items": ITEMS,
        "rounds": ROUNDS,
        "cpu_seconds": {name: round(value, 3) for name, value in seconds.items()},
        **{f"ratio_{mode}": round(seconds[f"collected_{mode}"] / seconds[f"plain_{mode}"], 3) for mode in MODES},
    }


def _both(update: Update) -> AbstractContextManager[Versions]:
    return versions_of(update, Progress(sys.stderr), one_at_a_time=False)


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


def _collect(versions: Versions, task: Task) -> None:
    for version in ("old", "new"):
        versions.side(version).observer.views([])  # forget the last round
    collect(versions, [task], Progress(None))


def _least(*works: Callable[[], object]) -> list[float]:
    """CPU seconds of each work's quickest round, in turn, after a round that warms up."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS + 1):
        for work, seconds in zip(works, taken, strict=True):
            started = time.process_time()
            work()
            seconds.append(time.process_time() - started)
    return [min(seconds[1:]) for seconds in taken]


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    found = measure(*(given + [CONFIG, UPDATE][len(given) :]))
    write_json(Path("bench/flips.json"), found)
    print(json.dumps(found, indent=1))
