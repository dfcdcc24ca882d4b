"""What a flip report comes to, in sentences whose wording follows from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.analysis.flips.signals import kind_of
from safetyrepro.plurals import counted

ALPHA = 0.05
NAMED = 4
POPULATIONS = {"old_correct": "among old-correct items", "label_free": "label-free"}

Body = Mapping[str, Any]


def entries_of(body: Body) -> Sequence[Body]:
    """The configurations of flips.json."""
    entries: Sequence[Body] = body.get("by_config") or [body]
    return entries


def headline(body: Body) -> str:
    """The finding in one or two sentences."""
    entries = entries_of(body)
    if len(entries) == 1:
        return f"{_flips(body, entries[0])} {_balance(entries[0])}"
    worst = max(entries, key=lambda entry: (entry["nfr"], entry["negative_flips"]))
    best = min(entries, key=lambda entry: (entry["nfr"], entry["negative_flips"]))
    spread = (
        f"every one shows a rate of negative flips of {percent(worst['nfr'])}"
        if worst["nfr"] == best["nfr"]
        else f"the rate of negative flips runs from {percent(best['nfr'])} ({best['config']}) to "
        f"{percent(worst['nfr'])} ({worst['config']})"
    )
    return f"From {body['old']} to {body['new']}, under {len(entries)} configurations, {spread}."


def churn_sentence(entry: Body) -> str | None:
    """The old model against itself, beside the update."""
    churn = entry["churn"]
    if churn is None:
        return None
    source = "over its repeats" if churn["source"] == "repeats" else f"against its second run, {churn['source']}"
    start = (
        f"The old model loses {percent(churn['rate'])} of items to itself from one draw to another ({source}, "
        f"{counted(churn['items'], 'item')}); across the update it is {percent(churn['update_rate'])}"
    )
    ci = churn["excess_ci"]
    if ci is None or ci[0] <= 0 <= ci[1]:
        return f"{start}, so that no loss beyond churn is shown{_between(ci)}."
    if churn["excess"] < 0:
        return f"{start}, less than the churn{_between(ci)}."
    return f"{start}: the update adds {percent(churn['excess'])}{_between(ci)}."


def stability_sentence(part: Body) -> str:
    """Config-stable and config-fragile flips of one benchmark."""
    stable, fragile = len(part["stable"]), len(part["fragile"])
    total = f"{part['configurations']} configurations"
    if not stable and not fragile:
        return f"{part['benchmark']}: none of {counted(part['items'], 'item')} flips under any of {total}."
    return (
        f"{part['benchmark']}: of {counted(part['items'], 'item')} {stable} {_flip(stable)} under every one of {total} "
        f"and {fragile} under some only; what flips under some only is not settled by the update alone."
    )


def gate_sentence(gate: Body, label: str = "") -> str:
    """One gate's verdict in words."""
    rate = "negative flips among all items" if gate["metric"] == "nfr" else "negative flips among old-correct items"
    where = f" under {label}" if label else ""
    margin = percent(gate["margin"])
    if gate["rate"] is None:
        return f"INCONCLUSIVE{where}: the old model had no item right to lose, so that {rate} cannot be judged."
    shown = f"{percent(gate['rate'])} of {gate['items']}"
    if gate["verdict"] == "PASS":
        return f"PASS{where}: {rate} are shown to be below {margin} ({shown}, at most {percent(gate['upper'])})."
    if gate["verdict"] == "FAIL":
        return f"FAIL{where}: {rate} are shown to be above {margin} ({shown}, at least {percent(gate['lower'])})."
    more = ""
    if gate["effective_items"] < gate["items_needed"]:
        more = f"; even without a flip it takes {gate['items_needed']} independent items"
    return (
        f"INCONCLUSIVE{where}: {rate} are not shown to be below {margin} nor above it ({shown}, between "
        f"{percent(gate['lower'])} and {percent(gate['upper'])}){more}."
    )


def signal_sentences(entry: Body) -> list[str]:
    """The verdict on signals for one task and update, in both populations."""
    study = entry["signal_study"]
    if study is None:
        return []
    sentences = []
    for name, words in (("old_correct", "Among old-correct items"), ("label_free", "Label-free, among all items")):
        part = study[name]
        if part["reason"] is not None:
            sentences.append(f"{words}: {part['reason']}.")
            continue
        rows = [row for row in _rows(entry, name) if row["verdict"] in ("adds value", "no added value shown")]
        if not rows:
            sentences.append(f"{words}: no signal could be compared with the new model's confidence.")
        elif part["adding"]:
            titles = _names([kind_of(signal).title for signal in part["adding"]])
            adds = "adds" if len(part["adding"]) == 1 else "add"
            sentences.append(f"{words}: {titles} {adds} to what the new model's confidence tells about flips.")
        else:
            sentences.append(
                f"{words}: none of {counted(len(rows), 'signal')} is shown to add to what the new "
                "model's confidence tells about flips."
            )
    return sentences


def summary_sentences(summaries: Mapping[str, Body]) -> list[str]:
    """Whether any signal wins everywhere, once for both populations where the same holds for both."""
    said: dict[str, list[str]] = {}
    for population, summary in summaries.items():
        said.setdefault(_everywhere(summary), []).append(POPULATIONS[population])
    return [f"{_capital(' and '.join(words))}: {sentence}" for sentence, words in said.items()]


def _everywhere(summary: Body) -> str:
    comparable, total = summary["comparable"], summary["updates"]
    if total == 1:
        enough = "has" if comparable else "does not have"
        return (
            f"the one task and update {enough} flips enough to compare signals; one is too few to say whether any wins "
            "everywhere."
        )
    if comparable < 2:
        return (
            f"{comparable or 'none'} of {total} tasks and updates {'has' if comparable == 1 else 'have'} "
            "flips enough to compare signals, too few to say whether any wins everywhere."
        )
    if summary["everywhere"]:
        titles = _names([kind_of(signal).title for signal in summary["everywhere"]])
        return f"over {comparable} comparable tasks and updates, {titles} added value in every one."
    best = summary["signals"][0] if summary["signals"] else None
    if best is None or not best["adds"]:
        return f"no signal added value in any of {comparable} comparable tasks and updates."
    return (
        f"no signal wins everywhere; the most frequent, {kind_of(best['signal']).title}, added value in "
        f"{best['adds']} of {comparable} comparable tasks and updates."
    )


def next_steps(body: Body) -> list[str]:
    """What a reader should do, most pressing first."""
    entries = entries_of(body)
    steps = []
    gates = [gate for entry in entries for gate in entry["gates"]]
    if any(gate["verdict"] == "FAIL" for gate in gates):
        steps.append("Hold the update back, or route the riskiest items to the old model: the margin is broken.")
    elif any(gate["verdict"] == "INCONCLUSIVE" for gate in gates):
        steps.append("Run more items before release: the margin is neither kept nor broken on these.")
    lost = _read_the_lost(body)
    if lost is not None:
        steps.append(lost)
    few = [entry for entry in entries if entry["signal_study"] and entry["signal_study"]["old_correct"]["reason"]]
    if few:
        steps.append("Run more items before choosing a signal: there are too few flips to compare signals on.")
    routes = [entry for entry in entries if entry["fallback"] and entry["fallback"]["reason"] is None]
    if routes:
        best = routes[0]["fallback"]["signals"][0]["signal"]
        steps.append(
            f"Save a threshold with safetyrepro flips policy on the signals.csv that --out writes; by area "
            f"{kind_of(best).title} comes first here, on the very items that its curve is drawn from."
        )
    left = max(sum(entry["left_out"].values()) for entry in entries)
    if left:
        steps.append(f"Left out: up to {counted(left, 'item')}, not asked of both models or without a score: look why.")
    if all(entry["churn"] is None for entry in entries):
        steps.append("Run the old model again (repeats, or --again): without its own churn some flips may be noise.")
    return steps or ["Nothing asks for action: no item that the old model had right is lost."]


def _read_the_lost(body: Body) -> str | None:
    """What to make of the lost items, as far as the finding carries it."""
    entries = entries_of(body)
    if not any(entry["negative_flips"] for entry in entries):
        return None
    stable = sum(len(part["stable"]) for part in body["stability"])
    if stable:
        return (
            f"Read the {counted(stable, 'item')} lost under every configuration first: what they have "
            "in common is what the update broke."
        )
    if any(entry["mcnemar"]["p"] <= ALPHA / len(entries) and (entry["difference"] or 0) < 0 for entry in entries):
        return "Read the lost items: what they have in common is what the update broke."
    if body["stability"]:
        return (
            "Settle the configuration that the update will run under before reading lost items: none is lost under "
            "every one, and no fall in accuracy is shown under any."
        )
    return (
        "Run more items before looking for a cause: the lost items are no more, beside those won, than chance would "
        "show."
    )


def percent(share: float | None) -> str:
    """A share as a percentage, one decimal below ten."""
    if share is None:
        return "–"
    value = 100 * share
    return f"{value:.0f}%" if abs(value) >= 9.95 or value == 0 else f"{value:.1f}%"


def p_text(p: float) -> str:
    """A p value, to two digits or as what it lies below."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def _flips(body: Body, entry: Body) -> str:
    lost, won = entry["negative_flips"], entry["positive_flips"]
    ci = entry["intervals"]["nfr"]["ci"]
    rate = f"{percent(entry['nfr'])} of all"
    if ci is not None:
        rate += f", {percent(ci[0])} to {percent(ci[1])} at 95%"
    if entry["nfr_old_correct"] is not None:
        rate += f"; {percent(entry['nfr_old_correct'])} of the {entry['old_correct']} that the old model had right"
    return (
        f"From {body['old']} to {body['new']}, {lost} of {counted(entry['items'], 'item')} "
        f"{'is' if lost == 1 else 'are'} lost ({rate}) and {won} {'is' if won == 1 else 'are'} won."
    )


def _balance(entry: Body) -> str:
    before, after = percent(entry["accuracy_old"]), percent(entry["accuracy_new"])
    p = entry["mcnemar"]["p"]
    if p <= ALPHA and entry["difference"]:
        direction = "rises" if entry["difference"] > 0 else "falls"
        return f"Accuracy {direction} from {before} to {after} ({p_text(p)})."
    if not entry["negative_flips"] and not entry["positive_flips"]:
        return f"Accuracy stays at {after}."
    return (
        f"Accuracy goes from {before} to {after}, which lost and won items by chance would show as well ({p_text(p)})."
    )


def _rows(entry: Body, population: str) -> list[Body]:
    return [row if population == "old_correct" else row["label_free"] for row in entry["signals"]]


def _between(ci: Sequence[float] | None) -> str:
    return "" if ci is None else f" ({percent(ci[0])} to {percent(ci[1])} at 95%)"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _flip(count: int) -> str:
    return "flips" if count == 1 else "flip"


def _names(titles: Sequence[str]) -> str:
    shown = list(titles[:NAMED])
    if len(titles) > NAMED:
        return ", ".join(shown) + f" and {len(titles) - NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
