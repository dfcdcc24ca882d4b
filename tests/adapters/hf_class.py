"""Scores one job twice on the same weights: by the harness's client through a gateway, and by its own `hf` class.

`python -m tests.adapters.hf_class MODEL_SPEC_JSON CONFIG_CHANGES_JSON ARM PACKAGES FOLDER` prints the sums of both as
JSON. It is a process of its own, so that the harness's packages, put behind our own on the path, trouble nobody else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from safetyrepro.adapters.lm_eval import adapter
from safetyrepro.config import Arm, ModelSpec
from safetyrepro.engine.loading import load_engine
from tests.adapters.test_lm_eval import Ran, execute, make_cell


def in_process(ran: Ran, model: Any, tokenizer: Any) -> list[float]:
    """Sums by the `hf` class, in item and candidate order."""
    found = importlib.util.spec_from_file_location("runner", adapter.runner)
    assert found is not None
    assert found.loader is not None
    runner = importlib.util.module_from_spec(found)
    found.loader.exec_module(runner)
    import lm_eval
    from lm_eval.models.huggingface import HFLM

    results = lm_eval.simple_evaluate(
        model=HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4),
        tasks=[runner.build_task(ran.job.payload)],
        task_manager=runner.TaskManager(include_defaults=False),
        bootstrap_iters=0,
        **ran.job.payload["evaluate"],
    )
    (samples,) = results["samples"].values()
    return [responses[0][0] for sample in samples for responses in sample["resps"]]


def main(spec: str, changes: str, arm: str, packages: str, folder: str) -> None:
    """Run both and print `{"gateway": [...], "hf": [...]}`."""
    engine = load_engine(ModelSpec.model_validate_json(spec), lambda _: None)
    data = os.environ.get("SAFETYREPRO_DATA")
    cell = make_cell(engine, Arm(arm), Path(data) if data else None, **json.loads(changes))
    ran = execute(cell, Path(folder), engine)
    gateway = [candidate.logprob for record in ran.records for candidate in record.candidates]
    sys.path.append(packages)
    hf = in_process(ran, engine._shape.model, engine._fast.hugging_face)
    engine.close()
    print(json.dumps({"gateway": gateway, "hf": hf}))


if __name__ == "__main__":
    main(*sys.argv[1:])
