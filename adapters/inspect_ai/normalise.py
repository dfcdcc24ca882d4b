"""Records from Inspect AI's log.

Requests are joined with the wire log by the id that Inspect sends as a header and keeps in its log. Inspect's mean
leaves out items that failed; here each of them is a record, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from safetyrepro.adapters.base import Job
from safetyrepro.adapters.inspect_ai.log import NAME, Call, Log, LoggedSample, read_log
from safetyrepro.adapters.inspect_ai.translate import letter, translate
from safetyrepro.adapters.record import (
    blank_record,
    by_item,
    candidate_of,
    check_claims,
    divisors,
    finish,
)
from safetyrepro.benchmarks.base import Score
from safetyrepro.config import Arm, ScoringSpec
from safetyrepro.errors import SuiteFailure

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item, Status
    from safetyrepro.canonical import CandidateSequence
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record

Rows = Mapping[str, "WireRow"]
"""Wire rows by the id that Inspect sent with the request."""


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one per item, in item order; an item without output is `missing`.

    Raises:
        SuiteFailure: the log is missing, cut short or inconsistent; the message names the file.
    """
    log = read_log(out_dir)
    path = out_dir / NAME
    samples = {sample.id: sample for sample in log.samples or []}
    strays = samples.keys() - {item.item_id for item in cell.data.items}
    if strays:
        raise SuiteFailure(f"{path}: holds samples of other items, such as {min(strays)!r}.")
    _check_options(cell, log, path)
    _check_denominator(log, path)
    rows = {row.headers["x-irid"]: row for row in wire if "x-irid" in row.headers}
    left_out = _left_out(log, len(cell.data.items))
    sequences = by_item(cell.canonical.sequences)
    records = []
    for item in cell.data.items:
        sample = samples.get(item.item_id)
        if sample is None:
            records.append(blank_record(cell, item))
        elif cell.arm is Arm.MATCHED and cell.config.scoring.path == "logprob":
            records.append(_scored_by_likelihood(cell, item, sample, sequences[item.item_id], rows, left_out))
        else:
            records.append(_generated(cell, item, sample, rows, left_out))
    check_claims(wire, records)
    return records


def _check_options(cell: Cell, log: Log, path: Path) -> None:
    """The options in force are those of the job: no file or variable of the machine has changed them."""
    job = translate(cell)
    asked: dict[str, Any] = job.payload["generate"] if isinstance(job, Job) else {}
    for name, value in asked.items():
        found = log.plan.config.get(name)
        if found != value:
            raise SuiteFailure(f"{path}: plan.config.{name} is {found!r}, the job asked for {value!r}.")


def _check_denominator(log: Log, path: Path) -> None:
    scored = sum(sample.score is not None and sample.score.number is not None for sample in log.samples or [])
    for summary in log.results.scores if log.results else []:
        if summary.scored_samples != scored:
            raise SuiteFailure(
                f"{path}: results.scores says {summary.scored_samples} scored samples, the log holds {scored}."
            )


def _left_out(log: Log, items: int) -> str:
    scored = log.results.scores[0].scored_samples if log.results and log.results.scores else 0
    return f"left out of Inspect's own mean, which is over {scored} of {items} items"


def _failure(sample: LoggedSample, left_out: str) -> Score | None:
    """Why a sample has no outcome; None where it has one."""
    unanswered = [call for call in sample.calls if call.choice is None]
    told = unanswered[0].told if unanswered else None
    if sample.error is not None:
        return Score(None, "error", "; ".join(filter(None, (sample.error.cause, told, left_out))))
    if sample.score is None or sample.score.number is None:
        return Score(None, "missing", f"Inspect did not score this item; {left_out}")
    if sample.filtered:
        return Score(sample.score.number, "refused", told or "the server's content filter withheld the answer")
    if unanswered:
        return Score(None, "error", f"{told}; Inspect took the error for the reply and scored it")
    return None


def _sent(calls: Sequence[Call], rows: Rows) -> list[str]:
    return [rows[call.key].wire_id for call in calls if call.key in rows]


def _scored_by_likelihood(
    cell: Cell,
    item: Item,
    sample: LoggedSample,
    sequences: Sequence[CandidateSequence],
    rows: Rows,
    left_out: str,
) -> Record:
    calls = {tuple(call.request.get("prompt", ())): call for call in sample.calls}
    candidates = []
    for sequence in sequences:
        call = calls.get(sequence.ids)
        row = None if call is None else rows.get(call.key)
        logprob = None if call is None else _echoed_sum(call, sequence)
        candidates.append(candidate_of(sequence, logprob, None if row is None else row.wire_id))
    _, gold = item.scored(cell.config.metric)
    suite_score = None if sample.score is None else sample.score.number
    score = _failure(sample, left_out)
    if score is None:
        rule = cell.benchmark.score_logprobs(
            item, cell.config, [candidate.logprob for candidate in candidates], divisors(cell.config, candidates)
        )
        score = replace(rule, value=suite_score) if rule.status == "ok" else rule
    return finish(
        blank_record(cell, item),
        score,
        prompt=sequences[0].context,
        prompt_ids=sequences[0].ids[: sequences[0].n_context],
        wire_ids=_sent(sample.calls, rows),
        gold=[sequences[index].candidate for index in gold],
        suite_score=suite_score,
        candidates=candidates,
        extracted=None if score.choice is None else sequences[score.choice].candidate,
        extra={} if sample.score is None or sample.score.answer is None else {"answer": sample.score.answer},
    )


def _echoed_sum(call: Call, sequence: CandidateSequence) -> float | None:
    """Sum of the candidate's tokens, from the raw response that Inspect kept."""
    logprobs = (call.choice or {}).get("logprobs") or {}
    values = (logprobs.get("token_logprobs") or [])[sequence.n_context : len(sequence.ids)]
    if len(values) != len(sequence.ids) - sequence.n_context or None in values:
        return None
    return math.fsum(values)


def _generated(cell: Cell, item: Item, sample: LoggedSample, rows: Rows, left_out: str) -> Record:
    call = sample.calls[-1] if sample.calls else None
    choice = (call.choice if call else None) or {}
    response: str | None = choice["text"] if "text" in choice else choice.get("message", {}).get("content")
    finish_reason: str | None = choice.get("finish_reason")
    seen = rows[call.key].seen[0] if call and call.key in rows and rows[call.key].seen else None
    sent = "" if call is None else str(call.request.get("prompt", ""))
    axes: dict[str, Any] = {}
    if cell.arm is Arm.NOMINAL:
        axes = {"scoring": "free", "shots": 0}
    return finish(
        blank_record(cell, item),
        _failure(sample, left_out) or _outcome(cell, item, sample, response, finish_reason),
        prompt=sent if seen is None or seen.text is None else seen.text,
        prompt_ids=None if seen is None else seen.ids,
        wire_ids=_sent(sample.calls, rows),
        gold=sample.gold,
        suite_score=None if sample.score is None else sample.score.number,
        response=response,
        finish_reason=finish_reason,
        extracted=(sample.score.answer or None) if sample.score else None,
        extracted_other=_other_reading(cell, item, response, finish_reason),
        extra=_options(sample, item),
        **axes,
    )


def _outcome(cell: Cell, item: Item, sample: LoggedSample, response: str | None, finish_reason: str | None) -> Score:
    """Inspect's score, with the status that its answer gives."""
    assert sample.score is not None
    value, answer = sample.score.number, sample.score.answer
    if answer:
        shown = [letter(index) for index in range(len(sample.choices or item.options))]
        chosen = shown.index(answer) if answer in shown else None
        return Score(value, "ok", None, chosen)
    if cell.arm is Arm.MATCHED:
        rule, _ = cell.benchmark.score_text(item, cell.config, response or "", finish_reason)
        return Score(value, rule.status, rule.reason)
    status: Status = "unparsed"
    reason = "Inspect's parser finds no 'ANSWER: <letter>' of an option"
    if finish_reason == "length":
        status, reason = "truncated", f"{reason}; the text was cut at its limit"
    return Score(value, status, reason)


def _other_reading(cell: Cell, item: Item, response: str | None, finish_reason: str | None) -> str | None:
    """What the config's other extraction rule reads; for mc2's own option order there is none."""
    if response is None or cell.config.metric == "mc2":
        return None
    other: Literal["strict", "lenient"] = "lenient" if cell.config.scoring.extraction == "strict" else "strict"
    config = cell.config.model_copy(update={"scoring": ScoringSpec(path="free", extraction=other)})
    return cell.benchmark.score_text(item, config, response, finish_reason)[1]


def _options(sample: LoggedSample, item: Item) -> dict[str, str]:
    """Which option each letter stands for, as the model was shown them."""
    options = sample.choices or item.options
    return {"options": "\n".join(f"{letter(index)}) {option}" for index, option in enumerate(options))}
