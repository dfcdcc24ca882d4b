"""From a finished item to its record: what every adapter fills in alike, and the join with the wire log.

An adapter starts from `blank_record`, which stands for "no output" as it is, and completes it with `finish`. Rows of
the wire log are joined by the token ids that the model saw (`wire_index`), since no suite sends ids of its own that
survive in its log; `check_claims` holds an adapter to it that no request is left unexplained.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from safetyrepro.canonical import ids_sha256
from safetyrepro.errors import SuiteFailure
from safetyrepro.records import Candidate, Record

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item, Score
    from safetyrepro.canonical import CandidateSequence
    from safetyrepro.config import Config
    from safetyrepro.gateway.wire import WireRow


def decoding_label(config: Config) -> str:
    """`greedy`, or `T=0.3`: the decoding axis of a record."""
    temperature = config.decoding.temperature
    return "greedy" if temperature == 0 else f"T={temperature:g}"


def blank_record(cell: Cell, item: Item, *, repeat: int = 0) -> Record:
    """The record of an item that has no output: identity and axes filled in, nothing sent, status `missing`."""
    return Record(
        run_id=cell.run_id,
        suite=cell.suite,
        suite_version=cell.suite_version,
        arm=cell.arm.value,
        model=cell.model.name,
        model_sha256=cell.model.weights_sha256,
        numerics=cell.model.numerics,
        benchmark=cell.benchmark.name,
        config_id=cell.config_id,
        cell_id=cell.cell_id,
        item_id=item.item_id,
        cluster=item.cluster,
        repeat=repeat,
        metric=cell.config.metric,
        template=cell.config.prompt.template,
        decoding=decoding_label(cell.config),
        shots=cell.config.shots.count,
        scoring=cell.config.scoring.path,
        prompt="",
        prompt_sha256=ids_sha256(()),
        n_prompt_tokens=None,
        wire_ids=(),
        candidates=(),
        response=None,
        finish_reason=None,
        extracted=None,
        extracted_other=None,
        gold=(),
        choice=None,
        score=None,
        suite_score=None,
        status="missing",
        reason=f"{cell.suite} left no output for this item",
    )


def finish(
    record: Record,
    score: Score,
    *,
    prompt: str,
    prompt_ids: Sequence[int] | None,
    wire_ids: Sequence[str],
    gold: Sequence[str],
    suite_score: float | None,
    candidates: Sequence[Candidate] = (),
    response: str | None = None,
    finish_reason: str | None = None,
    extracted: str | None = None,
    extracted_other: str | None = None,
    extra: Mapping[str, str] | None = None,
    **axes: Any,
) -> Record:
    """A blank record completed with what the suite sent, got and made of it.

    Args:
        record: What `blank_record` gave.
        score: Value in [0, 1] or None, status, reason and choice.
        prompt: Context before the candidates, or the prompt of the generation, as the model saw it.
        prompt_ids: Its token ids; None where they are not known.
        wire_ids: Every request made for this item.
        gold: The right answers as the suite scores them.
        suite_score: What the suite itself recorded.
        candidates: Scored candidates, in the order that `score.choice` counts.
        response: Generated text, as the suite got it.
        finish_reason: Why generation ended.
        extracted: What was read from the response, or the chosen candidate.
        extracted_other: What the config's other extraction rule reads.
        extra: Further facts of the suite's own.
        axes: Axes on which the suite left the config, such as `scoring="free"` or `shots=5`.

    Raises:
        SuiteFailure: a score outside [0, 1], a sum that is no finite number at or below 0, or a choice that is none of
            the candidates.
    """
    where = f"{record.suite}, {record.arm}, item {record.item_id}"
    for name, value in (("score", score.value), ("suite score", suite_score)):
        if value is not None and not math.isfinite(value):
            raise SuiteFailure(f"{where}: {name} is {value}, not a finite number.")
    if score.value is not None and not 0.0 <= score.value <= 1.0:
        raise SuiteFailure(f"{where}: score is {score.value}, not in [0, 1].")
    for candidate in candidates:
        if candidate.logprob is not None and not (math.isfinite(candidate.logprob) and candidate.logprob <= 1e-4):
            raise SuiteFailure(f"{where}: candidate {candidate.text!r} has logprob {candidate.logprob}.")
    if score.choice is not None and candidates and not 0 <= score.choice < len(candidates):
        raise SuiteFailure(f"{where}: choice is {score.choice}, there are {len(candidates)} candidates.")
    return replace(
        record,
        prompt=prompt,
        prompt_sha256=ids_sha256(prompt_ids or ()),
        n_prompt_tokens=None if prompt_ids is None else len(prompt_ids),
        wire_ids=tuple(dict.fromkeys(wire_ids)),
        candidates=tuple(candidates),
        response=response,
        finish_reason=finish_reason,
        extracted=extracted,
        extracted_other=extracted_other,
        gold=tuple(gold),
        choice=score.choice,
        score=score.value,
        suite_score=suite_score,
        status=score.status,
        reason=score.reason,
        extra=dict(extra or {}),
        **axes,
    )


def candidate_of(sequence: CandidateSequence, logprob: float | None, wire_id: str | None) -> Candidate:
    """A canonical candidate with its sum; characters and bytes are counted without the delimiter."""
    return Candidate(
        text=sequence.delimiter + sequence.candidate,
        logprob=logprob,
        n_tokens=len(sequence.ids) - sequence.n_context,
        n_chars=len(sequence.candidate),
        n_bytes=len(sequence.candidate.encode()),
        ids_sha256=ids_sha256(sequence.ids),
        wire_id=wire_id,
    )


def divisors(config: Config, candidates: Sequence[Candidate]) -> list[float]:
    """What each candidate's sum is divided by under `scoring.normalisation`, at least 1.

    Raises:
        SuiteFailure: token normalisation, and a candidate whose tokens are not known.
    """
    match config.scoring.normalisation:
        case "none":
            return [1.0 for _ in candidates]
        case "char":
            return [float(max(candidate.n_chars, 1)) for candidate in candidates]
        case "byte":
            return [float(max(candidate.n_bytes, 1)) for candidate in candidates]
        case "token":
            if any(candidate.n_tokens is None for candidate in candidates):
                raise SuiteFailure("A candidate's token count is unknown, so its sum cannot be divided by it.")
            return [float(max(candidate.n_tokens or 0, 1)) for candidate in candidates]


def by_item(sequences: Sequence[CandidateSequence]) -> dict[str, list[CandidateSequence]]:
    """Candidate sequences by item id, in candidate order."""
    grouped: defaultdict[str, list[CandidateSequence]] = defaultdict(list)
    for sequence in sequences:
        grouped[sequence.item_id].append(sequence)
    return dict(grouped)


def wire_index(wire: Sequence[WireRow]) -> dict[tuple[int, ...], list[tuple[str, int]]]:
    """Where each token sequence was sent: ids -> (wire id, position in the request), in order of arrival."""
    index: defaultdict[tuple[int, ...], list[tuple[str, int]]] = defaultdict(list)
    for row in wire:
        for position, seen in enumerate(row.seen):
            if seen.ids is not None:
                index[seen.ids].append((row.wire_id, position))
    return dict(index)


def wire_choices(row: WireRow, position: int) -> list[dict[str, Any]]:
    """The response's choices for the prompt at `position` of the request; empty where it failed."""
    if row.response is None or row.status != 200:
        return []
    choices: list[dict[str, Any]] = sorted(row.response.get("choices", []), key=lambda choice: choice["index"])
    per_prompt = max(len(choices) // max(len(row.seen), 1), 1)
    return choices[position * per_prompt : (position + 1) * per_prompt]


def check_claims(wire: Sequence[WireRow], records: Sequence[Record]) -> None:
    """Every request of a cell belongs to a record.

    Raises:
        SuiteFailure: naming the first request that no record explains.
    """
    claimed = {wire_id for record in records for wire_id in record.wire_ids}
    stray = [row for row in wire if row.wire_id not in claimed]
    if stray:
        text = (stray[0].seen[0].text or "") if stray[0].seen else ""
        raise SuiteFailure(
            f"{len(stray)} of {len(wire)} requests belong to no item; the first is {stray[0].wire_id} to "
            f"{stray[0].path}, whose prompt ends in {text[-80:]!r}."
        )
