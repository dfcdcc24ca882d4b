"""Scores of hybrids: re-scored from outputs that are stored, or asked of the model that both runners asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from safetyrepro.analysis.resampling import TOLERANCE, Floats
from safetyrepro.crosspkg.attribution import Attribution, Hybrid, Infeasible, attribute
from safetyrepro.crosspkg.attribution_components import SENT, Choice, choice, differing
from safetyrepro.crosspkg.attribution_prompts import Item
from safetyrepro.crosspkg.attribution_readers import reader_of
from safetyrepro.crosspkg.divergence.decoding import sent
from safetyrepro.crosspkg.divergence.difference import Difference
from safetyrepro.crosspkg.divergence.normalisation import KINDS, gold_places, values
from safetyrepro.crosspkg.divergence.pair import value_key
from safetyrepro.crosspkg.divergence.rescoring import hit
from safetyrepro.crosspkg.sides.exchange import Exchange, ScoredText, Side

if TYPE_CHECKING:
    from safetyrepro.engine.api import Decoding, Engine, Generated, Scored

Metric = tuple[str, str]
"""What sums are divided by, and `best` (the likeliest is right) or `mass` (probability on right ones)."""
DEFAULT_MAX_TOKENS = 256
"""Where a chat request names no limit."""


def attribute_sides(
    a: Side,
    b: Side,
    difference: Difference,
    *,
    engine: Engine | None = None,
    progress: Callable[[str], None] | None = None,
) -> Attribution | None:
    """Attribute the gap between two sides to the components that the classes found between them touch.

    Items and right answers are fixed first: only items that both scored, held to the same right answers.

    Args:
        a: one side.
        b: the other.
        difference: what `diff_sides` found between them.
        engine: the model that both asked; without one, hybrids are re-scored from stored outputs where that is
            possible, and what would need the model is merged.
        progress: called with one line before hybrids are computed.

    Returns:
        The attribution; None where no component differs, or no item is left.
    """
    components = differing(found.id for found in difference.classes)
    moved = {item for found in difference.classes if found.id in ("gold.value", "gold.offset") for item in found.items}
    items = [
        item
        for item in a.by_item
        if item in b.by_item and item not in moved and None not in (a.score(item), b.score(item))
    ]
    if not components or not items:
        return None
    recorded = tuple(np.array([side.score(item) for item in items], dtype=np.float64) for side in (a, b))
    clusters = [a.clusters.get(item) or b.clusters.get(item) or item for item in items]
    hybrids = _Hybrids(a, b, items, components, engine, progress)
    return attribute(
        a.name,
        b.name,
        components,
        hybrids.score,
        (recorded[0], recorded[1]),
        clusters,
        feasible=hybrids.why_not,
        cost=hybrids.cost,
        within=None if difference.within is None else difference.within.verdict,
    )


class _Hybrids:
    """The hybrids of two sides over the same items."""

    def __init__(
        self,
        a: Side,
        b: Side,
        items: Sequence[str],
        components: Sequence[str],
        engine: Engine | None,
        progress: Callable[[str], None] | None,
    ) -> None:
        self._pairs = [{"a": a.by_item[item][0], "b": b.by_item[item][0]} for item in items]
        self._repeats = [{"a": _scored(a.by_item[item]), "b": _scored(b.by_item[item])} for item in items]
        self._components = components
        self._engine = engine
        self._say = progress or (lambda _line: None)
        self._metrics = {name: metric_of(side) for name, side in (("a", a), ("b", b))}
        self._readers = {name: reader_of(side)[1] for name, side in (("a", a), ("b", b))}
        self._items: list[Item] | Infeasible | None = None
        self._asked: set[object] = set()
        self._one_run = max(sum(max(1, len(pair[name].candidates)) for pair in self._pairs) for name in ("a", "b"))

    def why_not(self, hybrid: Hybrid) -> str | None:
        """Why a hybrid cannot be scored; None where it can."""
        chosen = choice(hybrid, self._components)
        if self._engine is None:
            return None if self._stored_side(hybrid) else "without the model, what was sent stays together"
        try:
            for item in self._built():
                self._prompt(item, chosen)
        except Infeasible as reason:
            return str(reason)
        return None

    def score(self, hybrid: Hybrid) -> Floats:
        """Item scores of a hybrid."""
        chosen = choice(hybrid, self._components)
        if self._engine is None:
            stored = self._stored_side(hybrid)
            return np.array([self._over_repeats(repeats, stored or "b", chosen) for repeats in self._repeats])
        names = ", ".join(sorted(hybrid)) or "none"
        self._say(f"Scoring {len(self._pairs)} items with {names} as in A")
        return np.array(self._native(self._engine, chosen))

    def cost(self) -> float | None:
        """Different sequences asked of the engine as a multiple of one run; the same one twice is computed once."""
        return None if self._engine is None else len(self._asked) / self._one_run

    def _stored_side(self, hybrid: Hybrid) -> str | None:
        """The side whose outputs a hybrid needs; None where it needs outputs that nobody has."""
        asked = SENT & set(self._components)
        if not asked or not asked & hybrid:
            return "b"
        return "a" if asked <= hybrid else None

    def _over_repeats(self, repeats: dict[str, list[Exchange]], stored: str, chosen: Choice) -> float:
        """The mean over the stored side's repeats, as the side's own score is."""
        own, other = repeats[stored], repeats["b" if stored == "a" else "a"]
        beside = [other[min(place, len(other) - 1)] for place in range(len(own))]
        pairs = [{stored: one, ("b" if stored == "a" else "a"): two} for one, two in zip(own, beside, strict=True)]
        return sum(self._restored(pair, stored, chosen) for pair in pairs) / len(pairs)

    def _restored(self, pair: dict[str, Exchange], stored: str, chosen: Choice) -> float:
        exchange, other = pair[stored], pair["b" if stored == "a" else "a"]
        if exchange.path == "logprob":
            if chosen.metric == stored:
                return exchange.score or 0.0
            value = predicted_by(exchange, self._metrics[chosen.metric])
            return (other.score or 0.0) if value is None else value
        same = exchange.output == other.output
        if chosen.extraction == stored and chosen.metric == stored:
            return exchange.score or 0.0
        if chosen.extraction == stored:
            read = exchange.extracted
        else:
            read = other.extracted if same else self._readers[chosen.extraction](exchange.output or "")
        if chosen.metric != stored and value_key(read) == value_key(other.extracted) and same:
            return other.score or 0.0
        return hit(read, exchange.gold, exchange) or 0.0

    def _built(self) -> list[Item]:
        if self._items is None:
            assert self._engine is not None
            try:
                self._items = [Item(pair["a"], pair["b"], self._engine.tokenizer) for pair in self._pairs]
            except Infeasible as reason:
                self._items = reason
        if isinstance(self._items, Infeasible):
            raise self._items
        return self._items

    def _prompt(self, item: Item, chosen: Choice) -> object:
        path = item.side(chosen.path).path
        return item.scored(chosen) if path == "logprob" else item.free(chosen)

    def _native(self, engine: Engine, chosen: Choice) -> list[float]:
        from safetyrepro.engine.api import GenerateRequest, ScoreRequest

        items = self._built()
        if items[0].side(chosen.path).path == "logprob":
            prompts = [item.scored(chosen) for item in items]
            requests = [
                ScoreRequest(ids, start)
                for prompt in prompts
                for ids, start in zip(prompt.sequences, prompt.starts, strict=True)
            ]
            self._asked.update(requests)
            results, _ = engine.answer(scores=requests)
            scored = iter(zip(requests, results, strict=True))
            metric = self._metrics[chosen.metric]
            return [
                _score_candidates(
                    [_summed(*next(scored), text=c) for c in item.side(chosen.candidates).candidates],
                    prompt.right,
                    metric,
                )
                for item, prompt in zip(items, prompts, strict=True)
            ]
        frees = [item.free(chosen) for item in items]
        decodings = [_decoding(item.side(chosen.decoding)) for item in items]
        asked = [GenerateRequest(free.ids, how) for free, how in zip(frees, decodings, strict=True)]
        self._asked.update(asked)
        _, generated = engine.answer(generations=asked)
        return [
            self._read(item, chosen, free.gold, answer)
            for item, free, answer in zip(items, frees, generated, strict=True)
        ]

    def _read(self, item: Item, chosen: Choice, gold: Sequence[str], answer: Generated) -> float:
        source = item.side(chosen.extraction)
        read = source.extracted if source.output == answer.text else self._readers[chosen.extraction](answer.text)
        return hit(read, list(gold), item.side(chosen.text)) or 0.0


def _scored(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return [exchange for exchange in exchanges if exchange.score is not None]


def metric_of(side: Side) -> Metric:
    """The metric that gives most of a side's scores back from its own log-probabilities."""
    exchanges = [e for e in side.exchanges.values() if e.candidates and e.path == "logprob" and e.score is not None]
    metrics = [(kind, rule) for rule in ("best", "mass") for kind in KINDS]

    def agreement(metric: Metric) -> int:
        predicted = ((e.score, predicted_by(e, metric)) for e in exchanges)
        return sum(p is not None and s is not None and abs(p - s) <= TOLERANCE for s, p in predicted)

    return max(metrics, key=agreement)


def predicted_by(exchange: Exchange, metric: Metric) -> float | None:
    """An item's score under a metric; None where a number is missing."""
    if values(exchange, metric[0]) is None:
        return None
    return _score_candidates(exchange.candidates, frozenset(gold_places(exchange)), metric)


def _score_candidates(candidates: Sequence[ScoredText], right: frozenset[int], metric: Metric) -> float:
    """The share of right ones among the likeliest (`best`), or the probability on right ones (`mass`)."""
    kind, rule = metric
    sums = [(c.logprob or 0.0) / (KINDS[kind](c) or 1.0) for c in candidates]
    top = max(sums)
    if rule == "best":
        tied = [index for index, value in enumerate(sums) if value == top]
        return sum(index in right for index in tied) / len(tied)
    weights = [math.exp(value - top) for value in sums]
    return math.fsum(weights[index] for index in right) / math.fsum(weights)


def _summed(request: object, result: Scored, text: ScoredText) -> ScoredText:
    from safetyrepro.engine.api import ScoreRequest

    assert isinstance(request, ScoreRequest)
    kept = [value for value in result.logprobs[request.start :] if value is not None]
    return ScoredText(text.text, math.fsum(kept), len(kept), request.ids)


def _decoding(exchange: Exchange) -> Decoding:
    from safetyrepro.engine.api import Decoding

    how = sent(exchange.settings)
    return Decoding(
        max_tokens=int(how.get("max_tokens", DEFAULT_MAX_TOKENS)),
        temperature=float(how.get("temperature", 1.0)),
        top_p=float(how.get("top_p", 1.0)),
        stop=tuple(how.get("stop", ())),
        seed=int(how.get("seed", 0)),
    )
