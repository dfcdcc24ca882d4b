"""The reference composition on tables laid out as SOS-Bench publishes them.

The tables here are drawn at random, in the published columns; `SAFETYREPRO_DATA` naming a folder with the real ones
adds the published figures.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from safetyrepro.judge.composition import load_composition
from safetyrepro.judge.meta import MetaPlan, build_meta

GROUPS = ("coding", "data_analysis", "language", "math", "reasoning")
SAFETY = ("BeaverTailsEval", "CDNA", "DTToxicity", "JailbreakHub", "bbq", "xstest", "WildGuardTest", "toxigen",
          "StrongREJECT", "SGXSTest", "SaladBench")  # fmt: skip
IFEVAL = ("inst_level_loose_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "prompt_level_strict_acc")
PARTS = {
    "leaderboard_bbh": ("acc_norm", ["navigate", "snarks", "sports"]),
    "leaderboard_gpqa": ("acc_norm", ["diamond", "main"]),
    "leaderboard_musr": ("acc_norm", ["murder", "team"]),
    "leaderboard_math": ("exact_match", ["algebra_hard", "geometry_hard"]),
}
REAL = Path(os.environ.get("SAFETYREPRO_DATA", "")) / "sos_bench"


def published(folder: Path, **options: Any) -> dict[str, Any]:
    return build_meta(MetaPlan((folder,), load_composition(None), **options))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(11)
    models = [f"{'Llama' if k < 7 else 'Mistral'}-{k}" for k in range(12)]

    def column() -> Any:
        return generator.uniform(0.1, 0.9, 12).round(4)

    judge = pd.DataFrame({"model": [*models, "gpt-9"], "score": [*(100 * column()), 99.0], "CI": "(-1, +1)"})
    live = pd.DataFrame({"model": [m.lower() for m in models], "average": 100 * column()})
    for group in (*GROUPS, "instruction_following"):
        live[group] = 100 * column()
    wide: dict[str, Any] = {"Name": [f"org {m}" for m in models], "GitHub": "somewhere"}
    for prefix, (metric, tasks) in PARTS.items():
        for task in tasks:
            wide[f"{prefix}_{task}/{metric}"] = column()
            wide[f"{prefix}_{task}/{metric}_stderr"] = 0.01
    wide["leaderboard_mmlu_pro/acc"] = column()
    for metric in IFEVAL:
        wide[f"leaderboard_ifeval/{metric}"] = column()
    for name in (*SAFETY, "wmdp"):
        wide[f"{name}/acc"], wide[f"{name}/acc_norm"] = column(), column()
    wide["bbq_age/acc"] = column()
    judge.to_csv(tmp_path / "arena.csv", index=False)
    live.to_csv(tmp_path / "live.csv", index=False)
    pd.DataFrame(wide).to_csv(tmp_path / "harness.csv", index=False)
    names = {"arena": models, "harness": wide["Name"], "live": live["model"]}
    pd.DataFrame(names).to_csv(tmp_path / "names.csv", index=False)
    return tmp_path


def by_hand(folder: Path) -> tuple[pd.Series[Any], dict[str, pd.Series[Any]]]:
    judge, live, wide = (pd.read_csv(folder / f"{name}.csv") for name in ("arena", "live", "harness"))
    know = [live[group] / 100 for group in GROUPS] + [wide["leaderboard_mmlu_pro/acc"]]
    know += [
        wide[[f"{prefix}_{task}/{metric}" for task in tasks]].mean(axis=1) for prefix, (metric, tasks) in PARTS.items()
    ]
    ifeval = wide[[f"leaderboard_ifeval/{metric}" for metric in IFEVAL]].mean(axis=1)
    safe = [wide[f"{name}/acc"] for name in SAFETY] + [1 - wide["wmdp/acc"]]
    factors = {
        "world_knowledge": sum(know) / 10,
        "instruction_following": (live["instruction_following"] / 100 + ifeval) / 2,
        "safety": sum(safe) / 12,
    }
    return judge["score"][:12], factors


def test_factors_are_the_definitions(folder: Path) -> None:
    body = published(folder, draws=999)
    judge, factors = by_hand(folder)
    assert body["models"] == 12
    assert list(body["left_out"]) == []
    for name, factor in factors.items():
        found = body["factors"][name]
        assert list(body["factor_scores"][name].values()) == pytest.approx(factor.tolist(), abs=1e-6)
        assert found["pearson"] == pytest.approx(judge.corr(factor), abs=1e-6)
        assert found["spearman"] == pytest.approx(judge.corr(factor, method="spearman"), abs=1e-6)
        assert found["absent"] == []
        assert {s: inner["n"] for s, inner in found["strata"].items()} == {"Llama": 7, "Mistral": 5}


def test_z_scored_factors(folder: Path) -> None:
    body = published(folder, draws=999, z_scored=True)
    judge, _ = by_hand(folder)
    live, wide = pd.read_csv(folder / "live.csv"), pd.read_csv(folder / "harness.csv")
    parts = [live["instruction_following"], wide[[f"leaderboard_ifeval/{m}" for m in IFEVAL]].mean(axis=1)]
    z = sum((part - part.mean()) / part.std() for part in parts)
    assert body["factors"]["instruction_following"]["pearson"] == pytest.approx(judge.corr(z), abs=1e-6)


if REAL.is_dir():

    def test_the_published_figures() -> None:
        body = published(REAL)
        assert body["models"] == 32
        figures = {name: (f["pearson"], f["spearman"]) for name, f in body["factors"].items()}
        assert figures["world_knowledge"] == pytest.approx((0.136, 0.203), abs=0.005)
        assert figures["instruction_following"] == pytest.approx((0.357, 0.436), abs=0.005)
        assert figures["safety"] == pytest.approx((-0.076, -0.234), abs=0.005)
        assert body["factors"]["safety"]["discordant_pairs"] == pytest.approx(0.6, abs=0.01)
        assert body["factors"]["safety"]["invariant"] == ["saladbench"]
        strata = body["factors"]["safety"]["strata"]
        assert {name: inner["n"] for name, inner in strata.items()} == {"Llama": 22, "Mistral": 10}
        assert "goes with instruction following" in body["finding"]
        assert "no established relation to world knowledge" in body["finding"]

    def test_the_published_training_steps() -> None:
        stages = published(REAL)["stages"]
        optimised = [c for c in stages["changes"] if c["step"] == "preference optimisation"]
        assert [c["method"] for c in optimised] == ["DPO", "IPO", "KTO", "ORPO", "RDPO", "Magpie"]
        assert optimised[0]["judge"] == pytest.approx(13.81 - 9.18)
        assert all(c["judge"] > 0 for c in optimised)
