"""What a benchmark's grid comes to, in sentences whose wording follows from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetyrepro import benchmarks
from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.plurals import counted

Summary = Mapping[str, Any]


def title(benchmark: str) -> str:
    """A benchmark's name for people."""
    return benchmarks.get(benchmark).title if benchmark in benchmarks.names() else benchmark


def sentence(benchmark: str, summary: Summary, tier: str) -> str:
    """One plain sentence that a paper could quote: what is certified first, then the raw rate beside its null."""
    compared = [pair for pair in summary["pairs"] if pair["n_configs"]]
    where = f"On {title(benchmark)} ({_scope(summary, tier)})"
    if not summary["pairs"]:
        return f"{where} there is one model, {summary['models'][0]}: nothing to rank."
    if not compared:
        return f"{where} no two models have a valid score in the same configuration: nothing can be compared."
    if max(pair["n_configs"] for pair in compared) < 2:
        return f"{where} there is one configuration: whether an order survives the configuration cannot be told."
    if not summary["item_level"]:
        return (
            f"{where} {_raw(compared)}; whether that is more than item noise cannot be told from cell means, which "
            "have no items."
        )
    return f"{where} {_certified(compared)}; {_raw(compared)}{_equal(summary)}."


def verdict(pair: Mapping[str, Any]) -> str:
    """Proposition 1 for one pair, with its witness."""
    if not pair["n_configs"]:
        return f"{pair['a']} and {pair['b']} have no configuration in common."
    if pair["strict_reversal"]:
        plus, minus = pair["witness"]
        return f"strict reversal of the point scores: {pair['a']} leads under {plus}, {pair['b']} under {minus}."
    return f"no strict reversal among {counted(pair['n_configs'], 'configuration')}."


def _scope(summary: Summary, tier: str) -> str:
    parts = [counted(len(summary["models"]), "model"), counted(summary["n_configurations"], "configuration")]
    if tier != "full":
        parts[-1] += f" of the {tier} tier"
    if summary["n_items"] is not None:
        items = counted(summary["n_items"], "item")
        clustered = summary["n_clusters"] < summary["n_items"]
        parts.append(f"{items} in {counted(summary['n_clusters'], 'cluster')}" if clustered else items)
    return ", ".join(parts)


def _certified(pairs: list[Mapping[str, Any]]) -> str:
    reversed_pairs = [pair for pair in pairs if pair["certified_reversal"]]
    if reversed_pairs:
        named = "; ".join(_reversal(pair) for pair in reversed_pairs[:3])
        more = f", and {counted(len(reversed_pairs) - 3, 'further pair')}" if len(reversed_pairs) > 3 else ""
        return f"the ranking reverses beyond item noise: {named}{more}"
    if not any(pair["testable"] for pair in pairs):
        return "a reversal is not testable, since too few items differ between the models"
    untested = sum(not pair["testable"] for pair in pairs)
    start = "no reversal is certified beyond item noise"
    if untested:
        start += f" ({untested} of {counted(len(pairs), 'pair')} not testable: too few items differ)"
    orders = [order for order in map(_order, pairs) if order]
    if not orders:
        return f"{start}, and no order either: no model is certified ahead in any configuration"
    return f"{start}, and {', '.join(orders[:3])}" + (
        f" and {counted(len(orders) - 3, 'further pair')} alike" if orders[3:] else ""
    )


def _reversal(pair: Mapping[str, Any]) -> str:
    counts = pair["certified"]
    each = (
        f"certified ahead in {counts['a']} and behind in {counts['b']} of "
        f"{counted(pair['n_configs'], 'configuration')}, "
        if counts["a"] and counts["b"]
        else "ahead in some configurations and behind in others, "
    )
    return f"{pair['a']} against {pair['b']} ({each}p = {pair['reversal_p']:.4f})"


def _order(pair: Mapping[str, Any]) -> str | None:
    counts, total = pair["certified"], pair["n_configs"]
    if counts["a"] and counts["b"]:
        return (
            f"{pair['a']} is certified ahead of {pair['b']} in {counts['a']} and behind in {counts['b']} of {total}, "
            "which the reversal test, corrected over pairs, does not confirm"
        )
    for side, other in (("a", "b"), ("b", "a")):
        if counts[side]:
            share = f"all {total}" if counts[side] == total else f"{counts[side]} of {total}"
            return f"{pair[side]} is certified ahead of {pair[other]} in {share}"
    return None


def _raw(pairs: list[Mapping[str, Any]]) -> str:
    worst = max(pairs, key=lambda pair: (pair["rho_flip"], pair["n_configs"]))
    if not worst["strict_reversal"]:
        return (
            "the point scores keep every pair's order (no strict reversal among "
            f"{counted(worst['n_configs'], 'configuration')})"
        )
    fewer = min(worst["n_plus"], worst["n_minus"])
    return (
        f"the point scores of {worst['a']} and {worst['b']} stand in the minority order in {fewer} of "
        f"{counted(worst['n_configs'], 'configuration')} (rho_flip = {worst['rho_flip']:.2f})"
    )


def _equal(summary: Summary) -> str:
    equal, rho = summary["equal_models"], summary["rho_flip_max"]
    if equal is None:
        return ""
    shown = f"equal models would show {equal['mean']:.2f} on average and up to {equal['q95']:.2f} in 95% of draws"
    within = rho <= equal["q95"] + TOLERANCE
    return f", where {shown}" if within else f", above what equal models would show ({shown})"


def headline(result: Mapping[str, Any]) -> str:
    """What all benchmarks come to, in one sentence."""
    pairs = [(name, pair) for name, summary in result["benchmarks"].items() for pair in summary["pairs"]]
    compared = [(name, pair) for name, pair in pairs if pair["n_configs"] > 1]
    if not compared:
        return "Nothing can be said: no two models share two configurations with valid scores."
    tested = [(name, pair) for name, pair in compared if pair["certified_reversal"] is not None]
    if not tested:
        strict = sum(pair["strict_reversal"] for _, pair in compared)
        return (
            f"The point scores of {strict} of {counted(len(compared), 'pair')} change order with the configuration; "
            "the table holds no items, so that nobody can say whether that is more than noise."
        )
    found = [(name, pair) for name, pair in tested if pair["certified_reversal"]]
    if found:
        named = "; ".join(f"{pair['a']} and {pair['b']} on {title(name)}" for name, pair in found[:4])
        more = f"; and {len(found) - 4} more" if len(found) > 4 else ""
        return (
            f"The ranking depends on the configuration, beyond item noise, for {len(found)} of "
            f"{counted(len(tested), 'comparison')}: {named}{more}."
        )
    able = sum(pair["testable"] for _, pair in tested)
    if not able:
        return (
            f"Not testable: in none of {counted(len(tested), 'comparison')} do enough items differ to certify a "
            "reversal."
        )
    return (
        f"No ranking is certified to reverse with the configuration in the {able} of "
        f"{counted(len(tested), 'comparison')} that could be tested; that is no proof that none does."
    )


def next_steps(result: Mapping[str, Any]) -> list[str]:
    """What a reader should do, most pressing first."""
    steps = []
    pairs = [(name, pair) for name, summary in result["benchmarks"].items() for pair in summary["pairs"]]
    if any(pair["certified_reversal"] for _, pair in pairs):
        steps.append(
            "Do not say that either of a reversed pair is better: name the configurations with each claim, and look "
            "under “Where the variance comes from” (model × axis) for the axis that turns the order."
        )
    untested = [pair for _, pair in pairs if pair["certified_reversal"] is not None and not pair["testable"]]
    if untested:
        steps.append(
            f"Run more items before claiming anything for {counted(len(untested), 'pair')}: too few items differ "
            "for a test."
        )
    uncertain = [
        pair
        for _, pair in pairs
        if pair["certified"] and pair["testable"] and not (pair["certified"]["a"] or pair["certified"]["b"])
    ]
    detectable = [pair["mde_adjusted"] for pair in uncertain if pair["mde_adjusted"] is not None]
    if uncertain:
        size = f", which detect {min(detectable):.2f} or more in score" if detectable else ""
        steps.append(
            f"Claim no order for {counted(len(uncertain), 'pair')} that no configuration tells apart on these items"
            f"{size}; smaller differences need more items."
        )
    if any(not summary["item_level"] for summary in result["benchmarks"].values()):
        steps.append("Give the table an item_id column with item scores: only then can noise be told from a reversal.")
    single = any(
        cell and cell["single_draw"]
        for summary in result["benchmarks"].values()
        for row in summary["configurations"]
        for cell in row["cells"].values()
    )
    if single:
        steps.append("Repeat the cells marked as single draws: one sampled run or one draw of examples is one of many.")
    return steps or ["State the order with the tier and the number of configurations in which it is certified."]
