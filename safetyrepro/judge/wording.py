"""The meta-benchmark's findings in words, computed from its report and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Relation = Literal["with", "against", "open", "undefined"]
HALF = 0.5


def plain(name: str) -> str:
    """`instruction_following` as words."""
    return name.replace("_", " ")


def listed(names: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def relation(factor: Mapping[str, Any]) -> Relation:
    """Whether the judge's score goes with a factor: Pearson's or Spearman's interval must exclude 0, with one sign."""
    if factor["pearson"] is None or factor["spearman"] is None:
        return "undefined"
    ends = [ci for ci in (factor["ci"], factor["spearman_ci"]) if ci is not None]
    if factor["pearson"] > 0 and factor["spearman"] > 0 and any(low > 0 for low, _ in ends):
        return "with"
    if factor["pearson"] < 0 and factor["spearman"] < 0 and any(high < 0 for _, high in ends):
        return "against"
    return "open"


def meta_finding(report: Mapping[str, Any]) -> str:
    """One sentence: what the judge's score goes with, and what not."""
    parts = {
        kind: [
            f"{plain(name)} ({_figures(factor)})"
            for name, factor in report["factors"].items()
            if relation(factor) == kind
        ]
        for kind in ("with", "against", "open")
    }
    said = []
    if parts["with"]:
        said.append(f"goes with {listed(parts['with'])}")
    if parts["against"]:
        said.append(f"goes against {listed(parts['against'])}")
    if parts["open"]:
        said.append(f"shows no established relation to {listed(parts['open'])}")
    if not said:
        return f"Over {report['models']} models no factor could be compared with the judge's score."
    return f"Over {report['models']} models the judge's score {'; it '.join(said)}."


def meta_sentences(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the numbers support, and what they do not."""
    support: list[str] = []
    against: list[str] = []
    for name, factor in report["factors"].items():
        _factor_sentences(name, factor, support, against)
    _stage_sentences(report["stages"], support, against)
    against.append(
        "No cause: models differ in much at once, and a correlation over models says nothing about a single verdict. "
        "Targeted edits (judge run --edit, judge audit) do."
    )
    against.append(
        f"Nothing about other models: the intervals draw these {report['models']} anew and hold the benchmarks fixed. "
        "Siblings of one base model are no independent draws, so that the intervals are, if anything, too narrow."
    )
    return {"supported": support, "not_supported": against}


def _factor_sentences(name: str, factor: Mapping[str, Any], support: list[str], against: list[str]) -> None:
    kind, words = relation(factor), plain(name)
    share = factor["discordant_pairs"]
    if kind == "undefined":
        return
    order = (
        f"{100 * share:.0f}% of the {factor['pairs']} pairs of models are in the opposite order"
        if share is not None
        else ""
    )
    if kind == "with":
        support.append(f"Judge score and {words} correlate ({_figures(factor)}), and still {order}.")
    elif kind == "against":
        support.append(f"A higher judge score goes with lower {words} ({_figures(factor)}): {order}.")
    else:
        agree = "do not agree" if share is not None and share >= HALF else "agree little"
        support.append(f"Judge score and {words} {agree} on the order of these models: {order}.")
        against.append(
            f"That they are unrelated or opposed in general: {words} has {_interval(factor)}, which leaves room "
            "for both."
        )
    strata = {stratum: inner for stratum, inner in factor.get("strata", {}).items() if inner["pearson"] is not None}
    signs = {inner[key] > 0 for inner in strata.values() for key in ("pearson", "spearman")}
    if strata:
        inside = listed(
            [f"r = {i['pearson']:+.2f}, rho = {i['spearman']:+.2f} in {s} (n = {i['n']})" for s, i in strata.items()]
        )
        one = len(signs) == 1
        (support if one else against).append(
            f"{'The same sign within all strata' if one else 'One sign within all strata, by either coefficient'}, for "
            f"{words}: {inside}."
        )
    swing = max(
        (e for e in factor.get("leave_one_out", []) if e["pearson_change"] is not None),
        key=lambda e: abs(e["pearson_change"]),
        default=None,
    )
    if swing is not None and factor["pearson"] * swing["pearson_without"] < 0:
        against.append(
            f"A sign that does not depend on one benchmark, for {words}: without {swing['benchmark']} Pearson is "
            f"{swing['pearson_without']:+.2f} instead of {factor['pearson']:+.2f}."
        )
    if factor.get("invariant"):
        against.append(
            f"That {listed(factor['invariant'])} tells these models apart: best and worst are less than "
            f"{100 * factor['invariant_range']:g} point of 100 from each other."
        )


def _stage_sentences(stages: Mapping[str, Any] | None, support: list[str], against: list[str]) -> None:
    if stages is None:
        return
    summaries = stages["summaries"]
    for summary in summaries:
        changes = listed(
            [f"{plain(name)} {mean:+.2f}" for name, mean in summary["factor_means_sds"].items() if mean is not None]
            or ["no factor known"]
        )
        support.append(
            f"{summary['step'].capitalize()} ({summary['pairs']} pairs from {summary['starts']} start"
            f"{'s' if summary['starts'] > 1 else ''}): the judge's score rose in {summary['judge_up']} of "
            f"{summary['pairs']}, by {summary['judge_mean']:+.2f} on average ({summary['judge_mean_sds']:+.2f} "
            f"standard deviations over models), while in the same unit {changes}."
        )
    if len(summaries) > 1:
        support.append(_largest_steps(summaries))
    fewest = min(summary["starts"] for summary in summaries)
    against.append(
        f"Which step of training matters most in general: the pairs come from as few as {fewest} start"
        f"{'s' if fewest > 1 else ''}, and siblings share one, so that no interval is given for a step."
    )
    if stages["claim"]:
        against.append(
            f"All of what the source claims of steps ({stages['claim']}): these pairs show the size of each step's "
            "changes, above, and nothing of what lies behind them."
        )


def _largest_steps(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Which kind of step changes the judge's score, and each factor, most."""
    sizes = {"the judge's score": {s["step"]: s["judge_mean_sds"] for s in summaries}}
    for name in summaries[0]["factor_means_sds"]:
        means = {s["step"]: s["factor_means_sds"][name] for s in summaries}
        if None not in means.values():
            sizes[plain(name)] = means
    largest: dict[str, list[str]] = {}
    for what, means in sizes.items():
        step = max(means, key=lambda kind: abs(means[kind]))
        largest.setdefault(step, []).append(f"{what} ({', '.join(f'{mean:+.2f}' for mean in means.values())})")
    order = " and ".join(summary["step"] for summary in summaries)
    parts = [f"{step} changes {listed(names)} most" for step, names in largest.items()]
    return f"In these pairs {'; '.join(parts)} (standard deviations for {order}, in this order)."


def _figures(factor: Mapping[str, Any]) -> str:
    pearson = f"r = {factor['pearson']:.2f}{_bracket(factor['ci'])}"
    few = "; too few models for an interval" if factor["ci"] is None else ""
    return f"{pearson}, rho = {factor['spearman']:.2f}{_bracket(factor['spearman_ci'])}{few}"


def _interval(factor: Mapping[str, Any]) -> str:
    ci = factor["ci"]
    if ci is None:
        return "too few models for an interval"
    return f"a 95% interval from {ci[0]:+.2f} to {ci[1]:+.2f} for r"


def _bracket(ci: Sequence[float] | None) -> str:
    return "" if ci is None else f" [{ci[0]:+.2f}, {ci[1]:+.2f}]"
