"""What a report comes to, in one sentence whose wording follows from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.headlines import ALPHA, Headline, headlines, matched_agrees
from safetyrepro.crosspkg.repeats import within_words
from safetyrepro.crosspkg.words import (
    TITLES,
    Report,
    and_text,
    count_word,
    items_text,
    kind_of_items,
    names_text,
    points_text,
)
from safetyrepro.runners import suite_of

_ITS = "for its benchmark"


def finding(report: Report) -> str:
    """The report's main finding in one sentence."""
    found = headlines(report)
    if not found:
        return _without_headline(report)
    best = min(found, key=lambda headline: (headline.adjusted_p, headline.spread["p"], -headline.points))
    return f"{_own_tasks(best, len(found))}; {_matched_clause(best)}."


def _own_tasks(headline: Headline, tests: int) -> str:
    spread, scores = headline.spread, headline.spread["scores"].values()
    low, high = 100 * min(scores), 100 * max(scores)
    start = (
        f"On {items_text(headline.entry, spread['n_items'])} the {count_word(len(spread['suites']))} suites' own tasks "
        f"score {headline.entry['model']}"
    )
    if headline.points <= TOLERANCE:
        return f"{start} alike, {low:.0f} of 100"
    apart, null = points_text(headline.points), points_text(spread["null_q95"])
    between = f"{start} between {low:.0f} and {high:.0f} of 100"
    if headline.inside is not None:
        return f"{between} ({apart} points apart), which lies {within_words(headline.inside)}"
    if headline.established:
        return f"{between} ({apart} points apart; equal suites would show at most {null} in 95% of draws)"
    if spread["p"] <= ALPHA:
        return (
            f"{between} ({apart} points apart; equal suites would show at most {null} in 95% of draws, but after "
            f"correction for the {tests} comparisons of this report no difference is established)"
        )
    return (
        f"{between} ({apart} points apart), which equal suites may show as well (up to {null} in 95% of draws), so "
        "that no difference between them is established"
    )


def _matched_clause(headline: Headline) -> str:
    agrees = matched_agrees(headline.entry)
    if agrees is None:
        return "no matched arm of two runners or more ended, so that harness and model are not told apart"
    wire = headline.entry["arms"]["matched"]["wire"]
    runners = len(wire["runners"])
    everyone = "both runners" if runners == 2 else f"all {count_word(runners)} runners"
    if agrees:
        cause = ": the difference is the harness, not the model" if headline.established else ""
        return f"pushed the same prompt, {everyone} send the same tokens and agree on every choice{cause}"
    return (
        f"pushed the same prompt, {everyone} send the same tokens for {wire['identical_ids']} of {wire['sequences']} "
        f"sequences and agree on {wire['same_choices']} of {wire['items']} choices, so that the positive control does "
        "not hold and the difference cannot be laid on the harness alone"
    )


def _without_headline(report: Report) -> str:
    states = [
        (suite, gap)
        for entry in report
        for arm in entry["arms"].values()
        for suite, gap in arm["without_result"].items()
    ]
    failed = sum(gap["state"] == "failed" for _, gap in states)
    gaps = f" ({failed} cell{'s' if failed != 1 else ''} failed)" if failed else ""
    pushed = [entry for entry in report if matched_agrees(entry) is not None]
    if pushed:
        return f"The suites' own tasks cannot be compared, since {_reasons(pushed)}{gaps}; {_pushed(pushed)}."
    return f"Fewer than two suites ended with a score on shared items{gaps}: nothing can be compared yet."


def _pushed(entries: Report) -> str:
    """What the runners of the matched arm sent and chose, over all configs and models that two of them ended."""
    wires = [entry["arms"]["matched"]["wire"] for entry in entries]
    counts = {len(wire["runners"]) for wire in wires}
    who = f"the {count_word(counts.pop())} runners" if len(counts) == 1 else "the runners"
    sent, same = sum(wire["sequences"] for wire in wires), sum(wire["identical_ids"] for wire in wires)
    items, chosen = sum(wire["items"] for wire in wires), sum(wire["same_choices"] for wire in wires)
    prompts = "the same prompt" if len(entries) == 1 else "the same prompts"
    models = len({entry["model"] for entry in entries})
    of_models = f" with {count_word(models)} models" if models > 1 else ""
    return (
        f"pushed {prompts}, {who} send the same tokens for {same} of {sent} sequences and agree on {chosen} of {items} "
        f"choices ({and_text(list(dict.fromkeys(map(kind_of_items, entries))))}{of_models})"
    )


def _benchmarks(entries: Report) -> str:
    names: list[str] = [entry["benchmark"] for entry in entries]
    return and_text([TITLES.get(name, name) for name in dict.fromkeys(names)])


def _reasons(entries: Report) -> str:
    """Why no own tasks can be compared, each reason once, with the benchmarks that it holds for."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        grouped.setdefault(_why_not(entry), []).append(entry)
    if len(grouped) == 1:
        (reason,) = grouped
        return reason.replace(_ITS, f"for {_benchmarks(entries)}")
    return and_text(
        [
            reason.replace(_ITS, f"for {_benchmarks(of)}") if _ITS in reason else f"{reason} ({_benchmarks(of)})"
            for reason, of in grouped.items()
        ]
    )


def _why_not(entry: Mapping[str, Any]) -> str:
    """Why fewer than two suites' own tasks of one config and model can be compared; `_ITS` stands for its benchmark."""
    arms = [entry["arms"][arm] for arm in ("nominal", "shipped") if arm in entry["arms"]]
    if not arms:
        return "the matched arm alone was run"
    asked = [suite for suite in entry["config"]["suites"] if suite_of(suite) != "native"]
    if len(asked) < 2:
        return f"{names_text(asked)} alone was asked"
    absent, ended = min(((_absent(arm), list(arm["suites"])) for arm in arms), key=lambda counts: len(counts[0]))
    tasks = [suite for suite in asked if suite not in absent]
    if len(tasks) < 2:
        who = f"only {names_text(tasks)}" if tasks else "none of them"
        return f"{who} has a task of its own that could be run {_ITS}"
    if len(ended) < 2:
        return f"only that of {names_text(ended)} gave a result" if ended else "none of them gave a result"
    return "they share no item that all of them scored"


def _absent(arm: Mapping[str, Any]) -> list[str]:
    """Suites that have no task of their own, or none that the config lets run."""
    return [suite for suite, gap in arm["without_result"].items() if gap["state"] == "absent"]
