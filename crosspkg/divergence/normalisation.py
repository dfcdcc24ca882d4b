"""What candidates' log-probabilities are divided by before they are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.options_listed import MARKS, place_of
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.sides.exchange import Exchange, ScoredText, Side

KINDS: dict[str, Callable[[ScoredText], float | None]] = {
    "none": lambda _candidate: 1.0,
    "char": lambda candidate: float(len(candidate.bare or "")),
    "byte": lambda candidate: float(len((candidate.bare or "").encode())),
    "token": lambda candidate: None if candidate.n_tokens is None else float(candidate.n_tokens),
}
"""What a sum is divided by, by the normalisation's name."""
_METRICS = {"acc": "none", "acc_norm": "char", "acc_bytes": "byte"}
_DECLARED = ("normalisation", "normalization", "metric")


def _detect(comparison: Comparison) -> Iterator[Finding]:
    if not all(pair.a.path == pair.b.path == "logprob" for pair in comparison.pairs) or not comparison.pairs:
        return
    kinds = _told_by_choices(comparison)
    if kinds is None:
        yield from _told_by_declaration(comparison)
        return
    kind_a, kind_b = kinds
    items = comparison.touched(lambda pair: any(choice(e, kind_a) != choice(e, kind_b) for e in (pair.a, pair.b)))
    if not items:
        return
    evidence = {
        "a": kind_a,
        "b": kind_b,
        "predicted_scores": {
            name: {kind: _mean(side, kind) for kind in (kind_a, kind_b)}
            for name, side in (("a", comparison.a), ("b", comparison.b))
        },
        "examples": comparison.examples(items, lambda pair: _shown(pair, kind_a, kind_b)),
    }

    def undone(pair: Pair) -> bool | None:
        value = predicted(pair.a, kind_b)
        if value is None or pair.b.score is None:
            return None
        return abs(value - pair.b.score) <= TOLERANCE

    yield Finding("scoring.normalisation", items, evidence, undone=undone)


def values(exchange: Exchange, kind: str) -> list[float] | None:
    """Each candidate's sum over its divisor; None where a number is not known."""
    found = []
    for candidate in exchange.candidates:
        divisor = KINDS[kind](candidate)
        if candidate.logprob is None or not divisor:
            return None
        found.append(candidate.logprob / divisor)
    return found if len(found) > 1 else None


def choice(exchange: Exchange, kind: str) -> int | None:
    """The candidate that wins under a normalisation; None where that cannot be told, or two tie."""
    found = values(exchange, kind)
    if found is None:
        return None
    best = max(found)
    return found.index(best) if found.count(best) == 1 else None


def gold_places(exchange: Exchange) -> set[int]:
    """Places of the right candidates."""
    golds = exchange.gold if isinstance(exchange.gold, list) else [exchange.gold]
    named = {_key(str(gold)) for gold in golds if gold is not None}
    found = {index for index, candidate in enumerate(exchange.candidates) if _key(candidate.text or "") in named}
    place = place_of(exchange.gold)
    if not found and place is not None and place < len(exchange.candidates):
        return {place}
    return found


def predicted(exchange: Exchange, kind: str) -> float | None:
    """The item's score under a normalisation."""
    winner, golds = choice(exchange, kind), gold_places(exchange)
    return None if winner is None or not golds else float(winner in golds)


def _told_by_choices(comparison: Comparison) -> tuple[str, str] | None:
    """The two sides' normalisations, where no single one explains the choices of both."""
    fits_a, fits_b = _fitting(comparison.a), _fitting(comparison.b)
    if not fits_a or not fits_b or set(fits_a) & set(fits_b):
        return None
    return fits_a[0], fits_b[0]


def _fitting(side: Side) -> list[str]:
    return [kind for kind in KINDS if _explains(side, kind)]


def _explains(side: Side, kind: str) -> bool:
    """Whether a normalisation gives every choice and score of a side back."""
    told = 0
    for exchange in side.exchanges.values():
        winner = choice(exchange, kind)
        if winner is None:
            if values(exchange, kind) is None:
                return False
            continue
        recorded = _recorded_choice(exchange)
        if recorded is not None:
            if recorded != winner:
                return False
            told += 1
            continue
        score = predicted(exchange, kind)
        if score is not None and exchange.score is not None:
            if abs(score - exchange.score) > TOLERANCE:
                return False
            told += 1
    return told > 0


def _recorded_choice(exchange: Exchange) -> int | None:
    read = value_key(exchange.extracted)
    if read is None:
        return None
    keys = [_key(candidate.text or "") for candidate in exchange.candidates]
    if _key(str(read)) in keys:
        return keys.index(_key(str(read)))
    place = place_of(exchange.extracted)
    return place if place is not None and place < len(keys) else None


def _told_by_declaration(comparison: Comparison) -> Iterator[Finding]:
    for name in _DECLARED:
        a, b = (_METRICS.get(str(value), str(value)) for value in comparison.meta(name))
        if a == b or a not in KINDS or b not in KINDS:
            continue
        items = comparison.touched(lambda pair: pair.scores_differ or pair.readings_differ)
        if items:
            declared = dict(zip(("a", "b"), comparison.meta(name), strict=True))
            yield Finding("scoring.normalisation", items, {"declared": {name: declared}})
            return


def _mean(side: Side, kind: str) -> float | None:
    scores = [score for e in side.exchanges.values() if (score := predicted(e, kind)) is not None]
    return sum(scores) / len(scores) if scores else None


def _shown(pair: Pair, kind_a: str, kind_b: str) -> dict[str, Any]:
    shown = {}
    for name, exchange in (("a", pair.a), ("b", pair.b)):
        winners = {kind: choice(exchange, kind) for kind in (kind_a, kind_b)}
        shown[name] = {
            kind: None if place is None else exchange.candidates[place].bare for kind, place in winners.items()
        }
    return shown


def _key(text: str) -> str:
    return " ".join(text.strip(MARKS).casefold().split())


DETECTOR = Detector(
    "normalisation",
    ("scoring.normalisation",),
    "which divisor (none, characters, bytes, tokens) gives each side's choices back from its own log-probabilities",
    _detect,
)
