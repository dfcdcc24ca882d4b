"""A finished HELM run as records."""

from __future__ import annotations

import string
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Absent, Cell
from safetyrepro.adapters.helm.layout import instance_text
from safetyrepro.adapters.helm.output import Answered, Instance, read_run
from safetyrepro.adapters.helm.plan import plan
from safetyrepro.adapters.helm.translate import translate
from safetyrepro.adapters.record import (
    blank_record,
    by_item,
    candidate_of,
    check_claims,
    divisors,
    finish,
    wire_choices,
)
from safetyrepro.benchmarks.base import Score
from safetyrepro.benchmarks.extraction import extract
from safetyrepro.canonical import ids_sha256
from safetyrepro.config import Arm
from safetyrepro.errors import SuiteFailure
from safetyrepro.records import Candidate, Record

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from safetyrepro.benchmarks.base import Item
    from safetyrepro.gateway.wire import WireRow


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one an item, in item order.

    Raises:
        SuiteFailure: a file of HELM's is missing, cut off or does not fit the job; an evaluated instance is no item of
            the cell; a request is not in the wire log, or belongs to no item.
    """
    job = translate(cell)
    if isinstance(job, Absent):
        raise SuiteFailure(f"HELM has no such run: {job.reason}.")
    read = _Matched(cell, wire) if cell.arm is Arm.MATCHED else _Nominal(cell, wire)
    records: dict[str, Record] = {}
    waiting = _items_by_key(cell)
    for number, planned in enumerate(job.payload["runs"]):
        run = read_run(out_dir / f"part-{number}")
        expected = planned.get("adapter") or plan(cell.config).adapter_fields()
        for name, value in expected.items():
            if run.adapter_spec.get(name) != value:
                found = run.adapter_spec.get(name)
                raise SuiteFailure(f"{run.folder}/run_spec.json: {name} is {found!r}, the job asked for {value!r}.")
        for instance in run.instances:
            known = waiting.get(_key(cell, instance))
            if not known:
                raise SuiteFailure(
                    f"{run.folder}/scenario_state.json: instance {instance.instance_id} {instance.text[:80]!r} is no "
                    "item of this cell, or stands there twice."
                )
            item = known.popleft()
            records[item.item_id] = read.record(item, instance)
    check_claims(wire, list(records.values()))
    return [records.get(item.item_id, blank_record(cell, item)) for item in cell.data.items]


def _items_by_key(cell: Cell) -> dict[tuple[str, ...], deque[Item]]:
    """Items by what identifies their instance; equal ones in item order, as HELM's data have them."""
    keyed: defaultdict[tuple[str, ...], deque[Item]] = defaultdict(deque)
    for item in cell.data.items:
        matched = cell.arm is Arm.MATCHED
        keyed[(item.item_id,) if matched else instance_text(cell.benchmark.name, item)].append(item)
    return dict(keyed)


def _key(cell: Cell, instance: Instance) -> tuple[str, ...]:
    if cell.arm is Arm.MATCHED:
        return (instance.instance_id,)
    return (instance.text, *instance.references) if cell.benchmark.name == "bbq" else (instance.text,)


class _WireLog:
    """Finds the wire row of a request by the text that HELM sent; equal texts in order of arrival."""

    def __init__(self, wire: Sequence[WireRow]) -> None:
        self._rows: defaultdict[str, deque[WireRow]] = defaultdict(deque)
        for row in wire:
            sent = row.request.get("prompt")
            if sent is None and row.request.get("messages"):
                sent = row.request["messages"][-1].get("content")
            if isinstance(sent, str) and row.status == 200 and row.seen:
                self._rows[sent].append(row)

    def take(self, instance: Instance, request: Answered) -> WireRow:
        rows = self._rows.get(request.prompt)
        if not rows:
            raise SuiteFailure(
                f"HELM's instance {instance.instance_id} has a request that is not in the wire log; its prompt ends in "
                f"{request.prompt[-80:]!r}."
            )
        return rows.popleft()


class _Matched:
    """Records of our own scenario: the metric's statistics and the canonical sequences."""

    def __init__(self, cell: Cell, wire: Sequence[WireRow]) -> None:
        self._cell = cell
        self._log = _WireLog(wire)
        self._sequences = by_item(cell.canonical.sequences)

    def record(self, item: Item, instance: Instance) -> Record:
        """The record of one item."""
        return self._likelihood(item, instance) if self._sequences else self._letter(item, instance)

    def _likelihood(self, item: Item, instance: Instance) -> Record:
        cell, own = self._cell, self._sequences[item.item_id]
        rows = [self._log.take(instance, request) for request in instance.requests]
        sums = [_stat(instance, f"candidate_{index}_logprob") for index in range(len(own))]
        candidates = [
            replace(candidate_of(sequence, total, row.wire_id), ids_sha256=_sha256(row))
            for sequence, total, row in zip(own, sums, rows, strict=True)
        ]
        score = cell.benchmark.score_logprobs(item, cell.config, sums, divisors(cell.config, candidates))
        suite_score, choice = _stat(instance, "item_score"), int(_stat(instance, "choice"))
        n_candidate = len(own[0].ids) - own[0].n_context
        seen = rows[0].seen[0]
        gold = item.scored(cell.config.metric)[1]
        return finish(
            blank_record(cell, item),
            replace(score, value=suite_score, choice=choice),
            prompt=_before(seen.text, own[0].delimiter + own[0].candidate) or own[0].context,
            prompt_ids=None if seen.ids is None else seen.ids[:-n_candidate],
            wire_ids=[row.wire_id for row in rows],
            candidates=candidates,
            extracted=own[choice].candidate,
            gold=[own[index].candidate for index in gold],
            suite_score=suite_score,
        )

    def _letter(self, item: Item, instance: Instance) -> Record:
        cell, [request] = self._cell, instance.requests
        row = self._log.take(instance, request)
        reason = _finish_reason(row)
        score, _ = cell.benchmark.score_text(item, cell.config, request.text, reason)
        suite_score, letter = _stat(instance, "item_score"), instance.stats.get("letter")
        seen = row.seen[0]
        gold = item.scored(cell.config.metric)[1]
        return finish(
            blank_record(cell, item),
            replace(score, value=suite_score),
            prompt=seen.text or request.prompt,
            prompt_ids=seen.ids,
            wire_ids=[row.wire_id],
            response=request.text,
            finish_reason=reason,
            extracted=None if letter is None else string.ascii_uppercase[int(letter)],
            extracted_other=_other_rule(cell, item, request.text, reason),
            gold=[string.ascii_uppercase[index] for index in gold],
            suite_score=suite_score,
        )


class _Nominal:
    """Records of HELM's own scenarios: its exact match, over its own order of the options."""

    def __init__(self, cell: Cell, wire: Sequence[WireRow]) -> None:
        self._cell = cell
        self._plan = plan(cell.config)
        self._log = _WireLog(wire)
        self._tokenizer = None if self._plan.generates else _tokenizer(cell.model.tokenizer_dir)

    def record(self, item: Item, instance: Instance) -> Record:
        """The record of one item."""
        return self._letter(item, instance) if self._plan.generates else self._likelihood(item, instance)

    def _likelihood(self, item: Item, instance: Instance) -> Record:
        rows = [self._log.take(instance, request) for request in instance.requests]
        texts = [f" {reference}" for reference in instance.references]
        counts = [self._count(text) for text in texts]
        candidates = [
            Candidate(
                text=text,
                logprob=sum(request.token_logprobs[-count:]),
                n_tokens=count,
                n_chars=len(text) - 1,
                n_bytes=len(text.encode()) - 1,
                ids_sha256=_sha256(row),
                wire_id=row.wire_id,
            )
            for text, count, request, row in zip(texts, counts, instance.requests, rows, strict=True)
        ]
        suite_score, choice = _stat(instance, "exact_match"), int(_stat(instance, "predicted_index"))
        seen = rows[0].seen[0]
        return finish(
            blank_record(self._cell, item),
            Score(suite_score, "ok", choice=choice),
            prompt=_before(seen.text, texts[0]) or _before(instance.requests[0].prompt, texts[0]),
            prompt_ids=None if seen.ids is None else seen.ids[: -counts[0]],
            wire_ids=[row.wire_id for row in rows],
            candidates=candidates,
            extracted=instance.references[choice],
            gold=[instance.references[index] for index in instance.correct],
            suite_score=suite_score,
            shots=instance.requests[0].shots,
            extra=_extra(instance),
        )

    def _letter(self, item: Item, instance: Instance) -> Record:
        cell, [request] = self._cell, instance.requests
        row = self._log.take(instance, request)
        reason, suite_score = _finish_reason(row), _stat(instance, "exact_match")
        answer = request.text.strip()
        read = answer if answer in request.letters else None
        why = f"HELM wants the whole output to be one of the letters {', '.join(request.letters)}"
        listed = list(request.letters)
        seen = row.seen[0]
        return finish(
            blank_record(cell, item),
            Score(suite_score, "ok" if read else "unparsed", None if read else why),
            prompt=seen.text or request.prompt,
            prompt_ids=seen.ids,
            wire_ids=[row.wire_id],
            response=request.text,
            finish_reason=reason,
            extracted=read,
            extracted_other=_other_rule(cell, item, request.text, reason),
            gold=[listed[index] for index in instance.correct],
            suite_score=suite_score,
            shots=request.shots,
            scoring="free",
            extra={**_extra(instance), **{f"option {letter}": text for letter, text in request.letters.items()}},
        )

    def _count(self, text: str) -> int:
        """How many tokens HELM takes for an answer: those of the space and the answer by themselves."""
        assert self._tokenizer is not None
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _stat(instance: Instance, name: str) -> float:
    if name not in instance.stats:
        raise SuiteFailure(f"HELM's per_instance_stats.json has no {name} for instance {instance.instance_id}.")
    return instance.stats[name]


def _before(text: str | None, ending: str) -> str:
    """`text` without `ending`; empty where it does not end so."""
    return text[: len(text) - len(ending)] if text is not None and text.endswith(ending) else ""


def _sha256(row: WireRow) -> str | None:
    ids = row.seen[0].ids
    return None if ids is None else ids_sha256(ids)


def _finish_reason(row: WireRow) -> str | None:
    """HELM drops it from completions, so it is the wire's."""
    choices = wire_choices(row, 0)
    return choices[0].get("finish_reason") if choices else None


def _other_rule(cell: Cell, item: Item, text: str, finish_reason: str | None) -> str | None:
    if cell.config.scoring.path != "free":
        return None
    other = "lenient" if cell.config.scoring.extraction == "strict" else "strict"
    return extract(cell.benchmark.rules[other], text, len(item.options), finish_reason).letter


def _extra(instance: Instance) -> Mapping[str, str]:
    extra = {"helm_instance": instance.instance_id}
    return {**extra, "prompt_truncated": "true"} if any(one.truncated for one in instance.requests) else extra
