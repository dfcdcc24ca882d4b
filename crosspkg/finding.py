"""What a report comes to, in sentences whose wording follows from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE, holm
from safetyrepro.benchmarks.draw import POCKET
from safetyrepro.benchmarks.toxigen import DEMONSTRATIONS
from safetyrepro.crosspkg.releases import release_sentence
from safetyrepro.crosspkg.repeats import single_draw_steps, within_words
from safetyrepro.runners import title

ALPHA = 0.05
SUM_TOLERANCE = 1e-3
"""Nats: the matched arm's sums are called equal up to this."""
UNREAD = ("unparsed", "truncated")
UNREADABLE = 0.1
"""From this share of such answers on, a suite's score says more about format than about answers."""
TITLES = {
    "truthfulqa": "TruthfulQA",
    "bbq": "BBQ",
    "toxigen": "ToxiGen",
    "crows_pairs": "CrowS-Pairs",
    "xstest": "XSTest",
}
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Report = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Headline:
    """The suites' own tasks for one config and model, against what equal suites would show."""

    entry: Mapping[str, Any]
    arm: str
    spread: Mapping[str, Any]
    points: float
    adjusted_p: float
    """Holm over all configs and models of the report."""

    @property
    def inside(self) -> Mapping[str, Any] | None:
        """What the suites differ from themselves, where their spread is no larger; else None."""
        within: Mapping[str, Any] | None = self.spread["within"]
        return within if within is not None and within["inside"] else None

    @property
    def established(self) -> bool:
        """Whether the suites differ beyond what equal suites, and their own repeats, would show, after correction."""
        return self.adjusted_p <= ALPHA + TOLERANCE and self.inside is None


def finding(report: Report) -> str:
    """The report's main finding in one sentence."""
    found = headlines(report)
    if not found:
        return _without_headline(report)
    best = min(found, key=lambda headline: (headline.adjusted_p, headline.spread["p"], -headline.points))
    return f"{_own_tasks(best, len(found))}; {_matched_clause(best)}."


def headlines(report: Report) -> list[Headline]:
    """One headline per config and model whose suites' own tasks can be compared, in report order."""
    rows = []
    for entry in report:
        arm = next((arm for arm in ("nominal", "shipped") if _has_spread(entry, arm)), None)
        if arm is not None:
            rows.append((entry, arm, entry["arms"][arm]["spread"]))
    adjusted = holm([spread["p"] for _, _, spread in rows])
    return [
        Headline(entry, arm, spread, entry["arms"][arm]["spread_points"], p)
        for (entry, arm, spread), p in zip(rows, adjusted, strict=True)
    ]


def matched_agrees(entry: Mapping[str, Any]) -> bool | None:
    """Whether the matched arm sent identical tokens and chose alike; None where fewer than two runners ended it."""
    arm = entry["arms"].get("matched")
    if arm is None or len(arm["suites"]) < 2:
        return None
    wire = arm["wire"]
    difference = wire["max_logprob_difference"]
    return bool(
        0 < wire["sequences"] == wire["identical_ids"]
        and 0 < wire["items"] == wire["same_choices"]
        and (difference is None or difference <= SUM_TOLERANCE)
        and arm["spread_points"] is not None
        and arm["spread_points"] <= TOLERANCE
    )


def order_sentences(report: Report) -> list[str]:
    """Per config and arm of the suites' own tasks: does the order of two models survive the suite?"""
    sentences, seen = [], set()
    for entry in report:
        arm = next((arm for arm in ("nominal", "shipped") if arm in entry["arms"]), None)
        if arm is None or entry["config_id"] in seen:
            continue
        seen.add(entry["config_id"])
        sentences += [f"{subject(entry)}: {order_sentence(pair)}" for pair in entry["arms"][arm]["order"]]
    return sentences


def order_sentence(pair: Mapping[str, Any]) -> str:
    """Whether one pair's order survives the suites of one arm."""
    a, b = pair["a"], pair["b"]
    if pair["refused"]:
        return f"{a} and {b} are not compared: {pair['refused']}."
    total, certified = len(pair["suites"]), pair["certified"]
    if pair["certified_reversal"]:
        return (
            f"whether {a} beats {b} depends on the suite: it is ahead in {_ahead(pair, a, 'p_a')} and behind in "
            f"{_ahead(pair, b, 'p_b')}, and both directions hold beyond item noise (p = {pair['reversal_p']:.4f})."
        )
    if certified["a"] == total or certified["b"] == total:
        ahead, behind = (a, b) if certified["a"] == total else (b, a)
        return f"{ahead} is ahead of {behind} in {_all(total)}: the order survives the suite."
    if certified["a"] or certified["b"]:
        parts = [
            f"{name} is ahead in {_ahead(pair, name)} ({certified[side]} of {total} suites)"
            for name, side in ((a, "a"), (b, "b"))
            if certified[side]
        ]
        rest = "the others do not tell them apart, and no" if certified["neither"] else "yet no"
        return f"{' and '.join(parts)}; {rest} reversal is certified."
    nobody = {1: "the one suite does not tell"}.get(
        total, "neither suite tells" if total == 2 else f"none of the {count_word(total)} suites tells"
    )
    reversal = " Their point scores change order, as they may by noise alone." if pair["point_reversal"] else ""
    return f"{nobody} {a} and {b} apart.{reversal}"


def next_steps(report: Report) -> list[str]:
    """What a reader should do, most pressing first."""
    steps = _failed(report) + _unmatched(report) + _spreads(headlines(report)) + _releases(report)
    steps += single_draw_steps(report) + _unreadable(report) + _chance(report)
    return steps or ["Nothing asks for action: the suites were run as planned and nothing set them apart."]


def subject(entry: Mapping[str, Any]) -> str:
    """A config's name for people: benchmark, metric, and prompt kind."""
    config = entry["config"]
    name = TITLES.get(entry["benchmark"], entry["benchmark"])
    kind = "chat template" if config["chat_template"]["enabled"] else "raw prompt"
    return f"{name}{_not_the_benchmark(entry)}, {config['metric']}, {kind}"


def count_word(number: int) -> str:
    """A small number in words."""
    return WORDS[number] if number < len(WORDS) else str(number)


def points_text(points: float) -> str:
    """Points of 100 for a sentence: whole from 10 on, one decimal below."""
    return f"{points:.0f}" if abs(points) >= 9.95 else f"{points:.1f}".removesuffix(".0")


def names_text(suites: Sequence[str]) -> str:
    """Suites by name, as a list in a sentence."""
    names = [title(suite) for suite in suites]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _ahead(pair: Mapping[str, Any], name: str, p: str | None = None) -> str:
    """The suites in which a model is ahead; where the two-sided verdict names none, the clearest by `p`."""
    rows = pair["suites"]
    found = [suite for suite, row in rows.items() if row["verdict"] == f"{name} ahead"]
    if not found and p is not None:
        found = [min((s for s, row in rows.items() if not row["both_at_chance"]), key=lambda s: float(rows[s][p]))]
    return names_text(found)


def _has_spread(entry: Mapping[str, Any], arm: str) -> bool:
    return arm in entry["arms"] and entry["arms"][arm]["spread"] is not None


def _all(total: int) -> str:
    return {1: "the one suite", 2: "both suites"}.get(total, f"all {count_word(total)} suites")


def _items(entry: Mapping[str, Any], count: int) -> str:
    name = TITLES.get(entry["benchmark"], entry["benchmark"])
    style = f"{name}-style" if entry["data"]["source"].startswith(POCKET) else name
    return f"{count} {style}{_not_the_benchmark(entry) or ' items'} ({entry['config']['metric']})"


def _not_the_benchmark(entry: Mapping[str, Any]) -> str:
    """What the items are, where they are not those of the benchmark that they are in the form of."""
    source = entry["data"]["source"]
    if source.startswith(POCKET):
        return " pocket items"
    return f" {DEMONSTRATIONS}" if source.startswith(DEMONSTRATIONS) else ""


def _own_tasks(headline: Headline, tests: int) -> str:
    spread, scores = headline.spread, headline.spread["scores"].values()
    low, high = 100 * min(scores), 100 * max(scores)
    start = (
        f"On {_items(headline.entry, spread['n_items'])} the {count_word(len(spread['suites']))} suites' own tasks "
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
    for entry in report:
        agrees = matched_agrees(entry)
        if agrees is not None:
            wire = entry["arms"]["matched"]["wire"]
            return (
                f"The suites' own tasks cannot be compared{gaps}; pushed the same prompt, the "
                f"{count_word(len(wire['runners']))} runners send the same tokens for {wire['identical_ids']} of "
                f"{wire['sequences']} sequences and agree on {wire['same_choices']} of {wire['items']} choices."
            )
    return f"Fewer than two suites ended with a score on shared items{gaps}: nothing can be compared yet."


def _failed(report: Report) -> list[str]:
    cells = [
        f"{title(suite)} ({entry['model']}, {subject(entry)}, {arm})"
        for entry in report
        for arm, section in entry["arms"].items()
        for suite, gap in section["without_result"].items()
        if gap["state"] == "failed"
    ]
    if not cells:
        return []
    some = ", ".join(cells[:4]) + (f" and {len(cells) - 4} more" if len(cells) > 4 else "")
    count = f"{count_word(len(cells))} cells failed" if len(cells) > 1 else "one cell failed"
    return [f"Run again with the same --out: {count}, {some}. Finished ones are kept."]


def _unmatched(report: Report) -> list[str]:
    broken = [f"{entry['model']}, {subject(entry)}" for entry in report if matched_agrees(entry) is False]
    if not broken:
        return []
    return [
        f"Look at the wire tables first ({'; '.join(broken)}): the runners were pushed one prompt and still differ, so "
        "that no difference of their own tasks can be laid on the harness alone."
    ]


def _spreads(found: Sequence[Headline]) -> list[str]:
    steps = []
    established = [headline for headline in found if headline.established]
    if established:
        steps.append(
            "Do not compare a score from one suite with a score from another: "
            f"{len(established)} of {len(found)} comparisons here differ beyond item noise with the model held fixed. "
            "Name suite, version and settings beside every score."
        )
        steps.append("Read under “Held fixed, and not” which settings each suite could not follow: causes start there.")
    inside = [headline for headline in found if headline.inside is not None and headline.points > TOLERANCE]
    if inside:
        steps.append(
            f"Compare the suites greedily, or on more items: in {len(inside)} of {len(found)} comparisons they are no "
            "further apart than one of them is from itself, from one repeat to the next."
        )
    weak = [headline for headline in found if not headline.established and headline not in inside]
    if weak:
        null = points_text(max(headline.spread["null_q95"] for headline in weak))
        steps.append(
            f"Where no difference is established ({len(weak)} of {len(found)} comparisons), that is no proof of "
            f"agreement: on so few items spreads of up to {null} points can be noise. Run more items."
        )
    return steps


def _releases(report: Report) -> list[str]:
    pairs = [
        (pair, f"{entry['model']}, {subject(entry)}, {arm} arm")
        for entry in report
        for arm, section in entry["arms"].items()
        for pair in section["releases"]
        if pair["scores_differ"]
    ]
    if not pairs:
        return []
    pair, where = max(pairs, key=lambda found: int(found[0]["scores_differ"]))
    more = f" ({count_word(len(pairs) - 1)} more below)" if len(pairs) > 1 else ""
    return [f"Name the release beside a score. {where}: {release_sentence(pair)}{more}"]


def _unreadable(report: Report) -> list[str]:
    worst: dict[str, list[tuple[float, str]]] = {}
    for entry in report:
        for arm, section in entry["arms"].items():
            for suite, row in section["suites"].items():
                unread, total = (sum(row["statuses"].get(s, 0) for s in UNREAD), sum(row["statuses"].values()))
                if total and unread / total >= UNREADABLE:
                    cell = f"{unread} of {total} answers of {entry['model']} on {subject(entry)}, {arm} arm"
                    worst.setdefault(suite, []).append((unread / total, cell))
    steps = []
    for suite, cells in worst.items():
        more = f" (and over a tenth in {count_word(len(cells) - 1)} more)" if len(cells) > 1 else ""
        steps.append(
            f"Treat {title(suite)}'s score as a measure of format first: {max(cells)[1]}, could not be read "
            f"or were cut off{more}."
        )
    return steps


def _chance(report: Report) -> list[str]:
    chance = sorted(
        {
            f"{entry['model']} on {subject(entry)}"
            for entry in report
            for section in entry["arms"].values()
            if section["suites"] and all(row["at_chance"] for row in section["suites"].values() if row["n"])
        }
    )
    if not chance:
        return []
    return [f"Claim no rank for a model at chance in every suite of an arm: {'; '.join(chance)}."]
