"""An audit's findings in words, computed from its report and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.judge.edit_names import CONTENT_EDITS, SURFACE_EDITS
from safetyrepro.judge.wording import listed, relation
from safetyrepro.plurals import counted

EVEN = 0.5
CLEAR = 0.1
"""A weight whose interval holds 0 and ends below this, or below half the top weight's lower end, is "not" (ours)."""
MUCH_UNPARSED = 0.2


def judge_verdict(name: str, judge: Mapping[str, Any], meta: Mapping[str, Any] | None) -> str:
    """One sentence: what this judge follows, and what not.

    In order of strength: position (it contradicts itself when the answers change places), edits (causal), length,
    then weights (descriptive), and the judge's correlation with what was measured without it.
    """
    clauses = (_unparsed(judge), _position(judge), _edits(judge), _length(judge), _weights(judge), _beside(judge, meta))
    said = [clause for clause in clauses if clause]
    if not said:
        return f"{name}: nothing that it follows is established on {counted(judge['items'], 'item')}."
    return f"{name}: {'; '.join(said)}."


def audit_finding(report: Mapping[str, Any]) -> str:
    """The judges' sentences, and how far they agree."""
    sentences = [judge["verdict"] for judge in report["judges"].values()]
    found = report["agreement"]
    if found is not None and found["all"]["alpha"] is not None:
        every = found["all"]
        interval = "" if every["alpha_ci"] is None else " [{:.2f}, {:.2f}]".format(*every["alpha_ci"])
        sentences.append(
            f"The {len(every['judges'])} judges agree on {100 * every['raw']:.0f}% of verdicts, "
            f"Krippendorff's alpha {every['alpha']:.2f}{interval} (1 perfect, 0 chance)."
        )
    return " ".join(sentences)


def unread_step(statuses: Mapping[str, int]) -> str | None:
    """What to do about replies without a verdict; None where they are few.

    Args:
        statuses: calls of a run by status.
    """
    truncated, unparsed = statuses.get("truncated", 0), statuses.get("unparsed", 0)
    replies = truncated + unparsed + statuses.get("ok", 0)
    if truncated + unparsed < max(1, MUCH_UNPARSED * replies):
        return None
    said = []
    if truncated:
        said.append(f"{truncated} ended at the limit (raise --max-tokens)")
    if unparsed:
        said.append(f"{unparsed} gave no mark (ask in a simpler form with --prompt, or ask another judge)")
    total = counted(replies, "reply", "replies")
    return f"Get readable replies first, by judge run into a new folder: of {total} {listed(said)}."


def first_steps(report: Mapping[str, Any]) -> list[str]:
    """What to do next with the judges of a report, most pressing first."""
    judges = report["judges"]
    unread = None if report["run"] is None else unread_step(report["run"]["statuses"])
    if unread is None:
        silent = [name for name, judge in judges.items() if _unparsed(judge)]
        unread = f"Find out why so many replies of {listed(silent)} hold no verdict." if silent else None
    steps = [] if unread is None else [unread]
    return [*steps, order_step(judges)] if has_verdicts(report) else steps


def has_verdicts(report: Mapping[str, Any]) -> bool:
    """Whether any call that a judge was asked gave a verdict."""
    details = [judge["detail"] for judge in report["judges"].values()]
    return any(detail is None or detail["unparsed"]["count"] < detail["rows"] for detail in details)


def order_step(judges: Mapping[str, Mapping[str, Any]]) -> str:
    """What to do about the order of the answers: ask in both, or count what both orders agree on."""
    lacking, differing = [], []
    for name, judge in judges.items():
        detail = judge["detail"]
        asked = 0 if detail is None else detail["comparisons"]
        if judge["both_orders"] < asked or not asked:
            lacking.append(f"{name} has a verdict in both for {judge['both_orders']} of {counted(asked, 'comparison')}")
        elif detail["flips"]["count"]:
            same = asked - detail["flips"]["count"]
            differing.append(f"{same} of {counted(asked, 'comparison')} of {name}")
    if lacking:
        return f"Ask in both orders, and count a comparison only where both say the same: {listed(lacking)}."
    if differing:
        return f"Count a comparison only where both orders say the same, as they do in {listed(differing)}."
    return "Count every comparison: all were asked in both orders, and the answers' changing places turned no verdict."


def _unparsed(judge: Mapping[str, Any]) -> str:
    share = judge["detail"] and judge["detail"]["unparsed"]
    if not share or share["share"] is None or share["share"] < MUCH_UNPARSED:
        return ""
    return f"it gave no readable verdict in {share['count']} of {share['of']} calls ({_percent(share['share'])})"


def _position(judge: Mapping[str, Any]) -> str:
    detail = judge["detail"]
    if detail is None:
        return ""
    flips, first = detail["flips"], detail["first_balanced"]
    if flips["share"] is None:
        return ""
    said = f"{flips['count']} of {flips['of']} comparisons ({_percent(flips['share'])})"
    if first["ci"] is not None and (first["ci"][0] > EVEN or first["ci"][1] < EVEN):
        place = "first" if first["share"] > EVEN else "second"
        named = first["share"] if place == "first" else 1 - first["share"]
        verb = "follows position" if flips["share"] > EVEN else "leans to a position"
        return (
            f"it {verb}: the answer shown {place} gets {_percent(named)} of verdicts, and the answers' changing places "
            f"turns the verdict in {said}"
        )
    if flips["share"] > 0 and flips["ci"] is not None and flips["ci"][0] > CLEAR:
        return f"it contradicts itself when the answers change places in {said}"
    return ""


def _length(judge: Mapping[str, Any]) -> str:
    surface = judge["surface"]
    share = surface and surface["more_wins"].get("length")
    if not share or share["ci"] is None:
        return ""
    if share["ci"][0] > EVEN:
        return f"it gives {_percent(share['share'])} of decided verdicts to the longer answer"
    if share["ci"][1] < EVEN:
        return f"it gives {_percent(1 - share['share'])} of decided verdicts to the shorter answer"
    return ""


def _edits(judge: Mapping[str, Any]) -> str:
    edits = judge["edits"]
    if edits is None:
        return ""
    moved, still = [], []
    for name, change in edits.items():
        effect = _effect(change)
        if effect["mean"] is None:
            continue
        if effect["established"]:
            moved.append(f"{name} {effect['mean']:+.2f} [{effect['ci'][0]:+.2f}, {effect['ci'][1]:+.2f}]")
        else:
            still.append(name)
    said = []
    if moved:
        said.append(f"edits of {listed(moved)} move its mark")
    if still:
        said.append(f"{listed(still, 'or')} by no established amount")
    verdict = _edit_verdict(edits)
    return (f"it {verdict}: " if verdict else "") + ", ".join(said)


def _edit_verdict(edits: Mapping[str, Mapping[str, Any]]) -> str:
    """What the edits of substance and of form say together.

    "Not facts" needs more than no established effect: the interval of the facts' effect must lie within what the
    strongest edit of form does at least.
    """

    def moved(names: Sequence[str]) -> list[Mapping[str, Any]]:
        return [e for n in names if n in edits and (e := _effect(edits[n]))["established"]]

    content, surface = moved(CONTENT_EDITS), moved(SURFACE_EDITS)
    if content and surface:
        return "follows facts and style"
    if content:
        return "follows facts"
    if not surface:
        return ""
    floor = max(min(abs(end) for end in effect["ci"]) for effect in surface)
    tried = [_effect(edits[name]) for name in CONTENT_EDITS if name in edits]
    smaller = [e["ci"] is not None and max(abs(end) for end in e["ci"]) < floor for e in tried]
    return "follows style, not facts" if smaller and all(smaller) else "follows style"


def _effect(edit: Mapping[str, Any]) -> Mapping[str, Any]:
    """The change of the overall mark, or of the win where there are no marks."""
    effect: Mapping[str, Any] = edit["overall"] if edit["overall"]["mean"] is not None else edit["win"]
    return effect


def _weights(judge: Mapping[str, Any]) -> str:
    weights = judge["weights"]
    if weights is None:
        return ""
    known = {name: w for name, w in weights.items() if w["estimate"] is not None and w["ci"] is not None}
    clear = sorted((n for n, w in known.items() if w["ci"][0] > 0), key=lambda n: -known[n]["estimate"])
    if not clear:
        return ""
    top = clear[0]
    ceiling = max(CLEAR, known[top]["ci"][0] / 2)
    faint = [n for n, w in known.items() if n != top and w["ci"][0] <= 0 and w["ci"][1] < ceiling]
    said = f"its overall mark follows {top} (weight {_weight(known[top])}"
    if faint:
        said += f"), not {listed([f'{name} ({_weight(known[name])})' for name in faint], 'or')[:-1]}"
    return said + "; descriptive)"


def _beside(judge: Mapping[str, Any], meta: Mapping[str, Any] | None) -> str:
    if meta is None or judge["weights"] is None:
        return ""
    words = {"with": "goes with", "against": "goes against", "open": "shows no established relation to"}
    found = [
        f"{words[kind]} {name.replace('_', ' ')} (r = {factor['pearson']:.2f})"
        for name, factor in meta["factors"].items()
        if (kind := relation(factor)) != "undefined"
    ]
    return f"over {meta['models']} models its score {listed(found)}" if found else ""


def _weight(weight: Mapping[str, Any]) -> str:
    return f"{weight['estimate']:.2f} [{weight['ci'][0]:.2f}, {weight['ci'][1]:.2f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
