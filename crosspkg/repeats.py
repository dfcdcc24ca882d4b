"""A cell beside itself: what its repeats score, what changes, and which differences between suites are no larger.

A suite that is run again with everything the same need not score the same: text is sampled, or numerics move. That
spread comes first: a difference between two suites that is no larger is not laid on the suites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from safetyrepro.analysis.aggregate import Aggregate
from safetyrepro.analysis.repeats import WithinSpread, WithinVerdict, within_spread, within_verdict
from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.facts import CellOutcome, DataInfo
from safetyrepro.crosspkg.outcomes import ItemScores, record_score
from safetyrepro.crosspkg.wirediff import answer
from safetyrepro.gateway.wire import WireRow, read_wire
from safetyrepro.records import Record
from safetyrepro.runners import title

Section = Mapping[str, Any]


def repeats_of(records: Iterable[Record]) -> list[int]:
    """The numbers of the repeats that left records, the first run's 0 among them."""
    return sorted({record.repeat for record in records})


def cell_within(items: ItemScores, aggregate: Aggregate, among: Sequence[str] | None = None) -> WithinSpread | None:
    """A cell's spread over its repeats; None with one run, or without an item that all of them scored.

    Args:
        items: the cell's scores.
        aggregate: how item scores make the cell's.
        among: only these items, such as those that another suite scored as well.
    """
    numbers = repeats_of(record for records in items.records.values() for record in records)
    if len(numbers) < 2:
        return None
    columns = []
    for item in items.records if among is None else among:
        scores = {record.repeat: record_score(record) for record in items.records[item]}
        column = [scores.get(number) for number in numbers]
        if all(score is not None for score in column):
            columns.append(column)
    return within_spread(np.array(columns, dtype=np.float64).T, aggregate=aggregate) if columns else None


def repeats_json(cell: CellOutcome, items: ItemScores, aggregate: Aggregate) -> dict[str, Any]:
    """A cell's repeats as report.json holds them: their scores, and the items that changed."""
    within = cell_within(items, aggregate)
    numbers = repeats_of(cell.records)
    several = {item: records for item, records in items.records.items() if len(records) > 1}
    return {
        "n": len(numbers),
        "failed": [
            {"repeat": facts.repeat, "reason": "".join((facts.reason or "").splitlines()[:1])}
            for facts in cell.failed_repeats
        ],
        "n_items": None if within is None else within.n_items,
        "scores": None if within is None else list(within.scores),
        "spread_points": None if within is None else within.points,
        "score_changed": [item for item, records in several.items() if _unlike(map(record_score, records))],
        "choice_changed": [item for item, records in several.items() if len({answer(r) for r in records}) > 1],
        "output_changed": [item for item, records in several.items() if len({_output(r) for r in records}) > 1],
    }


def single_draw(cell: CellOutcome, data: DataInfo) -> list[str]:
    """What of a cell is one draw of something random: a sampled decoding that was run once, drawn worked examples.

    A repeat asks with the same examples, so that they stay one draw however often a cell is run.
    """
    drawn = []
    if len(repeats_of(cell.records)) == 1 and _samples(cell):
        drawn.append("decoding")
    if data.shot_ids and any(record.shots for record in cell.records):
        drawn.append("shots")
    return drawn


def pair_within(
    a: ItemScores, b: ItemScores, shared: Sequence[str], aggregate: Aggregate, points: float, comparisons: int
) -> WithinVerdict | None:
    """Whether two suites' difference lies inside their spread within themselves; None where neither was repeated."""
    repeated = [within for items in (a, b) if (within := cell_within(items, aggregate, shared)) is not None]
    return within_verdict(points, *repeated, comparisons=comparisons) if repeated else None


def arm_within(
    pairs: Sequence[Section], cells: Mapping[str, ItemScores], shared: Sequence[str], aggregate: Aggregate
) -> dict[str, Any]:
    """Every pairwise difference of an arm, and its spread, beside what the suites differ from themselves.

    Returns:
        `pairwise`, the pairs with a verdict each, and `within`, that of the largest difference; both null without
        repeats.
    """
    verdicts = [
        pair_within(cells[pair["a"]], cells[pair["b"]], shared, aggregate, pair["difference_points"], len(pairs))
        for pair in pairs
    ]
    widest = max(range(len(pairs)), key=lambda place: abs(pairs[place]["difference_points"]), default=None)
    held = [None if verdict is None else asdict(verdict) for verdict in verdicts]
    return {
        "pairwise": [{**pair, "within": verdict} for pair, verdict in zip(pairs, held, strict=True)],
        "within": None if widest is None else held[widest],
    }


def repeat_sentences(report: Sequence[Section]) -> list[str]:
    """A line on every cell that was run again, and on those that are a single draw."""
    lines, single = [], []
    for entry in report:
        for arm, section in entry["arms"].items():
            for suite, row in section["suites"].items():
                where = f"{title(suite)}, {entry['benchmark']} {entry['config']['metric']}, {entry['model']}, {arm} arm"
                if row["repeats"]["n"] > 1:
                    lines.append(f"{where}: {in_words(row['repeats'])}.")
                elif "decoding" in row["single_draw"]:
                    single.append(where)
    if single:
        more = f" and {len(single) - 4} more" if len(single) > 4 else ""
        lines.append(
            f"A single draw of sampled text, whose spread is not known: {'; '.join(single[:4])}{more}. "
            "--repeats 3 measures it."
        )
    return lines


def single_draw_steps(report: Sequence[Section]) -> list[str]:
    """What to do about cells whose sampled text was drawn once; nothing where there are none."""
    single = [
        suite
        for entry in report
        for section in entry["arms"].values()
        for suite, row in section["suites"].items()
        if "decoding" in row["single_draw"]
    ]
    if not single:
        return []
    suites = ", ".join(title(suite) for suite in dict.fromkeys(single))
    return [
        f"Run again with --repeats 3: {len(single)} cell{'s are' if len(single) > 1 else ' is'} a single draw of "
        f"sampled text ({suites}), and what a suite differs from itself comes first."
    ]


def in_words(repeats: Section) -> str:
    """A cell's repeats in a clause: how many, how far apart, and on how many items they differ."""
    count, scores = repeats["n"], repeats["scores"]
    if scores is None:
        return f"{count} runs, with no item that all of them scored"
    changed = len(repeats["score_changed"])
    if max(scores) - min(scores) <= TOLERANCE and not changed and not repeats["choice_changed"]:
        other = len(repeats["output_changed"])
        alike = f"; outputs differ on {other} items" if other else ", to the last output"
        return f"{count} runs, alike in every score and choice{alike}"
    return (
        f"{count} runs, {repeats['spread_points']:.1f} points apart within the suite "
        f"({100 * min(scores):.1f} to {100 * max(scores):.1f}); scores change on {changed} items, "
        f"choices on {len(repeats['choice_changed'])}"
    )


def within_words(verdict: Section) -> str:
    """What a difference inside the within-suite spread is called."""
    return (
        f"inside the within-suite spread (one of the two differs from itself by up to {verdict['points']:.1f} points "
        f"from repeat to repeat; running them again moves their difference by up to {verdict['noise_points']:.1f})"
    )


def _unlike(scores: Iterable[float | None]) -> bool:
    known = list(scores)
    numbers = [score for score in known if score is not None]
    return len(numbers) not in (0, len(known)) or max(numbers, default=0.0) - min(numbers, default=0.0) > TOLERANCE


def _output(record: Record) -> Any:
    return record.response, tuple(candidate.logprob for candidate in record.candidates)


def _samples(cell: CellOutcome) -> bool:
    """Whether any text of a cell was generated at a temperature over 0, by the requests on its wire."""
    free = {wire_id for record in cell.records if record.scoring == "free" for wire_id in record.wire_ids}
    paths = cell.wires if free else ()
    return any(row.wire_id in free and _sampled(row) for path in paths for row in read_wire(path))


def _sampled(row: WireRow) -> bool:
    """The API's own temperature, where a request names none, is 1."""
    heat = row.request.get("temperature")
    return heat is None or (isinstance(heat, int | float) and heat > 0)
