"""The same reading of the same answer scored differently, or the same scores averaged in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.divergence.reading import same_answer
from safetyrepro.crosspkg.sides.exchange import Side

GROUPS = ("subtask", "task", "subject", "category", "group", "subset")
_AVERAGES = ("aggregation", "weighting", "average", "averaging", "weight_by_size", "aggregate")
CLOSE = 1e-3


def _definition(comparison: Comparison) -> Iterator[Finding]:
    items = comparison.touched(lambda pair: _scored_otherwise(comparison, pair))
    if items:
        evidence: dict[str, Any] = {"examples": comparison.examples(items, _shown)}
        names = comparison.meta("metric")
        if names != (None, None):
            evidence["metric"] = {"a": names[0], "b": names[1]}
        yield Finding("metric.definition", items, evidence, undone=lambda pair: True if pair.scores_differ else None)


def _scored_otherwise(comparison: Comparison, pair: Pair) -> bool:
    if not pair.scores_differ or pair.golds_differ or pair.a.path != pair.b.path:
        return False
    if comparison.has(pair.item_id, "gold.offset", "gold.order", "scoring", "suite.version", "extraction"):
        return False
    if pair.readings_differ and comparison.readings_logged:
        return False
    if pair.a.path == "logprob":
        return pair.outputs_equal
    if value_key(pair.a.extracted) is None and comparison.explains(pair.item_id, "output"):
        # Nothing says what was made of the answer, and another cause stands ready.
        return False
    return same_answer(pair) or (value_key(pair.a.extracted) is not None and not pair.outputs_known)


def _shown(pair: Pair) -> dict[str, Any]:
    return {"read": value_key(pair.a.extracted), "gold": value_key(pair.a.gold), "a": pair.a.score, "b": pair.b.score}


def _weighting(comparison: Comparison) -> Iterator[Finding]:
    """Two averages of the same item scores, as both sides state them."""
    name = next((group for group in GROUPS if len(_sizes(comparison.a, group)) > 1), None)
    if name is None or comparison.changed or not comparison.items:
        return
    micro, macro = _micro(comparison.a), _macro(comparison.a, name)
    if micro is None or macro is None:
        return
    sizes = _sizes(comparison.a, name)
    values = {"over_items": micro, "over_groups": macro, "grouped_by": name, "sizes": sizes}
    for key in _AVERAGES:
        a, b = comparison.meta(key)
        if a is not None and b is not None and a != b:
            yield Finding("metric.weighting", comparison.items, {"declared": {key: {"a": a, "b": b}}, **values})
            return
    for key in sorted(_stated_numbers(comparison.a) & _stated_numbers(comparison.b)):
        a, b = comparison.meta(key)
        kinds = _kind(a, micro, macro), _kind(b, micro, macro)
        if None not in kinds and kinds[0] != kinds[1]:
            stated = {key: {"a": a, "b": b}}
            yield Finding("metric.weighting", comparison.items, {"stated": stated, "averaged": list(kinds), **values})
            return


def _groups(side: Side, name: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for item, exchanges in side.by_item.items():
        score = side.score(item)
        if score is not None and exchanges[0].meta.get(name) is not None:
            found.setdefault(str(exchanges[0].meta[name]), []).append(score)
    return found


def _sizes(side: Side, name: str) -> dict[str, int]:
    return {group: len(scores) for group, scores in _groups(side, name).items()}


def _micro(side: Side) -> float | None:
    scores = [score for item in side.by_item if (score := side.score(item)) is not None]
    return sum(scores) / len(scores) if scores else None


def _macro(side: Side, name: str) -> float | None:
    means = [sum(scores) / len(scores) for scores in _groups(side, name).values()]
    return sum(means) / len(means) if means else None


def _stated_numbers(side: Side) -> set[str]:
    """Facts that every row states as one and the same number."""
    metas = [exchange.meta for exchange in side.exchanges.values()]
    names = {n for n, value in metas[0].items() if isinstance(value, int | float) and not isinstance(value, bool)}
    return {name for name in names if all(meta.get(name) == metas[0][name] for meta in metas)}


def _kind(value: Any, micro: float, macro: float) -> str | None:
    """Which average a stated number is, given as a share or in points."""
    if not isinstance(value, int | float) or abs(micro - macro) <= CLOSE:
        return None
    for scale in (1, 100):
        for name, average in (("over items", micro), ("over groups", macro)):
            if abs(value / scale - average) <= CLOSE:
                return name
    return None


DEFINITION = Detector(
    "metric",
    ("metric.definition",),
    "the same answer, read alike and held to the same right answer, with another score",
    _definition,
)
WEIGHTING = Detector(
    "weighting",
    ("metric.weighting",),
    "equal item scores averaged over items on one side and over groups on the other, as declared or stated",
    _weighting,
)
