"""An item's record by the benchmark's own rules, from candidates' sums or from a generated text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from safetyrepro.adapters.record import divisors, finish

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.canonical import CandidateSequence, Prompt
    from safetyrepro.records import Candidate, Record


def scored_record(
    blank: Record,
    cell: Cell,
    item: Item,
    prompt: Prompt,
    sequences: Sequence[CandidateSequence],
    candidates: Sequence[Candidate],
    extra: Mapping[str, str] | None = None,
) -> Record:
    """The record of an item whose candidates were scored.

    Args:
        blank: what `blank_record` gave.
        cell: what was run.
        item: the item.
        prompt: its prompt.
        sequences: its candidates' sequences, in candidate order.
        candidates: the same with their summed logprobs (nats).
        extra: further facts, as text.

    Raises:
        SuiteFailure: a sum that no model gives.
    """
    sums = [candidate.logprob for candidate in candidates]
    score = cell.benchmark.score_logprobs(item, cell.config, sums, divisors(cell.config, candidates))
    texts = [sequence.candidate for sequence in sequences]
    return finish(
        blank,
        score,
        prompt=prompt.text,
        prompt_ids=prompt.ids,
        wire_ids=[candidate.wire_id for candidate in candidates if candidate.wire_id],
        gold=[texts[index] for index in item.scored(cell.config.metric)[1]],
        suite_score=score.value,
        candidates=candidates,
        extracted=None if score.choice is None else texts[score.choice],
        extra=extra,
    )


def generated_record(
    blank: Record,
    cell: Cell,
    item: Item,
    prompt: Prompt,
    text: str,
    finish_reason: str,
    *,
    wire_ids: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
) -> Record:
    """The record of an item whose answer was generated; what the config's other rule reads stands beside it."""
    config = cell.config
    rule = "lenient" if config.scoring.extraction == "strict" else "strict"
    other = config.model_copy(update={"scoring": config.scoring.model_copy(update={"extraction": rule})})
    score, extracted = cell.benchmark.score_text(item, config, text, finish_reason)
    return finish(
        blank,
        score,
        prompt=prompt.text,
        prompt_ids=prompt.ids,
        wire_ids=wire_ids,
        gold=cell.benchmark.readings(item),
        suite_score=score.value,
        response=text,
        finish_reason=finish_reason,
        extracted=extracted,
        extracted_other=cell.benchmark.score_text(item, other, text, finish_reason)[1],
        extra=extra,
    )
