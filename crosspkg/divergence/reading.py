"""How an answer was read: the prompt echoed in front of it, nothing read at all, another place, another rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import ascii_uppercase
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.benchmarks.extraction import LENIENT, extract
from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair, value_key
from safetyrepro.crosspkg.divergence.rescoring import rescorer
from safetyrepro.crosspkg.sides.exchange import Exchange, Side

NEARLY = 0.9
"""Share of unread answers from which a run read nearly nothing; with few items it has to be all of them."""
FEW = 10
READABLE = 0.25
"""Share of outputs that hold a letter for somebody who looks, from which not the model but the reading failed."""
_SHORTEST_PROMPT = 4


def _echo(comparison: Comparison) -> Iterator[Finding]:
    items = comparison.touched(lambda pair: is_echo(pair.a) != is_echo(pair.b))
    if items:
        evidence = {"examples": comparison.examples(items, _echo_shown)}
        yield Finding("extraction.echo", items, evidence, undone=_vanishes_without_echo)


def is_echo(exchange: Exchange) -> bool:
    """Whether a generated output starts with its own prompt."""
    return exchange.path == "free" and answer_text(exchange) != exchange.output


def answer_text(exchange: Exchange) -> str | None:
    """The output without the prompt that it may start with."""
    prompt = (
        exchange.prompt if exchange.messages is None else exchange.messages[-1].content if exchange.messages else ""
    )
    head = (prompt or "").strip()
    if exchange.output is None or len(head) < _SHORTEST_PROMPT:
        return exchange.output
    text = exchange.output.lstrip()
    return text[len(head) :] if text.startswith(head) else exchange.output


def _vanishes_without_echo(pair: Pair) -> bool | None:
    a, b = answer_text(pair.a), answer_text(pair.b)
    return None if a is None or b is None else a.strip() == b.strip()


def same_answer(pair: Pair) -> bool:
    """Whether both sides had the same text to read (an echoed prompt is a cause of its own)."""
    if pair.a.path != "free" or pair.b.path != "free" or pair.a.output is None or pair.b.output is None:
        return False
    return pair.a.output == pair.b.output


def _reading(comparison: Comparison) -> Iterator[Finding]:
    undone, updated = reading_undone(comparison), is_update(comparison)
    failing = failing_side(comparison)
    if failing is not None and not (updated and all(same_answer(pair) for pair in comparison.pairs)):
        if _failed_to_read(comparison, failing):
            yield _failure(comparison, failing, undone)
    else:
        failing = None
    kinds: dict[str, dict[str, None]] = {"suite.version": {}, "extraction.position": {}, "extraction.rule": {}}
    for pair in comparison.pairs:
        unread = failing is not None and value_key(getattr(pair, failing).extracted) is None
        if unread or not same_answer(pair) or comparison.has(pair.item_id, "scoring.path"):
            continue
        differ = pair.readings_differ if comparison.readings_logged else _stripped_alone_scores(pair)
        if differ:
            kind = "suite.version" if updated else "extraction.position" if _places_differ(pair) else "extraction.rule"
            kinds[kind][pair.item_id] = None
        elif updated and pair.scores_differ and not pair.golds_differ:
            kinds["suite.version"][pair.item_id] = None
    versions = comparison.meta("suite_version")
    for name, items in kinds.items():
        if not items:
            continue
        evidence: dict[str, Any] = {"examples": comparison.examples(items, reading_shown)}
        if name == "suite.version":
            evidence["suite_version"] = {"a": versions[0], "b": versions[1]}
        recovered = _recovered(comparison, items)
        if recovered:
            evidence["recovered"] = recovered
        yield Finding(name, tuple(items), evidence, undone=undone)


def is_update(comparison: Comparison) -> bool:
    """Whether both sides are one suite at two releases."""
    suites, versions = comparison.meta("suite"), comparison.meta("suite_version")
    return None not in (*suites, *versions) and suites[0] == suites[1] and versions[0] != versions[1]


def failing_side(comparison: Comparison) -> str | None:
    """The side that read nearly nothing while the other read; None where there is none."""
    if not comparison.readings_logged or len(comparison.items) < 2:
        return None
    shares = {name: _unread_share(side) for name, side in (("a", comparison.a), ("b", comparison.b))}
    known = {name: share for name, share in shares.items() if share is not None}
    if len(known) < 2:
        return None
    limit = NEARLY if len(comparison.items) >= FEW else 1.0
    failing = [name for name, share in known.items() if share >= limit - TOLERANCE]
    return failing[0] if len(failing) == 1 else None


def _failed_to_read(comparison: Comparison, failing: str) -> bool:
    """Whether the reading is at fault: where the other side generated nothing, the answers must have been there."""
    if "scoring.path" not in comparison.found:
        return True
    texts = [text for pair in comparison.pairs if (text := (getattr(pair, failing).output or "").strip())]
    readable = sum(extract(LENIENT, text, len(ascii_uppercase), None).letter is not None for text in texts)
    return bool(texts) and readable >= READABLE * len(texts)


def _unread_share(side: Side) -> float | None:
    told = [e for e in side.exchanges.values() if e.output is not None or e.path == "logprob"]
    return sum(value_key(e.extracted) is None for e in told) / len(told) if told else None


def _failure(comparison: Comparison, failing: str, undone: Callable[[Pair], bool | None]) -> Finding:
    exchanges = [getattr(pair, failing) for pair in comparison.pairs]
    unread = comparison.touched(lambda pair: value_key(getattr(pair, failing).extracted) is None)
    items = unread
    if "scoring.path" in comparison.found:
        # Where nothing was generated there was nothing to read: that the other side generated nothing is the cause.
        items = comparison.touched(
            lambda pair: (
                value_key((side := getattr(pair, failing)).extracted) is None and bool((side.output or "").strip())
            )
        )
    evidence = {
        "side": failing,
        "alarm": f"{len(unread)} of {len(comparison.items)} answers were not read: the score says nothing about them",
        "empty_outputs": sum(not (e.output or "").strip() for e in exchanges),
        "ended_at_the_limit": sum(e.finish_reason == "length" for e in exchanges),
        "examples": comparison.examples(items, reading_shown),
    }
    return Finding("extraction.failure", items, evidence, undone=undone)


def _places_differ(pair: Pair) -> bool:
    """Whether both read something of the text, at places that do not overlap."""
    a, b, text = value_key(pair.a.extracted), value_key(pair.b.extracted), pair.a.output or ""
    if not isinstance(a, str) or not isinstance(b, str):
        return False
    bare_a, bare_b = a.strip(), b.strip()
    if not bare_a or not bare_b or bare_a in bare_b or bare_b in bare_a:
        return False
    return all(re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", text) for bare in (bare_a, bare_b))


def _stripped_alone_scores(pair: Pair) -> bool:
    """Readings that no log holds: one score is that of the text as it stands, the other of the text without space."""
    text, gold = pair.a.output or "", pair.a.gold
    golds = [value_key(entry) for entry in (gold if isinstance(gold, list) else [gold])]
    if not pair.scores_differ or text == text.strip():
        return False
    return text not in golds and text.strip() in golds


def reading_undone(comparison: Comparison) -> Callable[[Pair], bool | None]:
    """Whether reading A's output as B did gives B's score.

    Where no rule reproduces the recorded scores, the answer is known all the same on items where nothing but the
    reading differs: B's own score is then what A's output, read B's way, scores.
    """
    score = rescorer(comparison)

    def undone(pair: Pair) -> bool | None:
        if not same_answer(pair) or pair.b.score is None:
            return None
        if score is not None:
            value = score(pair.a, pair.b.extracted, pair.a.gold)
            return None if value is None else abs(value - pair.b.score) <= TOLERANCE
        return None if comparison.has(pair.item_id, "gold", "metric", "dataset.revision") else True

    return undone


def _recovered(comparison: Comparison, items: dict[str, None]) -> dict[str, list[str]]:
    """Items that one side alone could read."""
    only_a = [p.item_id for p in comparison.pairs if p.item_id in items and value_key(p.b.extracted) is None]
    only_b = [p.item_id for p in comparison.pairs if p.item_id in items and value_key(p.a.extracted) is None]
    return {name: found for name, found in (("read_by_a_alone", only_a), ("read_by_b_alone", only_b)) if found}


def reading_shown(pair: Pair) -> dict[str, Any]:
    """Output and what each side made of it."""
    sides = {"a": pair.a.extracted, "b": pair.b.extracted}
    shown: dict[str, Any] = {name: None if value is None else visible(str(value)) for name, value in sides.items()}
    if pair.a.output == pair.b.output:
        return {"output": visible(pair.a.output or "", 160), **shown}
    return {"outputs": [visible(e.output or "", 80) for e in (pair.a, pair.b)], **shown}


def _echo_shown(pair: Pair) -> dict[str, str]:
    return {"a": visible(pair.a.output or "", 80), "b": visible(pair.b.output or "", 80)}


ECHO = Detector("echo", ("extraction.echo",), "outputs that start with their own prompt on one side only", _echo)
READING = Detector(
    "reading",
    ("extraction.failure", "suite.version", "extraction.position", "extraction.rule"),
    "the same output read differently: nothing read at all, two releases of one suite, another place, another rule",
    _reading,
)
