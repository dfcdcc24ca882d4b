"""What a reader of a report should do."""

from __future__ import annotations

from collections.abc import Sequence

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.headlines import Headline, headlines, matched_agrees
from safetyrepro.crosspkg.releases import release_sentence
from safetyrepro.crosspkg.repeats import single_draw_steps
from safetyrepro.crosspkg.starts import ran_sentences
from safetyrepro.crosspkg.words import Report, count_word, points_text, subject
from safetyrepro.runners import title

UNREAD = ("unparsed", "truncated")
UNREADABLE = 0.1
"""From this share of such answers on, a suite's score says more about format than about answers."""


def next_steps(report: Report) -> list[str]:
    """What a reader should do, most pressing first."""
    steps = _failed(report) + _unmatched(report) + _spreads(headlines(report)) + _releases(report)
    steps += single_draw_steps(report) + _unreadable(report) + _chance(report) + _other_code(report)
    return steps or ["Nothing asks for action: the suites were run as planned and nothing set them apart."]


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
    where = f"at chance in every suite of an arm: {'; '.join(chance)}"
    if len({entry["model"] for entry in report}) > 1:
        return [f"Claim no rank for a model {where}."]
    return [f"Conclude nothing about the model from scores that a guess would get as well, {where}."]


def _other_code(report: Report) -> list[str]:
    said = ran_sentences(report[0]["versions"]["ran"]) if report else []
    return [f"To publish it, run it anew into an empty folder. {' '.join(said)}"] if said else []
