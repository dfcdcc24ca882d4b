"""One suite at two releases in one arm: did they ask the same, get the same, and read the same in it?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.disagreements import clipped
from safetyrepro.crosspkg.facts import CellOutcome
from safetyrepro.crosspkg.outcomes import record_score
from safetyrepro.records import Record
from safetyrepro.runners import in_order, suite_of, title


def release_pairs(cells: Mapping[str, CellOutcome], *, redact: bool) -> list[dict[str, Any]]:
    """Every two releases of one suite, item by item.

    Args:
        cells: The finished cells of one config, model and arm, by runner.
        redact: Leave out every text of a model or data set.

    Returns:
        Per pair: the runners with their versions, how many items both have, on how many of these they sent the same
        tokens, got the same text or sums for them, and then read different answers in it; how many scores differ; and
        the items of the last two kinds with what each read.
    """
    return [
        _pair(cells[a], cells[b], redact)
        for a, b in itertools.combinations(in_order(cells), 2)
        if suite_of(a) == suite_of(b)
    ]


def release_sentence(pair: Mapping[str, Any]) -> str:
    """What a pair comes to, with the reason as far as the records tell it."""
    total, suite = pair["items"], title(suite_of(pair["a"]))
    both = f"{suite} {' and '.join(pair['versions'].values())}"
    if not total:
        return f"{both} have no item in common."
    if pair["same_prompt"] < total:
        start = f"{both} sent the same tokens on {pair['same_prompt']} of {total} items"
    else:
        start = f"{both} sent the same tokens on all {total} items"
    start += f" and got the same back on {pair['same_answer']}"
    differ = pair["scores_differ"]
    scores = f"{differ or 'no'} score{'' if differ == 1 else 's'} differ{'s' if differ == 1 else ''}"
    if pair["read_differently"]:
        return (
            f"{start}; on {pair['read_differently']} of these they read different answers in the same text, and "
            f"{scores}: the releases' extraction differs, not the model."
        )
    return f"{start}, in which they read the same answers; {scores}."


def _pair(a: CellOutcome, b: CellOutcome, redact: bool) -> dict[str, Any]:
    theirs = {(record.item_id, record.repeat): record for record in b.records}
    shared = [(one, theirs[one.item_id, one.repeat]) for one in a.records if (one.item_id, one.repeat) in theirs]
    asked = [pair for pair in shared if _same_prompt(*pair)]
    answered = [pair for pair in asked if _same_answer(*pair)]
    read = [pair for pair in answered if pair[0].extracted != pair[1].extracted]
    scored = [pair for pair in shared if _scores_differ(*pair)]
    shown = {pair[0].item_id for pair in [*read, *scored]}
    names = (a.facts.suite, b.facts.suite)
    return {
        "a": names[0],
        "b": names[1],
        "versions": {cell.facts.suite: cell.facts.suite_version for cell in (a, b)},
        "items": len(shared),
        "same_prompt": len(asked),
        "same_answer": len(answered),
        "read_differently": len(read),
        "scores_differ": len(scored),
        "listed": [_listed(names, pair, redact) for pair in shared if pair[0].item_id in shown],
    }


def _same_prompt(a: Record, b: Record) -> bool:
    return a.n_prompt_tokens is not None and a.prompt_sha256 == b.prompt_sha256


def _same_answer(a: Record, b: Record) -> bool:
    sums = [[candidate.logprob for candidate in record.candidates] for record in (a, b)]
    return a.response == b.response and sums[0] == sums[1]


def _scores_differ(a: Record, b: Record) -> bool:
    one, other = record_score(a), record_score(b)
    if one is None or other is None:
        return one is not other
    return abs(one - other) > TOLERANCE


def _listed(names: Sequence[str], pair: tuple[Record, Record], redact: bool) -> dict[str, Any]:
    return {
        "item_id": pair[0].item_id,
        "same_answer": _same_prompt(*pair) and _same_answer(*pair),
        "sides": {
            name: {"score": record.score, "status": record.status}
            | ({} if redact else {"extracted": clipped(record.extracted), "response": clipped(record.response)})
            for name, record in zip(names, pair, strict=True)
        },
    }
