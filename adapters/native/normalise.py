"""Reads what the native runner left, joins it with the wire log, and scores it by the benchmark's own rules."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.outcome import generated_record, scored_record
from safetyrepro.adapters.record import blank_record, by_item, candidate_of, check_claims, wire_index
from safetyrepro.errors import SuiteFailure

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.canonical import CandidateSequence, Prompt
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record

Places = dict[tuple[int, ...], deque[str]]
"""Token ids -> wire ids of the requests that sent them and are not claimed yet."""


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one per item, in item order.

    Raises:
        SuiteFailure: results.jsonl is missing, cut off or incomplete, or disagrees with the wire.
    """
    path = out_dir / "results.jsonl"
    results = _results(path)
    places: Places = {ids: deque(wire_id for wire_id, _ in found) for ids, found in wire_index(wire).items()}
    prompts = {prompt.item_id: prompt for prompt in cell.canonical.prompts}
    sequences = by_item(cell.canonical.sequences)
    records = []
    for item in cell.data.items:
        if item.item_id not in results:
            raise SuiteFailure(f"{path}: holds {len(results)} of {len(cell.data.items)} items, not {item.item_id}.")
        prompt, choices = prompts[item.item_id], results[item.item_id]
        if cell.config.scoring.path == "logprob":
            records.append(_scored(cell, item, prompt, sequences[item.item_id], choices, places))
        else:
            records.append(_generated(cell, item, prompt, choices, places))
    check_claims(wire, records)
    return records


def _results(path: Path) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    raise ValueError("its end is cut off")
                row = json.loads(line)
                results[row["item_id"]] = sorted(row["choices"], key=lambda choice: choice["index"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SuiteFailure(f"{path}, line {len(results) + 1}: not the native runner's results ({error}).") from None
    return results


def _claim(places: Places, ids: tuple[int, ...], item: Item) -> str:
    if not places.get(ids):
        raise SuiteFailure(f"native: item {item.item_id} has a prompt of {len(ids)} tokens that is not on the wire.")
    return places[ids].popleft()


def _scored(
    cell: Cell,
    item: Item,
    prompt: Prompt,
    sequences: Sequence[CandidateSequence],
    choices: Sequence[dict[str, Any]],
    places: Places,
) -> Record:
    if len(choices) != len(sequences):
        raise SuiteFailure(f"native: item {item.item_id} has {len(sequences)} candidates and {len(choices)} answers.")
    candidates = []
    for sequence, choice in zip(sequences, choices, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"]
        if len(logprobs) != len(sequence.ids):
            raise SuiteFailure(
                f"native: item {item.item_id}, candidate {sequence.index}: {len(sequence.ids)} tokens were sent, "
                f"{len(logprobs)} came back."
            )
        total = math.fsum(logprobs[sequence.n_context :])
        candidates.append(candidate_of(sequence, total, _claim(places, sequence.ids, item)))
    return scored_record(blank_record(cell, item), cell, item, prompt, sequences, candidates)


def _generated(cell: Cell, item: Item, prompt: Prompt, choices: Sequence[dict[str, Any]], places: Places) -> Record:
    if len(choices) != 1:
        raise SuiteFailure(f"native: item {item.item_id} has one prompt and {len(choices)} answers.")
    text, reason = choices[0]["text"], choices[0]["finish_reason"]
    return generated_record(
        blank_record(cell, item), cell, item, prompt, text, reason, wire_ids=[_claim(places, prompt.ids, item)]
    )
