"""How much of the gap between two runners each differing component makes: exact Shapley values over hybrids.

A hybrid takes some components from runner A and the others from runner B. A component's value is its mean effect over
all orders in which A's components can replace B's. References: L. Shapley (1953), A Value for n-Person Games.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from safetyrepro.analysis.repeats import WithinVerdict
from safetyrepro.analysis.resampling import LEVEL, TOLERANCE, Floats
from safetyrepro.analysis.simultaneous import simultaneous_bands

Block = tuple[str, ...]
"""Components that no feasible hybrid takes apart."""
Hybrid = frozenset[str]
"""The components that come from A; the others come from B."""
MOST_COMPONENTS = 10
"""A thousand hybrids; more is refused."""


@dataclass(frozen=True)
class Part:
    """What one component, or several that cannot be taken apart, adds to A's score over B's."""

    components: Block
    points: float
    """Shapley value, in points of 100."""
    ci_points: tuple[float, float] | None
    """Interval that holds for all parts of the attribution at once; None with fewer than two clusters."""
    first_in_points: float
    """Its effect where it alone is A's."""
    last_in_points: float
    """Its effect where all others are A's already."""
    lowest_points: float
    """Its smallest effect in any order; far from the largest where components interact."""
    highest_points: float


@dataclass(frozen=True)
class Attribution:
    """The gap between two runners in parts."""

    a: str
    b: str
    n_items: int
    n_clusters: int
    gap_points: float
    """Score of A minus score of B as the suites recorded them, in points."""
    native_gap_points: float
    """The same between the two hybrids that are all A and all B."""
    parts: tuple[Part, ...]
    """They sum to the native gap."""
    not_reproduced_points: float
    """The suites' gap less the native one."""
    not_reproduced_ci_points: tuple[float, float] | None
    hybrids: int
    """Hybrids that were scored."""
    merged: tuple[str, ...] = ()
    """Why components were merged."""
    cost: float | None = None
    """Different sequences asked for the hybrids as a multiple of one run; None where stored outputs were enough."""
    level: float = LEVEL
    within: WithinVerdict | None = None
    """The gap beside what each runner differs from itself; None where neither was repeated."""

    def sentence(self) -> str:
        """The attribution in one plain sentence."""
        return in_words(self)


class Infeasible(Exception):
    """A hybrid that cannot be built; the message says why."""


def attribute(
    a: str,
    b: str,
    components: Sequence[str],
    score: Callable[[Hybrid], Floats],
    suite_scores: tuple[Floats, Floats],
    clusters: Sequence[str],
    *,
    feasible: Callable[[Hybrid], str | None] | None = None,
    cost: Callable[[], float | None] | None = None,
    within: WithinVerdict | None = None,
) -> Attribution:
    """Attribute the gap between A and B to the components in which they differ.

    Args:
        a: name of runner A.
        b: name of runner B.
        components: what differs, at most `MOST_COMPONENTS`.
        score: item scores of a hybrid, shape (items,), in [0, 1].
        suite_scores: item scores of A and of B as the suites recorded them, shape (items,) each.
        clusters: the cluster of each item; the intervals draw whole clusters.
        feasible: why a hybrid cannot be built, or None where it can; components are merged until all hybrids of what
            is left can.
        cost: different sequences over those of one run, asked when all is scored.
        within: the gap beside the spread of each runner's own repeats.

    Raises:
        ValueError: too many components, or no items.
    """
    if not clusters or len(components) > MOST_COMPONENTS:
        raise ValueError(
            f"{len(components)} components on {len(clusters)} items: want at most {MOST_COMPONENTS}, and 1"
        )
    blocks, reasons = merge(components, feasible or (lambda _hybrid: None))
    values = {
        frozenset(chosen): np.asarray(score(frozenset(itertools.chain(*chosen))), dtype=np.float64)
        for size in range(len(blocks) + 1)
        for chosen in itertools.combinations(blocks, size)
    }
    everything, nothing = frozenset(blocks), frozenset[Block]()
    recorded = np.asarray(suite_scores[0], dtype=np.float64) - np.asarray(suite_scores[1], dtype=np.float64)
    native = values[everything] - values[nothing]
    shares = [shapley(blocks, block, values) for block in blocks]
    left = recorded - native
    bands = simultaneous_bands(np.array([*shares, left]), clusters)
    intervals = [None] * (len(shares) + 1) if bands is None else [(100 * low, 100 * high) for low, high in bands]
    parts = [
        _part(block, share, interval, values, blocks)
        for block, share, interval in zip(blocks, shares, intervals, strict=False)
    ]
    return Attribution(
        a=a,
        b=b,
        n_items=len(clusters),
        n_clusters=len(set(clusters)),
        gap_points=100 * float(recorded.mean()),
        native_gap_points=100 * float(native.mean()),
        parts=tuple(sorted(parts, key=lambda part: -abs(part.points))),
        not_reproduced_points=100 * float(left.mean()),
        not_reproduced_ci_points=intervals[-1],
        hybrids=len(values),
        merged=reasons,
        cost=None if cost is None else cost(),
        within=within,
    )


def shapley(blocks: Sequence[Block], block: Block, values: dict[frozenset[Block], Floats]) -> Floats:
    """Each item's share of a block: `sum over S of |S|! (k - |S| - 1)! / k! (v(S + block) - v(S))`, shape (items,).

    The value is linear in the scores, so that the items' shares have the cell's as their mean, and can be drawn by
    clusters like scores.
    """
    others = [other for other in blocks if other != block]
    total = math.factorial(len(blocks))
    share = np.zeros_like(values[frozenset()])
    for chosen in _subsets(others):
        weight = math.factorial(len(chosen)) * math.factorial(len(others) - len(chosen)) / total
        share = share + weight * (values[chosen | {block}] - values[chosen])
    return share


def merge(components: Sequence[str], feasible: Callable[[Hybrid], str | None]) -> tuple[list[Block], tuple[str, ...]]:
    """Join components until every hybrid of what is left can be built.

    Of the joins of two blocks the one that leaves the fewest hybrids unbuildable is taken, and the one that keeps most
    components apart where several do.
    """
    blocks: list[Block] = [(component,) for component in components]
    known: dict[Hybrid, str | None] = {}

    def why(hybrid: Hybrid) -> str | None:
        if hybrid not in known:
            known[hybrid] = feasible(hybrid)
        return known[hybrid]

    def unbuildable(some: Sequence[Block]) -> list[str]:
        hybrids = (frozenset(itertools.chain(*chosen)) for chosen in _subsets(some))
        return [reason for hybrid in hybrids if (reason := why(hybrid)) is not None]

    reasons: dict[str, None] = {}
    while (problems := unbuildable(blocks)) and len(blocks) > 1:
        reasons.update(dict.fromkeys(problems))
        joins = [_joined(blocks, i, j) for i, j in itertools.combinations(range(len(blocks)), 2)]
        blocks = min(joins, key=lambda join: (len(unbuildable(join)) / 2 ** len(join), max(map(len, join))))
    return blocks, tuple(reasons)


def _joined(blocks: Sequence[Block], i: int, j: int) -> list[Block]:
    return [(*block, *blocks[j]) if index == i else block for index, block in enumerate(blocks) if index != j]


def _subsets(blocks: Iterable[Block]) -> list[frozenset[Block]]:
    listed = list(blocks)
    return [frozenset(some) for size in range(len(listed) + 1) for some in itertools.combinations(listed, size)]


def _part(
    block: Block,
    share: Floats,
    interval: tuple[float, float] | None,
    values: dict[frozenset[Block], Floats],
    blocks: Sequence[Block],
) -> Part:
    others = frozenset(blocks) - {block}
    effects = {
        chosen: 100 * float((values[chosen | {block}] - values[chosen]).mean()) for chosen in _subsets(sorted(others))
    }
    return Part(
        components=block,
        points=100 * float(share.mean()),
        ci_points=interval,
        first_in_points=effects[frozenset()],
        last_in_points=effects[others],
        lowest_points=min(effects.values()),
        highest_points=max(effects.values()),
    )


def in_words(attribution: Attribution) -> str:
    """Such as: of the 14 points between X and Y, 9 come from what is scored, 4 from the shots, 1 is not reproduced."""
    gap, names = attribution.gap_points, f"{attribution.a} and {attribution.b}"
    sign = 1 if gap >= 0 else -1
    told = [part for part in attribution.parts if abs(part.points) > TOLERANCE]
    rest = sign * attribution.not_reproduced_points
    clauses: list[str] = []
    for part in told:
        points = _number(sign * part.points)
        verb = "" if clauses else "comes " if points == "1" else "come "
        clauses.append(f"{points} {verb}from {_list(part.components)}")
    if abs(rest) > TOLERANCE:
        clauses.append(f"{_number(rest)} {'is' if _number(rest) == '1' else 'are'} not reproduced natively")
    if not clauses:
        return f"There is no gap between {names} to attribute."
    told_parts = f"Of the {_number(abs(gap))} points between {names}, {_list(clauses)}."
    within = attribution.within
    if within is None or not within.inside:
        return told_parts
    return (
        f"{told_parts} The gap lies inside the within-suite spread (up to {_number(within.points)} points from repeat "
        f"to repeat, {_number(within.noise_points)} between two means), so that its parts may be no more than that."
    )


def _number(points: float) -> str:
    text = f"{points:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _list(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
