"""Equal requests repeated on one side: outputs that vary, or that are the same where they cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.decoding import sent
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair, exchanges_differ
from safetyrepro.crosspkg.sides.exchange import Exchange


def _cache(comparison: Comparison) -> Iterator[Finding]:
    items = {item: why for item in comparison.items if (why := _reused(comparison, item)) is not None}
    if items:
        reasons = sorted(set(items.values()))
        evidence = {"why": reasons, "examples": comparison.examples(items, _output)}
        yield Finding("cache.reuse", tuple(items), evidence)


def _reused(comparison: Comparison, item: str) -> str | None:
    """Why an item's equal outputs cannot be two computations; None where they can."""
    a, b = comparison.a.by_item[item], comparison.b.by_item[item]
    for one, other in ((a, b), (b, a)):
        if _sampled(one) and not _varies(one) and (_cached(one) or _varies(other)):
            return "sampled again and again, and always the same"
    first_a, first_b = a[0], b[0]
    if not (_cached(a) or _cached(b)) or exchanges_differ(first_a, first_b) or not first_a.output:
        return None
    if first_a.output != first_b.output or first_a.path != "free" or first_b.path != "free":
        return None
    if comparison.explains(item, "output"):
        return "other requests, and the same output from a cache"
    return "sampled without a seed on both sides, and the same output from a cache" if _unseeded(first_a) else None


def _sampled(exchanges: Sequence[Exchange]) -> bool:
    """Repeats of one request that draws at random, no two of them from one seed."""
    if len(exchanges) < 2 or exchanges[0].path != "free":
        return False
    settings = [sent(exchange.settings) for exchange in exchanges]
    seeds = [values.get("seed") for values in settings]
    drawn = all((values.get("temperature") or 0) > 0 for values in settings)
    return drawn and (seeds[0] is None or len(set(map(str, seeds))) == len(seeds))


def _unseeded(exchange: Exchange) -> bool:
    values = sent(exchange.settings)
    return (values.get("temperature") or 0) > 0 and values.get("seed") is None


def _varies(exchanges: Sequence[Exchange]) -> bool:
    return any(exchanges_differ(exchanges[0], other) for other in exchanges[1:])


def _cached(exchanges: Sequence[Exchange]) -> bool:
    return any(exchange.meta.get("cached") is True for exchange in exchanges)


def _output(pair: Pair) -> dict[str, str]:
    return {"a": visible(pair.a.output or "", 80), "b": visible(pair.b.output or "", 80)}


def _nondeterminism(comparison: Comparison) -> Iterator[Finding]:
    items = {}
    for pair in comparison.pairs:
        item = pair.item_id
        if item in items or comparison.has(item, "cache.reuse"):
            continue
        a, b = comparison.a.by_item[item], comparison.b.by_item[item]
        if (_unsteady(a) or _unsteady(b)) and not _same_repeats(a, b):
            items[item] = {"a": _spread(a), "b": _spread(b)}
    if not items:
        return
    evidence: dict[str, Any] = {
        "largest_logprob_spread": max(
            (s["logprob_spread"] for both in items.values() for s in both.values()), default=0
        ),
        "examples": [{"item_id": item, **both} for item, both in list(items.items())[:3]],
    }
    yield Finding("nondeterminism", tuple(items), evidence)


def _unsteady(exchanges: Sequence[Exchange]) -> bool:
    """Whether one request, sent again with the same settings, was answered differently."""
    for number, one in enumerate(exchanges):
        for other in exchanges[number + 1 :]:
            same = (one.messages, one.prompt, one.sent_ids, sent(one.settings)) == (
                other.messages,
                other.prompt,
                other.sent_ids,
                sent(other.settings),
            )
            if same and exchanges_differ(one, other):
                return True
    return False


def _same_repeats(a: Sequence[Exchange], b: Sequence[Exchange]) -> bool:
    """Whether both sides are one and the same set of repeats."""
    return len(a) == len(b) and not any(exchanges_differ(x, y) for x, y in zip(a, b, strict=True))


def _spread(exchanges: Sequence[Exchange]) -> dict[str, Any]:
    columns: list[list[float]] = []
    outputs = [exchange.output for exchange in exchanges]
    rows = [[c.logprob for c in e.candidates if c.logprob is not None] or list(e.token_logprobs) for e in exchanges]
    for place in range(min((len(row) for row in rows), default=0)):
        columns.append([row[place] for row in rows])
    scores = [exchange.score for exchange in exchanges if exchange.score is not None]
    return {
        "repeats": len(exchanges),
        "different_outputs": len(set(outputs)),
        "logprob_spread": max((max(column) - min(column) for column in columns), default=0.0),
        "score_range": [min(scores), max(scores)] if scores else None,
    }


CACHE = Detector(
    "cache",
    ("cache.reuse",),
    "outputs that are the same where they cannot be: sampled repeats, or a cached answer to another request",
    _cache,
)
NONDETERMINISM = Detector(
    "nondeterminism",
    ("nondeterminism",),
    "one side's repeats of an equal request with other outputs or log-probabilities; the spread comes first",
    _nondeterminism,
)
