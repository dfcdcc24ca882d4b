"""Whether the runners of an arm put the same tokens before the model and got the same numbers back."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetyrepro.canonical import ids_sha256
from safetyrepro.crosspkg.facts import CellOutcome
from safetyrepro.gateway.wire import Seen, read_wire
from safetyrepro.records import Record

EXAMPLES = 3
"""How many sequences that differ are shown with their tokens."""

Key = tuple[str, int, str]
"""Item, repeat, and the candidate's text without outer space, or `PROMPT` for the prompt of a generation."""
PROMPT = "\0prompt"


@dataclass(frozen=True)
class Sent:
    """One sequence as one runner sent it."""

    ids_sha256: str | None
    logprob: float | None
    wire_ids: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """A sequence whose token ids are not the same in all runners."""

    item_id: str
    candidate: str | None
    """None where it is the prompt of a generation."""
    runners: Mapping[str, Seen]
    """What each runner's request held; ids and text are None where the wire log does not tell."""


@dataclass(frozen=True)
class PairWire:
    """Two runners of an arm."""

    a: str
    b: str
    sequences: int
    """Sequences that both sent."""
    identical_ids: int
    max_logprob_difference: float | None
    """In nats, over the sequences that both scored."""


@dataclass(frozen=True)
class WireTable:
    """What all runners of an arm sent, compared."""

    runners: tuple[str, ...]
    sent: Mapping[str, int]
    """Sequences each runner sent."""
    sequences: int
    """(item, candidate or prompt) that all of them sent."""
    identical_ids: int
    """Those whose token ids are the same in all."""
    on_wire: int
    """Those that every runner's wire log holds with the token ids that its record names."""
    max_logprob_difference: float | None
    """Largest difference of a summed logprob between any two runners, in nats; None where nothing was scored."""
    scored: int
    """Sequences with a summed logprob from all runners."""
    items: int
    """Items that all runners answered."""
    same_choices: int
    """Those whose choice (or extracted answer) is the same in all."""
    pairs: tuple[PairWire, ...] = ()
    examples: tuple[Example, ...] = field(default=())


def sent_by(records: Sequence[Record]) -> dict[Key, Sent]:
    """The sequences of one runner: its candidates, or its prompts where it generated."""
    found: dict[Key, Sent] = {}
    for record in records:
        if not record.candidates:
            if record.status not in ("missing", "error"):
                found[record.item_id, record.repeat, PROMPT] = Sent(record.prompt_sha256 or None, None, record.wire_ids)
            continue
        occurrence: Counter[str] = Counter()
        for candidate in record.candidates:
            text = candidate.text.strip()
            occurrence[text] += 1
            if candidate.ids_sha256 is None:
                continue
            key = text if occurrence[text] == 1 else f"{text}\0{occurrence[text]}"
            wire_ids = record.wire_ids if candidate.wire_id is None else (candidate.wire_id,)
            found[record.item_id, record.repeat, key] = Sent(candidate.ids_sha256, candidate.logprob, wire_ids)
    return found


def answer(record: Record) -> str | None:
    """What a record chose: the candidate's text, or the extracted answer."""
    if record.choice is not None and 0 <= record.choice < len(record.candidates):
        return record.candidates[record.choice].text.strip()
    return record.extracted


def seen_by(paths: Iterable[Path]) -> dict[str, tuple[Seen, ...]]:
    """What the model saw, by wire id, from a cell's wire logs."""
    return {row.wire_id: row.seen for path in paths for row in read_wire(path)}


def _on_wire(sent: Sent, seen: Mapping[str, tuple[Seen, ...]]) -> Seen | None:
    for wire_id in sent.wire_ids:
        for prompt in seen.get(wire_id, ()):
            if prompt.ids is not None and ids_sha256(prompt.ids) == sent.ids_sha256:
                return prompt
    return None


def compare_wire(cells: Mapping[str, CellOutcome]) -> WireTable:
    """Compare what the runners of one arm sent for one model and config.

    A sequence is named by its item and the candidate's text without outer space, so that a suite's order of options
    does not matter; a generation is named by its item alone.

    Args:
        cells: the finished cells by suite.

    Raises:
        InputError: a wire log cannot be read.
    """
    runners = tuple(cells)
    sent = {suite: sent_by(cell.records) for suite, cell in cells.items()}
    seen = {suite: seen_by(cell.wires) for suite, cell in cells.items()}
    common = [key for key in sent[runners[0]] if all(key in sent[suite] for suite in runners)] if runners else []
    identical = on_wire = scored = 0
    largest: float | None = None
    examples: list[Example] = []
    for key in common:
        each = {suite: sent[suite][key] for suite in runners}
        prompts = {suite: _on_wire(each[suite], seen[suite]) for suite in runners}
        on_wire += all(prompt is not None for prompt in prompts.values())
        if _same_ids(list(each.values())):
            identical += 1
        elif len(examples) < EXAMPLES:
            text = None if key[2] == PROMPT else key[2].partition("\0")[0]
            examples.append(Example(key[0], text, {s: prompts[s] or Seen(None, None) for s in runners}))
        sums = [one.logprob for one in each.values() if one.logprob is not None]
        if len(sums) == len(runners):
            scored += 1
            largest = max(largest or 0.0, max(sums) - min(sums))
    answers = {suite: _answers(cell.records) for suite, cell in cells.items()}
    shared = [key for key in answers[runners[0]] if all(key in answers[s] for s in runners)] if runners else []
    pairs = tuple(_pair(a, b, sent[a], sent[b]) for a, b in itertools.combinations(runners, 2))
    return WireTable(
        runners=runners,
        sent={suite: len(keys) for suite, keys in sent.items()},
        sequences=len(common),
        identical_ids=identical,
        on_wire=on_wire,
        max_logprob_difference=largest,
        scored=scored,
        items=len(shared),
        same_choices=sum(len({answers[suite][key] for suite in runners}) == 1 for key in shared),
        pairs=pairs,
        examples=tuple(examples),
    )


def _same_ids(sent: Sequence[Sent]) -> bool:
    return len({one.ids_sha256 for one in sent}) == 1 and sent[0].ids_sha256 is not None


def _answers(records: Sequence[Record]) -> dict[tuple[str, int], str | None]:
    return {
        (record.item_id, record.repeat): answer(record)
        for record in records
        if record.status not in ("missing", "error")
    }


def _pair(a: str, b: str, sent_a: Mapping[Key, Sent], sent_b: Mapping[Key, Sent]) -> PairWire:
    common = [key for key in sent_a if key in sent_b]
    sums = [(sent_a[key].logprob, sent_b[key].logprob) for key in common]
    differences = [abs(x - y) for x, y in sums if x is not None and y is not None]
    identical = sum(_same_ids([sent_a[key], sent_b[key]]) for key in common)
    return PairWire(a, b, len(common), identical, max(differences, default=None))
