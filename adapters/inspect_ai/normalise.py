"""Records from Inspect AI's log.

Inspect's mean leaves out items that failed; here each of them is a record, and says so.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from safetyrepro.adapters.base import Job
from safetyrepro.adapters.inspect_ai.judged import judgement
from safetyrepro.adapters.inspect_ai.log import Call, Log, LoggedSample, asked, read_logs
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
from safetyrepro.config import JUDGED, UNLETTERED, Arm, ScoringSpec
from safetyrepro.errors import SuiteFailure

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item, Status
    from safetyrepro.canonical import CandidateSequence
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record


class Rows:
    """The wire log, joined with Inspect's calls.

    By the id that Inspect sends as a header and keeps in its log; where a release sends none, by the id of the
    response; where there was none either, by what was asked.
    """

    def __init__(self, wire: Sequence[WireRow]) -> None:
        self._by_header = {row.headers["x-irid"]: row for row in wire if "x-irid" in row.headers}
        unnamed = [row for row in wire if "x-irid" not in row.headers]
        self._by_answer = {row.response["id"]: row for row in unnamed if row.response and "id" in row.response}
        self._unanswered: defaultdict[str, deque[WireRow]] = defaultdict(deque)
        for row in unnamed:
            if not row.response or "id" not in row.response:
                self._unanswered[asked(row.request)].append(row)
        self._found: dict[int, WireRow | None] = {}

    def of(self, call: Call | None) -> WireRow | None:
        """The row of a call; None where the request never arrived."""
        if call is None:
            return None
        if id(call) not in self._found:
            self._found[id(call)] = self._look_up(call)
        return self._found[id(call)]

    def _look_up(self, call: Call) -> WireRow | None:
        if call.key is not None:
            return self._by_header.get(call.key)
        if call.answer_id is not None:
            return self._by_answer.get(call.answer_id)
        waiting = self._unanswered[call.asked]
        return waiting.popleft() if waiting else None


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one per item, in item order; an item without output is `missing`.

    Raises:
        SuiteFailure: the log is missing, cut short or inconsistent; the message names the file.
    """
    logs = read_logs(out_dir, cell.suite_version)
    samples: dict[str, LoggedSample] = {}
    for path, log in logs.items():
        samples |= {sample.id: sample for sample in log.samples or []}
        strays = samples.keys() - {item.item_id for item in cell.data.items}
        if strays:
            raise SuiteFailure(f"{path}: holds samples of other items, such as {min(strays)!r}.")
        _check_options(cell, log, path)
        _check_denominator(log, path)
    rows = Rows(wire)
    left_out = _left_out(logs.values(), len(cell.data.items))
    sequences = by_item(cell.canonical.sequences)
    records = []
    for item in cell.data.items:
        sample = samples.get(item.item_id)
        if sample is None:
            records.append(blank_record(cell, item))
        elif cell.arm is Arm.MATCHED and cell.config.scoring.path == "logprob":
            records.append(_scored_by_likelihood(cell, item, sample, sequences[item.item_id], rows, left_out))
        elif cell.arm is not Arm.MATCHED and cell.benchmark.name in JUDGED:
            records.append(_judged(cell, item, sample, rows, left_out))
        else:
            records.append(_generated(cell, item, sample, rows, left_out))
    check_claims(wire, records)
    return records


def _check_options(cell: Cell, log: Log, path: Path) -> None:
    """The options in force are those of the job: no file or variable of the machine has changed them."""
    job = translate(cell)
    options: dict[str, Any] = job.payload["generate"] if isinstance(job, Job) else {}
    for name, value in options.items():
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


def _left_out(logs: Iterable[Log], items: int) -> str:
    scored = sum(log.results.scores[0].scored_samples for log in logs if log.results and log.results.scores)
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
    return [row.wire_id for row in map(rows.of, calls) if row is not None]


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
        row = rows.of(call)
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


@dataclass(frozen=True)
class _Written:
    """What the model was sent and wrote."""

    response: str | None
    finish_reason: str | None
    sent: dict[str, Any]
    """The record's fields about it."""


def _written(sample: LoggedSample, rows: Rows) -> _Written:
    call = sample.calls[-1] if sample.calls else None
    choice = (call.choice if call else None) or {}
    response: str | None = choice["text"] if "text" in choice else choice.get("message", {}).get("content")
    finish_reason: str | None = choice.get("finish_reason")
    row = rows.of(call)
    seen = row.seen[0] if row is not None and row.seen else None
    sent: dict[str, Any] = {
        "prompt": str(call.request.get("prompt", "")) if call else "",
        "prompt_ids": None,
        "wire_ids": _sent(sample.calls, rows),
        "response": response,
        "finish_reason": finish_reason,
    }
    if seen is not None:
        sent |= {"prompt_ids": seen.ids, "prompt": sent["prompt"] if seen.text is None else seen.text}
    return _Written(response, finish_reason, sent)


def _generated(cell: Cell, item: Item, sample: LoggedSample, rows: Rows, left_out: str) -> Record:
    written = _written(sample, rows)
    response, finish_reason = written.response, written.finish_reason
    axes: dict[str, Any] = {}
    if cell.arm is not Arm.MATCHED:
        axes = {"scoring": "free", "shots": 0}
    if cell.arm is Arm.SHIPPED:
        axes["decoding"] = "server's default"
    return finish(
        blank_record(cell, item),
        _failure(sample, left_out) or _outcome(cell, item, sample, response, finish_reason),
        **written.sent,
        gold=sample.gold,
        suite_score=None if sample.score is None else sample.score.number,
        extracted=(sample.score.answer or None) if sample.score else None,
        extracted_other=_other_reading(cell, item, response, finish_reason),
        extra={} if cell.benchmark.name in UNLETTERED else _options(sample, item),
        **axes,
    )


def _judged(cell: Cell, item: Item, sample: LoggedSample, rows: Rows, left_out: str) -> Record:
    written, score = _written(sample, rows), sample.score
    verdict, read = (None, None) if score is None else judgement(cell.benchmark, item, score)
    if (refusal := sample.judge_refusal) is not None:  # Inspect may have taken its words for the judge's reply
        verdict, read = Score(None, "error", f"the judge did not answer: {refusal[:200]}"), None
    elif sample.error is not None or verdict is None or verdict.value is not None:
        verdict = _failure(sample, left_out) or verdict
    assert verdict is not None
    axes: dict[str, Any] = {"scoring": "free", "shots": 0}
    if cell.arm is Arm.SHIPPED:
        axes["decoding"] = "greedy"
    return finish(
        blank_record(cell, item),
        verdict,
        **written.sent,
        gold=cell.benchmark.readings(item),
        suite_score=None if score is None else score.number,
        extracted=read,
        extracted_other=_other_reading(cell, item, written.response, written.finish_reason),
        extra={"judge": (score.explanation if score else None) or ""},
        **axes,
    )


def _outcome(cell: Cell, item: Item, sample: LoggedSample, response: str | None, finish_reason: str | None) -> Score:
    """Inspect's score, with the status that its answer gives."""
    assert sample.score is not None
    value, answer = sample.score.number, sample.score.answer
    if answer and cell.arm is Arm.MATCHED:
        read, _ = cell.benchmark.score_text(item, cell.config, response or "", finish_reason)
        return Score(value, "ok", None, read.choice)
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
