"""The embedded envelope whole: all 612 cells on three tiny models, an item each, sealed, run, verified, analysed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from safetyrepro.config import ModelSpec
from safetyrepro.envelope.grid import Envelope, GridModel, load_envelope, narrowed
from safetyrepro.envelope.run import run_sealed
from safetyrepro.envelope.verify import verify
from safetyrepro.stability.source import benchmark_grids, read_scores
from tests.envelope.grids import OWN, QUIET, seal


def short(grid: Envelope) -> Envelope:
    """With answers of two tokens, all else as it is."""
    body = json.loads(grid.model_dump_json())
    body["config"]["decoding"]["max_tokens"] = 2
    changes = [level["config"] for axis in body["axes"] for level in axis["levels"]]
    for change in (*changes, *(one["config"] for one in body["benchmarks"])):
        change.get("decoding", {}).pop("max_tokens", None)
    return Envelope.model_validate_json(json.dumps(body))


def test_all_612_cells(models: tuple[Path, ...], tmp_path: Path) -> None:
    grid = short(narrowed(load_envelope(OWN / "embedded.yaml"), limit=1))
    tiny = tuple(
        GridModel(name=f"tiny-{at}", model=ModelSpec(id=str(path), quant="none", mode="shared", threads=1))
        for at, path in enumerate(models)
    )
    sealed = seal(grid.model_copy(update={"models": tiny}), tmp_path / "whole")
    finished = run_sealed(sealed.folder, None, QUIET)
    assert (finished.cells, finished.shards, finished.rows) == (612, 180, 612)
    verdict = verify(sealed.folder, seal=sealed.seal, head=finished.head)
    assert (verdict.problems, verdict.cells, verdict.rows) == ([], 612, 612)
    grids = benchmark_grids(read_scores(sealed.folder))
    counts = {one.benchmark: len(one.configurations) for one in grids}
    assert counts == {"truthfulqa": 48, "bbq": 48, "toxigen": 48, "xstest": 48, "crows_pairs": 12}
    assert {len(one.models) for one in grids} == {3}
    scoring = Counter(configuration.axes["scoring"] for one in grids for configuration in one.configurations)
    assert scoring == {"free": 4 * 36, "logprob": 5 * 12}
