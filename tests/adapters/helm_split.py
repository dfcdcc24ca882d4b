"""Runs in HELM's environment: which instances its own scenarios evaluate and train on, given our data files.

`python -P helm_split.py CASES_JSON OUT_DIR` writes `OUT_DIR/split.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from helm.benchmark.runner import downsample_eval_instances
from helm.benchmark.scenarios.bbq_scenario import BBQScenario
from helm.benchmark.scenarios.scenario import EVAL_SPLITS, TRAIN_SPLIT, with_instance_ids
from helm.benchmark.scenarios.truthful_qa_scenario import TruthfulQAScenario


def main(cases: Path, out_dir: Path) -> None:
    found = []
    for number, case in enumerate(json.loads(cases.read_text(encoding="utf-8"))):
        folder = out_dir / str(number)
        for name, content in case["files"].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        truthfulqa = case["benchmark"] == "truthfulqa"
        scenario = TruthfulQAScenario("mc_single") if truthfulqa else BBQScenario("all")
        instances = with_instance_ids(scenario.get_instances(str(folder / "scenarios" / scenario.name)))
        if case["limit"] is not None:
            instances = downsample_eval_instances(instances, case["limit"], EVAL_SPLITS)
        found.append(
            {
                "evaluated": [one.input.text for one in instances if one.split in EVAL_SPLITS],
                "train": [one.input.text for one in instances if one.split == TRAIN_SPLIT],
            }
        )
    (out_dir / "split.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
