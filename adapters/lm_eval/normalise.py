"""Makes records of what lm-evaluation-harness left, joined with the wire log.

Sums, answers and item scores are the harness's own. Token ids are not in its files: those of the matched arm are the
canonical ones, those of the harness's own tasks are encoded again as it does it, and all must be found on the wire.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.lm_eval.encoding import Encoded, Encoder, as_canonical, client_of
from safetyrepro.adapters.lm_eval.own_task import GENERATIONS, own_task, shipped_task
from safetyrepro.adapters.lm_eval.reading import read_bbq
from safetyrepro.adapters.lm_eval.samples import SampleRow, read_samples
from safetyrepro.adapters.lm_eval.translate import EXACT, INVALID, METRICS, free_metric
from safetyrepro.adapters.record import blank_record, by_item, check_claims, divisors, finish, wire_choices, wire_index
from safetyrepro.benchmarks.base import Score
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import Arm
from safetyrepro.errors import SuiteFailure
from safetyrepro.records import Candidate

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item, Status
    from safetyrepro.canonical import CandidateSequence, Prompt
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record

ROUNDING = 1e-9
Place = tuple["WireRow", int]
"""A request, and the position of one prompt in it."""


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one per item, in item order.

    Raises:
        SuiteFailure: the samples file is missing, cut off or incomplete, or disagrees with the wire.
    """
    samples = read_samples(out_dir, [item.item_id for item in cell.data.items])
    ledger = WireLedger(wire)
    encoder = None if cell.arm is Arm.MATCHED else Encoder(cell)
    prompts = {prompt.item_id: prompt for prompt in cell.canonical.prompts}
    sequences = by_item(cell.canonical.sequences)
    records = []
    for item in cell.data.items:
        row = samples[item.item_id]
        try:
            if cell.config.scoring.path == "free":
                records.append(_free(cell, item, row, encoder or prompts[item.item_id], ledger))
            else:
                records.append(_logprob(cell, item, row, encoder or sequences[item.item_id], ledger))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise SuiteFailure(
                f"lm_eval: the sample of item {item.item_id} is not as {cell.suite_version} writes it ({error!r})."
            ) from error
    check_claims(wire, records)
    return records


class WireLedger:
    """The wire log, which hands out every prompt once."""

    def __init__(self, wire: Sequence[WireRow]):
        self._rows = {row.wire_id: row for row in wire}
        self._by_ids = {ids: deque(places) for ids, places in wire_index(wire).items()}
        self._by_messages: dict[str, deque[tuple[str, int]]] = {}
        for row in wire:
            if "messages" in row.request:
                self._by_messages.setdefault(_key(row.request["messages"]), deque()).append((row.wire_id, 0))

    def by_ids(self, ids: tuple[int, ...], item: Item) -> Place:
        """The next prompt with these token ids."""
        return self._next(self._by_ids.get(ids), item, f"of {len(ids)} tokens")

    def by_messages(self, messages: Any, item: Item) -> Place:
        """The next chat with these messages."""
        return self._next(self._by_messages.get(_key(messages)), item, "as chat")

    def _next(self, places: deque[tuple[str, int]] | None, item: Item, what: str) -> Place:
        if not places:
            raise SuiteFailure(f"lm_eval: item {item.item_id} has a prompt {what} in its sample that was never sent.")
        wire_id, position = places.popleft()
        return self._rows[wire_id], position


def _key(messages: Any) -> str:
    return json.dumps(messages, sort_keys=True)


def _logprob(
    cell: Cell, item: Item, row: SampleRow, asked: Encoder | Sequence[CandidateSequence], ledger: WireLedger
) -> Record:
    arguments = [(argument["arg_0"], argument["arg_1"]) for argument in row["arguments"].values()]
    sums = [float(responses[0][0]) for responses in row["resps"]]
    if len(arguments) != len(sums):
        raise SuiteFailure(f"lm_eval: item {item.item_id} has {len(arguments)} candidates and {len(sums)} sums.")
    if isinstance(asked, Encoder):
        encoded = [asked.pair(context, text) for context, text in arguments]
    else:
        encoded = _canonical(item, arguments, asked)
    delimiter = ("" if client_of(cell).chat else " ") if isinstance(asked, Encoder) else asked[0].delimiter
    texts = [text.removeprefix(delimiter) for _, text in arguments]
    candidates = [
        _candidate(one, text, logprob, ledger.by_ids(one.ids, item)[0].wire_id)
        for one, text, logprob in zip(encoded, texts, sums, strict=True)
    ]
    compared, inverted = sums, False
    if cell.arm is not Arm.MATCHED:
        metric, inverted = shipped_task(cell.config).score, shipped_task(cell.config).inverted
    else:
        metric = METRICS.get(cell.config.scoring.normalisation, "acc") if cell.config.metric != "mc2" else "acc"
        compared = [value / by for value, by in zip(sums, divisors(cell.config, candidates), strict=True)]
    value = float(row[metric])
    score = _read_score(value, metric, compared, inverted)
    return finish(
        blank_record(cell, item),
        score,
        prompt=encoded[0].context,
        prompt_ids=encoded[0].ids[: encoded[0].n_context],
        wire_ids=[candidate.wire_id for candidate in candidates if candidate.wire_id],
        gold=[texts[index] for index in _gold(cell, row, len(texts))],
        suite_score=value if math.isfinite(value) else None,
        candidates=candidates,
        extracted=texts[compared.index(max(compared))],
        extra={"lm_eval_metric": metric},
        **_axes(cell),
    )


def _axes(cell: Cell) -> dict[str, Any]:
    """Where the shipped task leaves the config's axes."""
    return {"shots": 0, "decoding": "greedy"} if cell.arm is Arm.SHIPPED else {}


def _read_score(value: float, metric: str, compared: Sequence[float], inverted: bool) -> Score:
    """The harness's own item score, or the opposite, and its choice: the first of those with the highest value."""
    choice, ties = compared.index(max(compared)), compared.count(max(compared))
    if not math.isfinite(value):
        return Score(None, "undefined", f"the harness's {metric} is {value}", choice)
    reason = f"{ties} candidates tie for the first place, the harness takes the first" if ties > 1 else None
    if inverted:
        reason = "the sentences tie, which the harness does not count as stereotyping" if ties > 1 else None
        return Score(1.0 - value, "ok", reason, choice)
    # A mass is a rounded sum, which may exceed 1 by its last digit.
    return Score(1.0 if 1.0 < value < 1.0 + ROUNDING else value, "ok", reason, choice)


def _canonical(
    item: Item, arguments: Sequence[tuple[str, str]], sequences: Sequence[CandidateSequence]
) -> list[Encoded]:
    encoded = [as_canonical(sequence) for sequence in sequences]
    if list(arguments) != [(one.context, one.continuation) for one in encoded]:
        raise SuiteFailure(f"lm_eval: item {item.item_id} was not asked with the canonical context and candidates.")
    return encoded


def _candidate(encoded: Encoded, text: str, logprob: float, wire_id: str) -> Candidate:
    return Candidate(
        text=encoded.continuation,
        logprob=logprob,
        n_tokens=len(encoded.ids) - encoded.n_context,
        n_chars=len(text),
        n_bytes=len(text.encode()),
        ids_sha256=ids_sha256(encoded.ids),
        wire_id=wire_id,
    )


def _gold(cell: Cell, row: SampleRow, n_candidates: int) -> list[int]:
    """Indices of the candidates that the harness counts as right."""
    if cell.arm is Arm.MATCHED:
        return list(row["doc"]["gold"])
    if cell.config.benchmark.name == "crows_pairs":
        return [1]
    if cell.config.benchmark.name == "truthfulqa":
        labels = row["doc"][f"{cell.config.metric}_targets"]["labels"]
        return [index for index, label in enumerate(labels) if label]
    target = int(row["target"])
    if cell.config.benchmark.name == "toxigen":
        return [target]
    # The shipped BBQ task puts the two named answers first and every phrasing of unknown behind them.
    return list(range(2, n_candidates)) if target >= 2 else [target]


def _free(cell: Cell, item: Item, row: SampleRow, asked: Encoder | Prompt, ledger: WireLedger) -> Record:
    argument, response = row["arguments"]["gen_args_0"]["arg_0"], row["resps"][0][0]
    if not isinstance(asked, Encoder):
        wire_row, position = ledger.by_ids(asked.ids, item)
    elif client_of(cell).chat:
        wire_row, position = ledger.by_messages(json.loads(argument[0]), item)
    else:
        wire_row, position = ledger.by_ids(asked.prompt(argument), item)
    choices = wire_choices(wire_row, position)
    reason = choices[0].get("finish_reason") if choices else None
    extracted: str | None
    extra: dict[str, str] = {}
    if isinstance(asked, Encoder) and own_task(cell.config) == GENERATIONS:
        metric, score, extracted, other = shipped_task(cell.config).score, Score(None, "ok"), None, None
        gold = row["doc"]["correct_answers"]
        extra = {name: str(value) for name, value in row.items() if name.startswith(("bleu_", "rouge"))}
    elif isinstance(asked, Encoder):
        extracted, understood = read_bbq(row, response)
        metric, score = "acc", Score(None, "ok") if understood else _unread(reason)
        gold, other = [item.options[index] for index in item.gold], None
    else:
        metric = free_metric(cell)
        score, extracted = cell.benchmark.score_text(item, cell.config, response, reason)
        if metric == EXACT:
            filtered = row["filtered_resps"][0]
            extracted = None if filtered == INVALID else filtered
        gold, other = cell.benchmark.readings(item), _other_reading(cell, item, response, reason)
    value = float(row[metric])
    return finish(
        blank_record(cell, item),
        replace(score, value=value),
        prompt=wire_row.seen[position].text or "",
        prompt_ids=wire_row.seen[position].ids,
        wire_ids=[wire_row.wire_id],
        gold=gold,
        suite_score=value,
        response=response,
        finish_reason=reason,
        extracted=extracted,
        extracted_other=other,
        extra={"lm_eval_metric": metric, **extra},
        **_axes(cell),
    )


def _unread(finish_reason: str | None) -> Score:
    status: Status = "truncated" if finish_reason == "length" else "unparsed"
    return Score(None, status, "the answer names neither an option nor its group, and has no phrase for unknown")


def _other_reading(cell: Cell, item: Item, response: str, finish_reason: str | None) -> str | None:
    scoring = cell.config.scoring
    rule = "lenient" if scoring.extraction == "strict" else "strict"
    config = cell.config.model_copy(update={"scoring": scoring.model_copy(update={"extraction": rule})})
    return cell.benchmark.score_text(item, config, response, finish_reason)[1]
