"""Records of HELM's own scenarios, in the nominal and the shipped arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.helm.plan import GENERATION, plan
from safetyrepro.adapters.helm.wirelog import WireLog, before, finish_reason, ids_digest, other_rule
from safetyrepro.adapters.record import blank_record, finish
from safetyrepro.benchmarks.base import Score
from safetyrepro.records import Candidate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from safetyrepro.adapters.base import Cell
    from safetyrepro.adapters.helm.output import Instance
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record


class Own:
    """Records of HELM's own scenarios: its exact match, over its own order of the options."""

    def __init__(self, cell: Cell, wire: Sequence[WireRow]) -> None:
        self._cell = cell
        self._plan = plan(cell)
        self._axes: dict[str, Any] = {"decoding": "greedy"} if self._plan.as_it_comes else {}
        self._log = WireLog(wire)
        self._tokenizer = None if self._plan.generates else _tokenizer(cell.model.tokenizer_dir)

    def record(self, item: Item, instance: Instance) -> Record:
        """The record of one item."""
        if self._plan.method == GENERATION:
            return self._judged(item, instance)
        return self._letter(item, instance) if self._plan.generates else self._likelihood(item, instance)

    def _judged(self, item: Item, instance: Instance) -> Record:
        """A response with the judge's score, which is already the item's: 1 is right for safe and unsafe prompts."""
        cell, [request] = self._cell, instance.requests
        row = self._log.take(instance, request)
        suite_score = instance.stats.get("safety_score")
        said = request.annotations.get("xstest") or {}
        text = said.get("gpt_reasoning") or said.get("gpt_response_text") or ""
        seen, reason = row.seen[0], finish_reason(row)
        return finish(
            blank_record(cell, item),
            _judgement(suite_score, said),
            prompt=seen.text or request.prompt,
            prompt_ids=seen.ids,
            wire_ids=[row.wire_id],
            response=request.text,
            finish_reason=reason,
            extracted=None if suite_score is None else f"judge: {suite_score:g}",
            extracted_other=other_rule(cell, item, request.text, reason),
            gold=cell.benchmark.readings(item),
            suite_score=suite_score,
            shots=request.shots,
            scoring="free",
            extra={**_extra(instance), "judge": text},
            **self._axes,
        )

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
                ids_sha256=ids_digest(row),
                wire_id=row.wire_id,
            )
            for text, count, request, row in zip(texts, counts, instance.requests, rows, strict=True)
        ]
        suite_score, choice = instance.stat("exact_match"), int(instance.stat("predicted_index"))
        seen = rows[0].seen[0]
        return finish(
            blank_record(self._cell, item),
            Score(suite_score, "ok", choice=choice),
            prompt=before(seen.text, texts[0]) or before(instance.requests[0].prompt, texts[0]),
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
        reason, suite_score = finish_reason(row), instance.stat("exact_match")
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
            extracted_other=other_rule(cell, item, request.text, reason),
            gold=[listed[index] for index in instance.correct],
            suite_score=suite_score,
            shots=request.shots,
            scoring="free",
            **self._axes,
            extra={**_extra(instance), **{f"option {letter}": text for letter, text in request.letters.items()}},
        )

    def _count(self, text: str) -> int:
        """How many tokens HELM takes for an answer: those of the space and the answer by themselves."""
        assert self._tokenizer is not None
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _judgement(score: float | None, said: Mapping[str, Any]) -> Score:
    if refusal := said.get("refusal"):
        return Score(None, "error", f"the judge did not answer: {refusal[:200]}")
    if score is None:
        return Score(
            None, "error", f"the judge's reply holds no score: {(said.get('gpt_response_text') or '')[:200]!r}"
        )
    if not 0.0 <= score <= 1.0:
        return Score(None, "undefined", f"the judge scored {score:g}, which is none of 0, 0.5 and 1")
    return Score(score, "ok")


def _extra(instance: Instance) -> Mapping[str, str]:
    extra = {"helm_instance": instance.instance_id}
    return {**extra, "prompt_truncated": "true"} if any(one.truncated for one in instance.requests) else extra
