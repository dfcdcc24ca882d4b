"""How often what `grid` certifies is false, how often it finds a planted reversal, and how often its bounds hold.

`python -m bench.certify [SCENARIO]...` simulates grids with known truth, seeds fixed, and writes bench/certify.json;
with names it simulates those alone and keeps what the file holds of the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.simulated import Floats, Population
from safetyrepro.analysis.aggregate import aggregated
from safetyrepro.analysis.cells import masked_sums
from safetyrepro.analysis.certify import PairSums, certify
from safetyrepro.analysis.resampling import TOLERANCE, holm
from safetyrepro.atomic import write_json

GRIDS, DRAWS, SEED = 1_000, 1_999, 20_260_315
ALPHA = 0.05


@dataclass(frozen=True)
class Scenario:
    """True scores of a grid, and what must be said of it."""

    name: str
    about: str
    shares: Callable[[int], Floats]
    """True shares of right answers of shape (models, configurations), by number of configurations."""
    population: Population = field(default_factory=Population)
    by_parity: bool = False
    planted: bool = False
    """Whether every pair truly reverses."""


def equal(configurations: int) -> Floats:
    """Three models with the same true score in every configuration, which differs between configurations."""
    return np.tile(np.linspace(0.35, 0.65, configurations), (3, 1))


def one_direction(configurations: int) -> Floats:
    """Two models, the first truly ahead by 15 points in half the configurations and equal in the others."""
    shares = equal(configurations)[:2]
    shares[0, ::2] += 0.15
    return shares


def one_direction_of_three(configurations: int) -> Floats:
    """Three models, the first ahead of both others by 15 points in half the configurations, else all equal."""
    shares = equal(configurations)
    shares[0, ::2] += 0.15
    return shares


def reversal(configurations: int) -> Floats:
    """Two models, the first ahead by 20 points in half the configurations and behind by 20 points in the others."""
    shares = equal(configurations)[:2]
    shares[0, ::2] += 0.1
    shares[1, ::2] -= 0.1
    shares[0, 1::2] -= 0.1
    shares[1, 1::2] += 0.1
    return shares


def smaller_reversal(configurations: int) -> Floats:
    """Two models, the first ahead by 12 points in half the configurations and behind by 12 points in the others."""
    middle = equal(configurations)[:2]
    return middle + 0.6 * (reversal(configurations) - middle)


def small_differences(configurations: int) -> Floats:
    """Two models, truly ahead and behind by 1 to 12 points."""
    gaps = np.linspace(-0.08, 0.12, configurations)
    gaps[np.abs(gaps) < 0.01] = 0.0
    return np.array([0.5 + gaps / 2, 0.5 - gaps / 2])


def fair(configurations: int) -> Floats:
    """Three models at parity: exactly where parity has its corner."""
    return np.full((3, configurations), 0.5)


def mirrored(configurations: int) -> Floats:
    """Three models with the same parity, the second on the other side of one half."""
    return np.array([np.full(configurations, 0.6), np.full(configurations, 0.4), np.full(configurations, 0.6)])


def parity_one_direction(configurations: int) -> Floats:
    """Two models, the first at parity and the second not in half the configurations, alike in the others."""
    shares = np.full((2, configurations), 0.5)
    shares[:, 1::2] = 0.6
    shares[1, ::2] = 0.7
    return shares


def parity_reversal(configurations: int) -> Floats:
    """Two models at p = 0.5 and 0.7, changing places from one configuration to the next."""
    shares = np.full((2, configurations), 0.5)
    shares[0, 1::2] = 0.7
    shares[1, ::2] = 0.7
    return shares


CLUSTERED = Population(cluster_size=5, icc=0.3)
FEW = Population(items=40, configurations=12)
PAIRS = Population(items=300, configurations=12)
SCENARIOS = (
    Scenario("equal", "three equal models", equal),
    Scenario("equal_few_items", "three equal models, 40 items, 12 configurations", equal, FEW),
    Scenario("equal_clustered", "three equal models, clusters of 5 items with ICC 0.3", equal, CLUSTERED),
    Scenario("one_direction", "ahead by 15 points in half the configurations, true zeros in the others", one_direction),
    Scenario("one_direction_of_three", "one of three models ahead in half the configurations", one_direction_of_three),
    Scenario("one_direction_clustered", "the same with clusters of 5 items, ICC 0.3", one_direction, CLUSTERED),
    Scenario("small_differences", "a true but small reversal: at most 12 points either way", small_differences),
    Scenario("reversal", "ahead by 20 points in half, behind by 20 points in half", reversal, planted=True),
    Scenario("reversal_of_12_points", "ahead by 12 points in half, behind in half", smaller_reversal, planted=True),
    Scenario("reversal_clustered", "the same, clusters of 5 items, ICC 0.3", reversal, CLUSTERED, planted=True),
    Scenario("parity_fair", "three models at parity", fair, PAIRS, by_parity=True),
    Scenario("parity_mirrored", "same parity on either side of one half", mirrored, PAIRS, by_parity=True),
    Scenario("parity_one_direction", "nearer to parity in half, alike in half", parity_one_direction, PAIRS, True),
    Scenario("parity_reversal", "p of 0.5 against 0.7, changing places", parity_reversal, PAIRS, True, planted=True),
)


def simulate(scenario: Scenario, *, grids: int = GRIDS, draws: int = DRAWS, seed: int = SEED) -> dict[str, Any]:
    """Draw grids and count what is certified.

    Args:
        scenario: the truth.
        grids: how many grids.
        draws: sign flips of each test.
        seed: seed of grids and flips.

    Returns:
        Shares of grids with any certified reversal, of grids with a false certified configuration in any pair's counts
        (each pair by itself holds its level, so this is given per pair too), and of pairs whose bounds hold rho.
    """
    population = scenario.population
    shares = scenario.shares(population.configurations)
    truth = aggregated("parity" if scenario.by_parity else "mean", shares)
    indices = [(a, b) for a in range(len(shares)) for b in range(a + 1, len(shares))]
    everything = np.ones(population.configurations, dtype=np.bool_)
    rng = np.random.default_rng(seed)
    reversals = wrong = covered = 0
    raw: list[float] = []
    for number in range(grids):
        scores = population.draw(rng, shares)
        inputs = []
        for a, b in indices:
            sums, sizes = masked_sums(scores[a] - scores[b], population.clusters)
            total = masked_sums(scores[a] + scores[b] - 1, population.clusters)[0] if scenario.by_parity else None
            inputs.append(PairSums(sums, sizes, everything, ~everything, total))
        found = certify(inputs, everything, draws=draws, seed=seed + number)
        reversals += min(holm([pair.reversal_p(everything) for pair in found])) <= ALPHA
        for (a, b), pair, given in zip(indices, found, inputs, strict=True):
            true = truth[a] - truth[b]
            true = np.where(np.abs(true) > TOLERANCE, np.sign(true), 0)
            wrong += bool(((pair.verdict != 0) & (pair.verdict != true)).any())
            rho = min((true > 0).mean(), (true < 0).mean())
            bounds = pair.rho_bounds(everything)
            covered += bounds is not None and bounds[0] - TOLERANCE <= rho <= bounds[1] + TOLERANCE
            point = given.difference.sum(axis=0)
            raw.append(min((point > 0).mean(), (point < 0).mean()))
    pairs = grids * len(indices)
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "grids": grids,
        "items": population.items,
        "configurations": population.configurations,
        "models": len(shares),
        "planted": scenario.planted,
        "certified_reversal": reversals / grids,
        "certified_reversal_ci": _interval(reversals, grids),
        "pairs_with_a_false_configuration": wrong / pairs,
        "rho_bounds_cover": covered / pairs,
        "rho_bounds_cover_ci": _interval(covered, pairs),
        "raw_rho_flip_mean": float(np.mean(raw)),
        "raw_rho_flip_q95": float(np.quantile(raw, 0.95)),
    }


def _interval(count: int, total: int) -> list[float]:
    low, high = stats.binomtest(count, total).proportion_ci(0.95, method="exact")
    return [float(low), float(high)]


def main() -> None:
    """Simulate the scenarios and write what was found."""
    path, wanted = Path("bench/certify.json"), sys.argv[1:]
    found = {}
    if wanted and path.is_file():
        found = {row["scenario"]: row for row in json.loads(path.read_text(encoding="utf-8"))["scenarios"]}
    for scenario in SCENARIOS:
        if not wanted or scenario.name in wanted:
            found[scenario.name] = simulate(scenario)
            print(json.dumps(found[scenario.name]), file=sys.stderr, flush=True)
    rows = [found[scenario.name] for scenario in SCENARIOS if scenario.name in found]
    write_json(path, {"draws": DRAWS, "seed": SEED, "scenarios": rows})


if __name__ == "__main__":
    main()
