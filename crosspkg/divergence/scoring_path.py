"""Answers generated on one side, and candidates scored by likelihood on the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.sides.exchange import Exchange


def _detect(comparison: Comparison) -> Iterator[Finding]:
    items = comparison.touched(lambda pair: _paths_differ(pair) or reads_likelihood_on_one_side(pair))
    if items:
        evidence = {"examples": comparison.examples(items, _shown)}
        yield Finding("scoring.path", items, evidence)


def _paths_differ(pair: Pair) -> bool:
    return pair.a.path != pair.b.path and pair.a.path_known and pair.b.path_known


def reads_likelihood_on_one_side(pair: Pair) -> bool:
    """Whether one side read the generated text, and the other the likelihoods of its first token."""
    if pair.a.path != "free" or pair.b.path != "free" or not pair.readings_differ:
        return False
    return _reads_likelihood(pair.a) != _reads_likelihood(pair.b)


def _reads_likelihood(exchange: Exchange) -> bool:
    """Whether what was read is no part of the text, and the likeliest of its kind among the first tokens."""
    read, text = value_key(exchange.extracted), exchange.output or ""
    if not isinstance(read, str) or len(read) != 1 or read in text:
        return False
    rivals = _of_kind(exchange.top, read)
    return len(rivals) > 1 and max(rivals, key=lambda token: rivals[token]) == read


def _of_kind(top: Mapping[str, float], read: str) -> dict[str, float]:
    """Single letters (or digits) among the likeliest tokens, as candidates of a choice are."""
    found: dict[str, float] = {}
    for token, logprob in top.items():
        bare = token.strip()
        if len(bare) == 1 and bare.isupper() == read.isupper() and bare.isdigit() == read.isdigit() and bare.isalnum():
            found[bare] = max(logprob, found.get(bare, -math.inf))
    return found


def _shown(pair: Pair) -> dict[str, Any]:
    sides: dict[str, Any] = {}
    for name, exchange in (("a", pair.a), ("b", pair.b)):
        side: dict[str, Any] = {"path": exchange.path, "read": value_key(exchange.extracted)}
        if exchange.path == "free":
            side["output"] = visible(exchange.output or "")
            side["top"] = dict(sorted(exchange.top.items(), key=lambda entry: -entry[1])[:5])
        else:
            side["candidates"] = {visible(c.text or "?", 60): c.logprob for c in exchange.candidates[:6]}
        sides[name] = side
    if reads_likelihood_on_one_side(pair):
        likely = "a" if _reads_likelihood(pair.a) else "b"
        sides[likely]["path"] = "likelihood of the first token"
    return sides


DETECTOR = Detector(
    "scoring_path",
    ("scoring.path",),
    "requests that score texts against requests that generate; letters read from likelihoods and not from the text",
    _detect,
)
