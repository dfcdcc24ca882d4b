"""An experiment of several models has one of them in memory at a time."""

from __future__ import annotations

from pathlib import Path

from safetyrepro.config import load_config
from safetyrepro.crosspkg.attribution_run import attribute_experiment
from safetyrepro.crosspkg.experiment import Plan, run_experiment
from safetyrepro.progress import Progress
from tests.crosspkg.test_experiment import write_config
from tests.tiny import make_tiny_model


def test_models_are_run_and_attributed_one_after_the_other(
    tiny_model: Path, tmp_path: Path, held_at_loads: list[int]
) -> None:
    other = make_tiny_model(tmp_path / "tiny-other", seed=1)
    models = [{"id": str(folder), "quant": "none"} for folder in (tiny_model, other)]
    path = write_config(tmp_path, tiny_model, models=models, arms=["nominal"], suites=["lm_eval", "inspect_ai"])
    experiment = run_experiment(Plan((load_config(path),), tmp_path / "out"), Progress(None))
    assert held_at_loads == [0, 0]
    held_at_loads.clear()
    attribute_experiment(experiment, tmp_path / "out", Progress(None))
    assert [cell.facts.state for cell in experiment.cells] == ["done"] * 4
    # The run's last model is let go with the run.
    assert held_at_loads == [0, 0]
