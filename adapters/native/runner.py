"""Sends a job's token ids to the gateway, an item a request, and keeps what comes back.

A script of its own, like every suite's runner: `runner.py JOB_JSON OUT_DIR`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import httpx


def main(job_path: str, out_dir: str) -> None:
    """Run the job; `OUT_DIR/results.jsonl` gets a line an item."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    headers = {"Authorization": f"Bearer {os.environ['SAFETYREPRO_TOKEN']}"}
    url = f"{os.environ['SAFETYREPRO_BASE_URL']}/completions"
    # No timeout: a slow model is not a failed one, and the caller has a limit of its own.
    with (
        httpx.Client(headers=headers, timeout=None, trust_env=False) as client,
        (Path(out_dir) / "results.jsonl").open("w", encoding="utf-8") as results,
    ):
        for request in job["requests"]:
            body = {"model": "model", "prompt": request["prompt"], **job["body"]}
            response = client.post(url, json=body)
            if response.status_code != 200:
                sys.exit(f"item {request['item_id']}: {response.status_code} {response.text[:500]}")
            line = {"item_id": request["item_id"], "choices": response.json()["choices"]}
            results.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
