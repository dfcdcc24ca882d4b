"""Records of the matched arm: the metric's statistics and the canonical sequences."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safetyrepro.adapters.helm.wirelog import WireLog, before, finish_reason, ids_digest, other_rule
from safetyrepro.adapters.record import blank_record, by_item, candidate_of, divisors, finish
from safetyrepro.benchmarks.base import ClassRule

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.adapters.helm.output import Instance
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record


class Matched:
    """Records of our own scenario: the metric's statistics and the canonical sequences."""

    def __init__(self, cell: Cell, wire: Sequence[WireRow]) -> None:
        self._cell = cell
        self._log = WireLog(wire)
        self._sequences = by_item(cell.canonical.sequences)

    def record(self, item: Item, instance: Instance) -> Record:
        """The record of one item."""
        return self._likelihood(item, instance) if self._sequences else self._generated(item, instance)

    def _likelihood(self, item: Item, instance: Instance) -> Record:
        cell, own = self._cell, self._sequences[item.item_id]
        rows = [self._log.take(instance, request) for request in instance.requests]
        sums = [instance.stat(f"candidate_{index}_logprob") for index in range(len(own))]
        candidates = [
            replace(candidate_of(sequence, total, row.wire_id), ids_sha256=ids_digest(row))
            for sequence, total, row in zip(own, sums, rows, strict=True)
        ]
        score = cell.benchmark.score_logprobs(item, cell.config, sums, divisors(cell.config, candidates))
        suite_score, choice = instance.stat("item_score"), int(instance.stat("choice"))
        n_candidate = len(own[0].ids) - own[0].n_context
        seen = rows[0].seen[0]
        gold = item.scored(cell.config.metric)[1]
        return finish(
            blank_record(cell, item),
            replace(score, value=suite_score, choice=choice),
            prompt=before(seen.text, own[0].delimiter + own[0].candidate) or own[0].context,
            prompt_ids=None if seen.ids is None else seen.ids[:-n_candidate],
            wire_ids=[row.wire_id for row in rows],
            candidates=candidates,
            extracted=own[choice].candidate,
            gold=[own[index].candidate for index in gold],
            suite_score=suite_score,
        )

    def _generated(self, item: Item, instance: Instance) -> Record:
        cell, [request] = self._cell, instance.requests
        row = self._log.take(instance, request)
        reason = finish_reason(row)
        score, _ = cell.benchmark.score_text(item, cell.config, request.text, reason)
        suite_score = instance.stat("item_score")
        seen = row.seen[0]
        return finish(
            blank_record(cell, item),
            replace(score, value=suite_score),
            prompt=seen.text or request.prompt,
            prompt_ids=seen.ids,
            wire_ids=[row.wire_id],
            response=request.text,
            finish_reason=reason,
            extracted=self._read(instance),
            extracted_other=other_rule(cell, item, request.text, reason),
            gold=cell.benchmark.readings(item),
            suite_score=suite_score,
        )

    def _read(self, instance: Instance) -> str | None:
        """What the metric read: the letter, or the class."""
        rule = self._cell.benchmark.rules[self._cell.config.scoring.extraction]
        if isinstance(rule, ClassRule):
            found = instance.stats.get("class")
            return None if found is None else rule.classes[int(found)].label
        letter = instance.stats.get("letter")
        return None if letter is None else string.ascii_uppercase[int(letter)]
