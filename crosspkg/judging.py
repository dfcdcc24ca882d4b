"""The judge of a cell whose suite asks one: a gateway of its own before the config's endpoint, with a log of its own.

The suite's process never sees the key: it is given a URL and a token on loopback, as for the evaluated model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell, Job

KEY_VARIABLE = "SAFETYREPRO_JUDGE_KEY"
LOG = "judge.jsonl"


@contextmanager
def judge_of(cell: Cell, job: Job, folder: Path) -> Iterator[dict[str, str]]:
    """Serve the config's judge while the cell runs.

    Yields:
        Environment variables of the runner: `SAFETYREPRO_JUDGE_URL` and `SAFETYREPRO_JUDGE_TOKEN`; none where the job
        asks no judge.

    Raises:
        InputError: the judge's URL is none.
    """
    if not job.judged or cell.config.judge is None:
        yield {}
        return
    from safetyrepro.gateway import Gateway, Upstream

    judge = cell.config.judge
    with Gateway(Upstream(judge.url, model=judge.model, key_variable=KEY_VARIABLE)) as gateway:
        run = gateway.open_run(f"{cell.run_id}-judge", folder / LOG)
        yield {"SAFETYREPRO_JUDGE_URL": run.base_url, "SAFETYREPRO_JUDGE_TOKEN": run.token}
