"""What a card comes to, in sentences whose wording follows from its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from safetyrepro.analysis.card.fact import AnyFact, Given, NotApplicable, Unverified
from safetyrepro.analysis.card.model import Card, DecodingCard, Departure, Kind, Shots
from safetyrepro.analysis.card.openness import Gap, counts
from safetyrepro.stability.words import title as benchmark_title

KINDS: Final[dict[Kind, str]] = {
    "envelope": "Written from a sealed envelope run and its records.",
    "anchor": "Written from an anchor run and its records: one config through several suites.",
    "import": "Written from logs of a third party: what stands here is what they say, and nobody here has run it.",
}
_NAMED = 4


def headline(card: Card, found: tuple[Gap, ...]) -> str:
    """What a card comes to, in a few sentences."""
    return " ".join(part for part in (_ranking(card), _suites(card), _open(found), _broken(card)) if part)


def _ranking(card: Card) -> str:
    benchmarks = card.stability.benchmarks
    reversed_on = [benchmark_title(one.benchmark) for one in benchmarks if one.verdict == "certified reversal"]
    tested = [one for one in benchmarks if one.verdict != "not testable"]
    if reversed_on:
        return f"The ranking depends on the configuration, beyond item noise, on {_list(reversed_on)}."
    if tested:
        several = f"{len(tested)} of {len(benchmarks)} benchmarks" if len(benchmarks) > 1 else "the benchmark"
        return (
            f"No ranking is certified to reverse with the configuration on {several} that could be tested; that is no "
            "proof that none does."
        )
    reasons = list(dict.fromkeys(one.reason for one in benchmarks if one.reason))
    return f"Whether a ranking survives the configuration is not testable here ({'; '.join(reasons)})."


def _suites(card: Card) -> str | None:
    compared = [one for one in card.stability.suites if one.verdict != "not testable"]
    if not compared:
        return None
    differing = [one for one in compared if one.verdict == "suites differ"]
    if not differing:
        return f"The suites' scores are not told apart in {_of(len(compared), 'comparison')}."
    widest = max(differing, key=lambda one: one.spread_points or 0.0)
    return (
        f"The suites' scores differ beyond chance in {len(differing)} of {_of(len(compared), 'comparison')}, by up to "
        f"{widest.spread_points:.1f} points ({benchmark_title(widest.benchmark)}, {widest.arm} arm, {widest.model})."
    )


def _open(found: tuple[Gap, ...]) -> str:
    tally = counts(found)
    if not tally["open"]:
        return "No field is left open."
    decisive = f"{tally['decisive']} of them decisive" if tally["decisive"] else "none of them decisive"
    return f"{_of(tally['open'], 'field')} left open, {decisive}."


def _broken(card: Card) -> str | None:
    fact = card.envelope.as_sealed
    return "The folder is not what its seal promised." if isinstance(fact, Unverified) else None


def next_steps(card: Card, found: tuple[Gap, ...]) -> list[str]:
    """What a reader should do, most pressing first."""
    steps = []
    if isinstance(card.envelope.as_sealed, Unverified):
        steps.append(
            "Do not quote it before the folder is what its seal promised: `safetyrepro envelope verify DIR` names "
            "every difference."
        )
    decisive = list(dict.fromkeys(gap.label for gap in found if gap.weight == "decisive"))
    if decisive:
        steps.append(f"Ask whoever ran it for: {', '.join(decisive)}; they decide what was measured.")
    if isinstance(card.envelope.seal, Given):
        steps.append(
            "Hold the seal and the ledger's head to published ones: "
            "`safetyrepro envelope verify DIR --seal H --head H`."
        )
    else:
        steps.append("To show beforehand what will be run, seal it: `safetyrepro envelope seal ENVELOPE --out DIR`.")
    few = [one for one in card.stability.benchmarks if one.reason and "too few items" in one.reason]
    if few:
        steps.append(
            "Claim no order of models: too few items differ for a test. `safetyrepro envelope plan ENVELOPE "
            "--difference 5` says how many items a question needs."
        )
    return steps


def lines(fact: AnyFact) -> list[str]:
    """A field's value for people, a line each."""
    if isinstance(fact, NotApplicable):
        return ["not applicable"]
    value: Any = fact.value
    if isinstance(value, dict):
        return [f"{key}: {_text(one)}" for key, one in value.items()] or ["none"]
    if isinstance(value, tuple) and value and not isinstance(value[0], (str, int)):
        return [_text(one) for one in value]
    return [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, DecodingCard):
        return _decoding(value)
    if isinstance(value, Shots):
        return f"{value.count}: {', '.join(value.ids)}" if value.ids else f"{value.count}: none"
    if isinstance(value, Departure):
        return f"{value.suite}, {value.arm} arm: {value.setting} asked {value.asked!r}, got {value.got!r}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _decoding(value: DecodingCard) -> str:
    heat = value.temperature
    parts = ["temperature not said" if heat is None else "greedy" if heat == 0 else f"temperature {heat:g}"]
    if heat != 0:
        parts.append("top_p not said" if value.top_p is None else f"top_p {value.top_p:g}")
    parts.append("length not said" if value.max_tokens is None else f"up to {value.max_tokens} tokens")
    if value.stop is None:
        parts.append("stop strings not said")
    else:
        parts.append(f"stop {', '.join(map(repr, value.stop))}" if value.stop else "no stop strings")
    return ", ".join(parts)


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _of(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
