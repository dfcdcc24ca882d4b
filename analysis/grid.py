"""A score table as arrays: per benchmark, item scores by model, configuration and item."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.aggregate import Aggregate
from safetyrepro.analysis.resampling import Floats
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

AXES = ("scoring", "template", "decoding", "shots", "suite", "arm")
"""Columns that describe a configuration, in the order in which configurations are listed."""
UNSCORED = ("error", "missing", "undefined")
"""Statuses of an answer that never came back: whatever their score column holds, they are in no denominator."""
_TEMPERATURE = re.compile(r"(?:t|temp|temperature)?\s*[=:]?\s*(\d+(?:\.\d+)?)", re.IGNORECASE)


def temperature(decoding: str) -> float | None:
    """The temperature that a level of the decoding axis names (`greedy` is 0, `T=0.3` is 0.3), if any."""
    if decoding.strip().casefold() == "greedy":
        return 0.0
    match = _TEMPERATURE.fullmatch(decoding.strip())
    return float(match.group(1)) if match else None


@dataclass(frozen=True)
class Configuration:
    """One configuration of a benchmark: a config, and the suite and arm that ran it."""

    label: str
    """`config_id`, with suite and arm behind it where they tell configurations apart."""
    config_id: str
    axes: Mapping[str, str]
    """Level of each of `AXES`; empty where the table does not say."""
    tiers: tuple[str, ...]
    """What the table's `tier` column says."""

    @property
    def sampled(self) -> bool:
        """Whether text is generated at a temperature over 0."""
        heat = temperature(self.axes["decoding"])
        return self.axes["scoring"] != "logprob" and heat is not None and heat > 0

    @property
    def drawn_shots(self) -> bool:
        """Whether worked examples were drawn."""
        return self.axes["shots"] not in ("", "0")


@dataclass(frozen=True)
class BenchmarkGrid:
    """One benchmark's scores."""

    benchmark: str
    models: tuple[str, ...]
    """In alphabetical order."""
    configurations: tuple[Configuration, ...]
    items: tuple[str, ...]
    """Item ids in sorted order; a single empty one where the table holds cell means."""
    clusters: tuple[str, ...]
    scores: Floats
    """Shape (models, configurations, items): mean over repeats, NaN where there is no score."""
    repeats: NDArray[np.int64]
    """Shape (models, configurations): how many repeats a cell has."""
    repeat_range: Floats
    """Shape (2, models, configurations): lowest and highest cell mean of a single repeat."""
    item_level: bool
    kind: Aggregate
    """How item scores make a cell's score: their mean, or its parity."""
    chance: Floats
    """Shape (configurations,): expected score of a guess, NaN where it is not known."""
    rows: int
    statuses: Mapping[str, int]
    """Rows by status, where the table has statuses."""
    without_score: int

    @property
    def parity(self) -> bool:
        """Whether cells are ranked by parity."""
        return self.kind == "parity"

    @property
    def labels(self) -> tuple[str, ...]:
        """The configurations' labels."""
        return tuple(configuration.label for configuration in self.configurations)

    @property
    def n_clusters(self) -> int:
        """Number of clusters of items."""
        return len(set(self.clusters))


def grids(
    frame: pd.DataFrame,
    *,
    item_level: bool,
    kind: Callable[[str], Aggregate],
    chance: Callable[[str, str], float | None],
) -> tuple[BenchmarkGrid, ...]:
    """The grids of a score table, one a benchmark, in alphabetical order.

    A row whose status is `error`, `missing` or `undefined` holds no score. An `unparsed` one counts with the score that
    the table gives it. Scores of several repeats are averaged within an item.

    Args:
        frame: columns and types as `safetyrepro.tables.read_table` gives them.
        item_level: whether rows are items; if not, each is a cell mean.
        kind: how the benchmark of this name makes a cell's score of its items.
        chance: the expected score of a guess by benchmark and `config_id`, None where it is not known.

    Raises:
        InputError: one configuration with two templates (or other axis values), one item in two clusters, a parity
            score that is no share.
    """
    return tuple(
        _grid(str(name), part, item_level, kind(str(name)), chance)
        for name, part in frame.groupby("benchmark", sort=True)
    )


def _grid(
    name: str, frame: pd.DataFrame, item_level: bool, kind: Aggregate, chance: Callable[[str, str], float | None]
) -> BenchmarkGrid:
    import pandas as pd

    described = frame[[c for c in ("config_id", "suite", "arm", *AXES[:4], "tier") if c in frame]].astype("string")
    described = described.fillna("")
    keys = [c for c in ("config_id", "suite", "arm") if c in described]
    config_codes, config_rows = _configurations(name, described, keys)
    model_codes, models = pd.factorize(frame["model"].astype(str), sort=True)
    item_codes, items = (
        pd.factorize(frame["item_id"].astype(str), sort=True)
        if item_level
        else (np.zeros(len(frame), dtype=np.int64), np.array([""]))
    )
    score = frame["score"].to_numpy(dtype=np.float64).copy()
    statuses: Mapping[str, int] = {}
    if "status" in frame:
        score[frame["status"].isin(UNSCORED).to_numpy()] = np.nan
        counts = frame["status"].value_counts()
        statuses = {str(status): int(count) for status, count in counts.items() if status}
    valid = ~np.isnan(score)
    if kind == "parity" and valid.any() and (score[valid].min() < 0 or score[valid].max() > 1):
        found = score[valid][(score[valid] < 0) | (score[valid] > 1)][0]
        raise InputError(f"benchmark {name!r} is ranked by parity: score {found:g} is no share, give scores in [0, 1].")
    shape = (len(models), len(config_rows), len(items))
    flat = np.ravel_multi_index((model_codes, config_codes, item_codes), shape)
    size = int(np.prod(shape))
    sums = np.bincount(flat[valid], weights=score[valid], minlength=size)
    counted = np.bincount(flat[valid], minlength=size)
    means = np.divide(sums, counted, out=np.full(size, np.nan), where=counted > 0).reshape(shape)
    repeats, spread = _repeats(frame, score, model_codes * shape[1] + config_codes, shape[:2])
    configurations = _described(config_rows)
    return BenchmarkGrid(
        benchmark=name,
        models=tuple(map(str, models)),
        configurations=configurations,
        items=tuple(map(str, items)),
        clusters=_clusters(name, frame, tuple(map(str, items))) if item_level else ("",),
        scores=means,
        repeats=repeats,
        repeat_range=spread,
        item_level=item_level,
        kind=kind,
        chance=np.array([_chance(chance, name, configuration.config_id) for configuration in configurations]),
        rows=len(frame),
        statuses=statuses,
        without_score=int((~valid).sum()),
    )


def _chance(chance: Callable[[str, str], float | None], name: str, config_id: str) -> float:
    value = chance(name, config_id)
    return np.nan if value is None else value


def _configurations(
    name: str, described: pd.DataFrame, keys: list[str]
) -> tuple[NDArray[np.int64], list[dict[str, str]]]:
    """The code of each row's configuration, and the configurations in listing order."""
    import pandas as pd

    distinct = described.drop_duplicates()
    clash = distinct[distinct.duplicated(keys, keep=False)]
    if len(clash):
        first = clash.iloc[0]
        same = clash[(clash[keys] == first[keys]).all(axis=1)]
        column = next(column for column in same.columns if same[column].nunique() > 1)
        values = " and ".join(repr(value) for value in same[column].unique()[:2])
        raise InputError(
            f"benchmark {name!r}, config_id {first['config_id']!r}: {column} is {values}; one configuration has one "
            f"{column}, give another config_id to another configuration."
        )
    rows = [{str(key): str(value) for key, value in row.items()} for row in distinct.to_dict("records")]
    rows.sort(key=lambda row: [_level_order(axis, row.get(axis, "")) for axis in (*AXES, "config_id")])
    codes = {tuple(row[key] for key in keys): number for number, row in enumerate(rows)}
    index = pd.MultiIndex.from_frame(described[keys]) if len(keys) > 1 else None
    found = index if index is not None else [(value,) for value in described[keys[0]]]
    return np.fromiter((codes[tuple(key)] for key in found), dtype=np.int64, count=len(described)), rows


def _level_order(axis: str, level: str) -> tuple[bool, float, str]:
    """Numbers by size and before words; decodings by temperature."""
    number = temperature(level) if axis == "decoding" else float(level) if level.isdecimal() else None
    return (number is None, number or 0.0, level)


def _described(rows: list[dict[str, str]]) -> tuple[Configuration, ...]:
    varying = [axis for axis in ("suite", "arm") if len({row.get(axis, "") for row in rows}) > 1]
    return tuple(
        Configuration(
            label=" / ".join([row["config_id"], *(row.get(axis, "") or "-" for axis in varying)]),
            config_id=row["config_id"],
            axes={axis: row.get(axis, "") for axis in AXES},
            tiers=tuple(part for part in row.get("tier", "").replace(",", ";").replace(" ", ";").split(";") if part),
        )
        for row in rows
    )


def _repeats(
    frame: pd.DataFrame, score: Floats, cells: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[NDArray[np.int64], Floats]:
    import pandas as pd

    table = pd.DataFrame({"cell": cells, "repeat": frame["repeat"].to_numpy(dtype=np.int64), "score": score}).dropna()
    means = table.groupby(["cell", "repeat"])["score"].mean().groupby("cell")
    counts, spread = np.zeros(shape, dtype=np.int64), np.full((2, *shape), np.nan)
    summary: Any = means.agg(["size", "min", "max"])
    index = summary.index.to_numpy(dtype=np.int64)
    counts.reshape(-1)[index] = summary["size"].to_numpy(dtype=np.int64)
    for number, column in enumerate(("min", "max")):
        spread[number].reshape(-1)[index] = summary[column].to_numpy(dtype=np.float64)
    return counts, spread


def _clusters(name: str, frame: pd.DataFrame, items: tuple[str, ...]) -> tuple[str, ...]:
    pairs = frame[["item_id", "cluster"]].astype(str).drop_duplicates()
    twice = pairs[pairs.duplicated("item_id", keep=False)]
    if len(twice):
        item = twice["item_id"].iloc[0]
        found = " and ".join(repr(value) for value in twice[twice["item_id"] == item]["cluster"][:2])
        raise InputError(f"benchmark {name!r}, item {item!r}: cluster is {found}; an item belongs to one cluster.")
    cluster = dict(zip(pairs["item_id"], pairs["cluster"], strict=True))
    return tuple(cluster[item] for item in items)
