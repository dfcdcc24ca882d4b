"""Runs one job in Inspect AI: `python -P runner.py JOB_JSON OUT_DIR`, in the suite's own environment.

Leaves below OUT_DIR the `.eval` log of every task as Inspect writes it, and `log.json` (`log-2.json` for a second one):
the same log written by Inspect again as JSON with every pooled message and model call in its place, which plain JSON
readers can follow.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from inspect_ai import eval
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import get_model

JUDGE = "openai-api/judge/judge"
"""A neutral name, as for the evaluated model; whoever answers at the URL knows which model is meant."""
TIMEOUT_SECONDS = 86_400
"""For one request, its wait behind others included; the client's own ten minutes are too few for a long answer on a
slow machine. A run as a whole is bounded by whoever started it."""


def cause(log: EvalLog) -> str:
    """The failed evaluation's error, and what the first request that failed was told."""
    error = log.error.message if log.error else "no error given"
    for sample in log.samples or []:
        for event in sample.events:
            if event.event == "model" and event.error:
                return f"{error}; a request to {'the judge' if event.model == JUDGE else 'the model'}: {event.error}"
    return error


def run(job: dict[str, Any], out_dir: Path) -> int:
    """Evaluate the job's tasks; 0 where Inspect calls the evaluation a success."""
    sys.path.append(str(Path(__file__).resolve().parent))
    import inspect_tasks  # type: ignore[import-not-found]

    model = get_model(
        job["model"],
        base_url=os.environ["SAFETYREPRO_BASE_URL"],
        api_key=os.environ["SAFETYREPRO_TOKEN"],
        max_retries=0,
        client_timeout=TIMEOUT_SECONDS,
    )
    judge = None
    if "judge" in job:
        judge = get_model(
            JUDGE,
            base_url=os.environ["SAFETYREPRO_JUDGE_URL"],
            api_key=os.environ["SAFETYREPRO_JUDGE_TOKEN"],
            max_retries=0,
            client_timeout=TIMEOUT_SECONDS,
        )
    logs = eval(
        inspect_tasks.build(job, judge),
        model=model,
        log_dir=str(out_dir),
        log_format="eval",
        log_model_api=True,
        log_realtime=False,
        display="none",
        ctl_server=False,
        fail_on_error=job["fail_on_error"],
        **job["generate"],
    )
    for number, log in enumerate(logs, start=1):
        name = "log.json" if number == 1 else f"log-{number}.json"
        write_eval_log(read_eval_log(log.location, resolve_attachments=True), str(out_dir / name), format="json")
        if log.status != "success":
            print(f"Inspect AI ended with status {log.status}: {cause(log)}")
    return 0 if all(log.status == "success" for log in logs) else 1


if __name__ == "__main__":
    sys.exit(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])))
