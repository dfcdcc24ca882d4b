"""What numerics change in a model's sums, and which choices of a run lie inside that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from safetyrepro.cli.doctor import doctor
from safetyrepro.config import ModelSpec
from safetyrepro.engine.noise import Candidate, Variation, variations
from safetyrepro.errors import InputError
from safetyrepro.numerics import as_json, fixed_candidates, run_choices
from safetyrepro.records import read_records, write_records
from tests.crosspkg.report_experiment import Shape, make

MODEL = "SmolLM2-135M-Instruct"


@pytest.fixture(scope="module")
def measured(families: dict[str, Path]) -> tuple[list[Variation], list[Candidate]]:
    kept: list[Candidate] = []

    def fixed(opened: Any) -> list[Candidate]:
        kept[:] = fixed_candidates(opened.tokenizer)
        return kept

    spec = ModelSpec(id=str(families["gemma3"]), quant="none", threads=1)
    return variations(spec, fixed, lambda _line: None), kept


def test_everything_is_varied_at_both_dtypes(measured: tuple[list[Variation], list[Candidate]]) -> None:
    found, candidates = measured
    assert len(candidates) > 24
    assert len({candidate.question for candidate in candidates}) == 8
    per_dtype = ["4 rows", "16 rows", "2", "exact, in chunks of 32", "shared"]
    for dtype in ("float32", "bfloat16"):
        assert [one.setting for one in found if one.dtype == dtype and one.what != "dtype"] == per_dtype
    for one in found:
        assert 0 <= one.median <= one.largest
        assert one.choices == 8
        assert one.largest < (1e-3 if one.dtype == "float32" else 30)


def test_what_a_dtype_changes_is_what_transformers_says(
    families: dict[str, Path], measured: tuple[list[Variation], list[Candidate]]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    found, candidates = measured
    sums = []
    for dtype in (torch.float32, torch.bfloat16):
        model: Any = AutoModelForCausalLM.from_pretrained(families["gemma3"], dtype=dtype)
        own = []
        for candidate in candidates:
            ids = torch.tensor([candidate.ids])
            with torch.no_grad():
                table = model(ids).logits[0, :-1].double().log_softmax(-1)
            own.append(float(table.gather(-1, ids[0, 1:, None])[candidate.start - 1 :].sum()))
        sums.append(own)
    moved = [abs(one - other) for one, other in zip(*sums, strict=True)]
    changed = next(one for one in found if one.what == "dtype")
    assert (changed.setting, changed.against) == ("bfloat16", "float32")
    assert changed.largest == pytest.approx(max(moved), abs=1e-3)
    assert changed.largest > max(one.largest for one in found if one.dtype == "float32")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run") / "made", Shape(items=6, benchmarks=("truthfulqa",), hostile=False))


def noise(**largest: float) -> list[Variation]:
    return [Variation(what.replace("_", " "), "x", "y", "float32", at, 0.0, 0, 8) for what, at in largest.items()]


def test_margins_are_those_of_the_records(run: Path) -> None:
    choices = run_choices(run, MODEL)
    by_hand: dict[tuple[str, str, str], float] = {}
    for path in run.glob("cells/*/records.parquet"):
        for record in read_records(path):
            sums = sorted((candidate.logprob or 0.0 for candidate in record.candidates), reverse=True)
            chosen = (
                record.choice is not None and record.candidates[record.choice].logprob == sums[0] if sums else False
            )
            if record.model == MODEL and record.scoring == "logprob" and chosen:
                by_hand[(record.suite, record.arm or "", record.item_id)] = sums[0] - sums[1]
    assert {(one.suite, one.arm, one.item_id): one.margin for one in choices.choices} == pytest.approx(by_hand)
    assert len(by_hand) > 6
    # Two sums that move against each other by half the margin each are level.
    assert all(one.bears == pytest.approx(one.margin / 2) for one in choices.choices)


def test_a_choice_is_within_what_could_change_it(run: Path) -> None:
    choices = run_choices(run, MODEL)
    bears = sorted(one.bears for one in choices.choices)
    told = as_json(choices, noise(batch_size=0.0, threads=bears[2], dtype=1e9))
    within = {name: len(found["choices"]) for name, found in told["within"].items()}
    assert within == {
        "batch size": sum(one <= 0.0 for one in bears),
        "threads": sum(one <= bears[2] for one in bears),
        "mode": sum(one <= 0.0 for one in bears),
        "dtype": len(bears),
    }
    assert within["threads"] >= 3
    assert told["within"]["threads"]["noise"] == bears[2]


def test_length_normalisation_is_undone_per_candidate(run: Path, tmp_path: Path) -> None:
    import shutil
    from dataclasses import replace

    folder = Path(shutil.copytree(run, tmp_path / "copy"))
    plan = json.loads((folder / "experiment.json").read_text())
    plan["configs"][0]["config"]["scoring"]["normalisation"] = "char"
    (folder / "experiment.json").write_text(json.dumps(plan))
    path = next(path for path in sorted(folder.glob("cells/*/records.parquet")) if read_records(path)[0].model == MODEL)
    records = read_records(path)
    scored = next(record for record in records if record.scoring == "logprob" and len(record.candidates) > 1)
    two = tuple(
        replace(candidate, logprob=logprob, n_chars=chars)
        for candidate, logprob, chars in zip(scored.candidates, (-10.0, -30.0), (10, 20), strict=False)
    )
    write_records(path, [replace(r, candidates=two, choice=0) if r is scored else r for r in records])
    found = [
        one
        for one in run_choices(folder, MODEL).choices
        if (one.suite, one.arm, one.item_id) == (scored.suite, scored.arm, scored.item_id)
    ]
    assert found[0].margin == pytest.approx(-10 / 10 + 30 / 20)
    assert found[0].bears == pytest.approx(0.5 / (1 / 10 + 1 / 20))


@pytest.mark.parametrize(
    ("model", "said"), [("gemma", "holds no model 'gemma'; it has SmolLM2-135M-Instruct, gemma-3-270m")]
)
def test_a_model_that_was_not_run_is_named(run: Path, model: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_choices(run, model)


def test_doctor_prints_both(families: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that wait for each other are slow on a busy machine
    folder = make(tmp_path / "made", Shape(items=4, benchmarks=("truthfulqa",), models=(str(families["llama"]),)))
    asked = ["--numerics", str(families["llama"]), "--run", str(folder), "--json"]
    done = CliRunner().invoke(doctor, asked, catch_exceptions=False)
    told = json.loads(done.stdout)
    assert (told["quant"], told["compute_dtype"]) == ("nf4", "float32")
    assert {one["what"] for one in told["variations"]} == {"batch size", "threads", "mode", "dtype"}
    assert told["run"]["choices"] == len(run_choices(folder, str(families["llama"])).choices)
    assert set(told["run"]["within"]) == {"batch size", "threads", "mode", "dtype"}
