"""Outcomes made by code: items of two models, as a table file or as paired arrays."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from safetyrepro.analysis.flips.pairing import PairedItems, pair_items
from safetyrepro.analysis.flips.signals import SignalTable

COLUMNS = ("model", "benchmark", "config_id", "item_id", "score")


def rows(model: str, scores: Sequence[Any], *, config: str = "c1", **more: Sequence[Any]) -> list[dict[str, Any]]:
    """One row per item `i0`, `i1`, ...; further columns by name."""
    return [
        {"model": model, "benchmark": "bench", "config_id": config, "item_id": f"i{place}", "score": score}
        | {name: values[place] for name, values in more.items()}
        for place, score in enumerate(scores)
    ]


def write_csv(path: Path, table: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows, every column that any of them has."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="")
        writer.writeheader()
        writer.writerows(table)
    return path


def paired(old: Sequence[float], new: Sequence[float], clusters: Sequence[str] | None = None) -> PairedItems:
    """Two models' scores on the same items."""
    names = [f"i{place}" for place in range(len(old))]
    groups = names if clusters is None else list(clusters)
    frames = [pd.DataFrame({"item_id": names, "cluster": groups, "score": scores}) for scores in (old, new)]
    return pair_items(*frames)


def signal_table(
    old: Sequence[bool], new: Sequence[bool], clusters: Sequence[str] | None = None, **signals: Sequence[float]
) -> SignalTable:
    """Signals of one task and update."""
    names = tuple(f"i{place}" for place in range(len(old)))
    return SignalTable(
        update="v1 to v2",
        task="bench",
        items=names,
        clusters=names if clusters is None else tuple(clusters),
        old_right=np.array(old, dtype=np.bool_),
        new_right=np.array(new, dtype=np.bool_),
        signals={name: np.array(values, dtype=np.float64) for name, values in signals.items()},
    )


def planted(items: int = 600, flips: int = 150, seed: int = 7) -> SignalTable:
    """Old-correct items with confidence that says a little, its copy, noise, and a signal that knows the flips."""
    generator = np.random.default_rng(seed)
    lost = np.zeros(items, dtype=np.bool_)
    lost[:flips] = True
    confidence = generator.normal(size=items) - 0.4 * lost
    return signal_table(
        [True] * items,
        list(~lost),
        confidence_new=list(confidence),
        copy=list(np.exp(confidence)),
        noise=list(generator.normal(size=items)),
        knows=list(lost + 0.05 * generator.normal(size=items)),
    )
