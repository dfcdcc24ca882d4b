"""The words beside each figure, computed from the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.orders import order_sentence
from safetyrepro.crosspkg.repeats import within_words
from safetyrepro.crosspkg.words import names_text
from safetyrepro.runners import title

Entry = Mapping[str, Any]


def score_captions(entries: Sequence[Entry]) -> list[str]:
    """Per model and arm the lowest and the highest suite, and who cannot be told from a guess."""
    lines = []
    for entry in entries:
        for arm, section in entry["arms"].items():
            rows = {suite: row for suite, row in section["suites"].items() if row["score"] is not None}
            if not rows:
                continue
            low, high = min(rows, key=lambda s: rows[s]["score"]), max(rows, key=lambda s: rows[s]["score"])
            bottom, top = 100 * rows[low]["score"], 100 * rows[high]["score"]
            if top - bottom <= TOLERANCE:
                line = f"{entry['model']}, {arm}: {top:.0f} in {names_text(list(rows))}"
            else:
                line = f"{entry['model']}, {arm}: from {bottom:.0f} ({title(low)}) to {top:.0f} ({title(high)})"
            chance = [suite for suite, row in rows.items() if row["at_chance"]]
            below = [suite for suite, row in rows.items() if row["below_chance"]]
            flags = [f"not told from a guess in {names_text(chance)}"] if chance else []
            flags += [f"below a guess in {names_text(below)}"] if below else []
            lines.append("; ".join([line, *flags]) + ".")
    return lines


def spread_captions(entries: Sequence[Entry]) -> list[str]:
    """Per model and arm the spread against what equal suites would show."""
    lines = []
    for entry in entries:
        for arm, section in entry["arms"].items():
            spread, points, interval = section["spread"], section["spread_points"], section["spread_ci"]
            if spread is None:
                lines.append(f"{entry['model']}, {arm}: no spread, since fewer than two suites scored the same items.")
                continue
            if points <= TOLERANCE and not any(pair["discordant"] for pair in spread["pairwise"]):
                line = f"{entry['model']}, {arm}: 0 points, every item scored alike by {names_text(spread['suites'])}"
                if interval is not None:
                    line += f" (counting {spread['n_items']} items alone leaves up to {interval[1]:.0f} points open)"
                lines.append(line + ".")
                continue
            beyond = "more than" if spread["p"] <= 0.05 else "no more than"
            between = "" if interval is None else f", between {interval[0]:.0f} and {interval[1]:.0f} at 95%"
            lines.append(
                f"{entry['model']}, {arm}: {points:.1f} points{between}, {beyond} equal suites would show "
                f"({spread['null_mean']:.1f} on average, at most {spread['null_q95']:.1f} in 95% of draws; "
                f"p = {spread['p']:.4f}){_within(spread)}."
            )
    return lines


def _within(spread: Entry) -> str:
    verdict = spread["within"]
    return f"; {within_words(verdict)}" if verdict is not None and verdict["inside"] else ""


def order_captions(entries: Sequence[Entry], number: int) -> list[str]:
    """Per arm whether one pair's order survives the suites."""
    return [
        f"{arm.capitalize()}: {order_sentence(section['order'][number])}"
        for arm, section in entries[0]["arms"].items()
        if len(section["order"]) > number
    ]
