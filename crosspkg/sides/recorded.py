"""A cell of an experiment, or any folder of records, as one side of a comparison."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.canonical import ids_sha256
from safetyrepro.crosspkg.cell_folder import read_cell, repeats_done
from safetyrepro.crosspkg.outcomes import record_score
from safetyrepro.crosspkg.sides.exchange import Exchange, ScoredText, Side
from safetyrepro.crosspkg.sides.responses import Answer, answers, usage_prompt_tokens
from safetyrepro.crosspkg.sides.wireset import NOT_SETTINGS
from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import Seen, WireRow, read_wire
from safetyrepro.records import Record, read_records


@dataclass(frozen=True)
class _Place:
    """One prompt of one request."""

    row: WireRow
    seen: Seen
    index: int

    @property
    def answer(self) -> Answer:
        """What came back for it."""
        given = answers(self.row.response)
        return given[self.index] if self.index < len(given) else Answer()


def read_recorded(folder: Path) -> Side:
    """Read a folder that holds `*.parquet` records, and `wire.jsonl` where there is one; a cell with its repeats.

    Raises:
        InputError: the records are of several cells, the cell is not done, or a file cannot be read.
    """
    facts = read_cell(folder)
    if facts is not None and facts.state != "done":
        raise InputError(f"{folder / 'cell.json'}: state is {facts.state!r}; name a cell that is 'done'.")
    folders = [folder, *(() if facts is None else repeats_done(folder, facts))]
    records = [record for one in folders for file in sorted(one.glob("*.parquet")) for record in read_records(file)]
    wires = [wire for one in folders if (wire := one / "wire.jsonl").is_file()]
    name = " ".join(part for part in (records[0].suite, records[0].arm) if part) if records else folder.name
    return side_of(name, records, itertools.chain.from_iterable(map(read_wire, wires)), where=str(folder))


def side_of(name: str, records: Sequence[Record], wire: Iterable[WireRow], *, where: str) -> Side:
    """Records of one cell with the requests behind them.

    Args:
        name: what the side is called.
        records: of one suite, arm, model and config.
        wire: the cell's wire log; empty where there is none.
        where: where the records come from, for a message.

    Raises:
        InputError: no records, or records of several cells.
    """
    if not records:
        raise InputError(f"{where}: holds no records.")
    configs: dict[str, set[str]] = {}
    for record in records:
        configs.setdefault(record.benchmark, set()).add(record.config_id)
    # The tasks of one log are one side, each with a config of its own.
    tasks = all(len(of_benchmark) == 1 for of_benchmark in configs.values())
    cells = sorted({(r.suite, r.arm or "", r.model or "", "" if tasks else r.config_id[:12]) for r in records})
    if len(cells) > 1:
        first, second = (" ".join(part for part in cell if part) for cell in cells[:2])
        raise InputError(f"{where}: holds records of {len(cells)} cells ({first}; {second}); name a folder of one.")
    places = {row.wire_id: _places(row) for row in wire}
    several = len({record.benchmark for record in records}) > 1
    exchanges, clusters = {}, {}
    for record in records:
        item_id = f"{record.benchmark}/{record.item_id}" if several else record.item_id
        exchanges[item_id, record.repeat] = _exchange(item_id, record, places)
        clusters[item_id] = record.cluster
    warnings = () if places else (f"{name}: no wire log, so that what was sent is known from the records alone.",)
    return Side(name, exchanges, warnings, clusters)


def _places(row: WireRow) -> dict[str, _Place]:
    return {
        ids_sha256(seen.ids): _Place(row, seen, index) for index, seen in enumerate(row.seen) if seen.ids is not None
    }


def _exchange(item_id: str, record: Record, places: Mapping[str, Mapping[str, _Place]]) -> Exchange:
    numerics = (record.numerics or "").split("/")
    meta: dict[str, Any] = {
        "suite": record.suite,
        "suite_version": record.suite_version,
        "model": record.model,
        "benchmark": record.benchmark,
    }
    if len(numerics) == 4:
        meta["compute_dtype"] = numerics[1]
    shared: dict[str, Any] = {
        "item_id": item_id,
        "repeat": record.repeat,
        "prompt": record.prompt or None,
        "extracted": record.extracted,
        "gold": list(record.gold or ()) or None,
        "score": record_score(record),
        "meta": meta,
    }
    if record.candidates:
        found = [_find(places, [c.wire_id] if c.wire_id else record.wire_ids, c.ids_sha256) for c in record.candidates]
        first = next((place for place in found if place is not None), None)
        texts = tuple(
            ScoredText(c.text, c.logprob, c.n_tokens, None if place is None else place.seen.ids)
            for c, place in zip(record.candidates, found, strict=True)
        )
        ids = None if found[0] is None else found[0].seen.ids
        known = first is not None
        return Exchange(
            path="logprob", candidates=texts, settings=_settings(first), settings_known=known, ids=ids, **shared
        )
    place = _find(places, record.wire_ids, record.prompt_sha256)
    answer = None if place is None else place.answer
    return Exchange(
        path="free",
        settings=_settings(place),
        settings_known=place is not None,
        path_known=record.scoring is not None,
        ids=None if place is None else place.seen.ids,
        prompt_tokens=usage_prompt_tokens(place.row.response)
        if place is not None and len(place.row.seen) == 1
        else None,
        output=record.response,
        token_logprobs=() if answer is None else tuple(v for v in answer.logprobs if v is not None),
        top={} if answer is None else answer.top,
        finish_reason=record.finish_reason,
        **shared,
    )


def _find(places: Mapping[str, Mapping[str, _Place]], wire_ids: Iterable[str], sha256: str | None) -> _Place | None:
    for wire_id in wire_ids:
        place = places.get(wire_id, {}).get(sha256 or "")
        if place is not None:
            return place
    return None


def _settings(place: _Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {k: v for k, v in place.row.request.items() if k not in NOT_SETTINGS and v is not None}
