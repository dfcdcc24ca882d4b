"""A finished HELM run as records."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.adapters.base import Absent, Cell
from safetyrepro.adapters.helm.layout import instance_text
from safetyrepro.adapters.helm.matched import Matched
from safetyrepro.adapters.helm.output import Instance, read_run
from safetyrepro.adapters.helm.own import Own
from safetyrepro.adapters.helm.plan import plan
from safetyrepro.adapters.helm.translate import translate
from safetyrepro.adapters.record import blank_record, check_claims
from safetyrepro.config import Arm
from safetyrepro.errors import SuiteFailure

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.gateway.wire import WireRow
    from safetyrepro.records import Record


def normalise(cell: Cell, out_dir: Path, wire: Sequence[WireRow]) -> list[Record]:
    """Records of a finished run, one an item, in item order.

    Raises:
        SuiteFailure: a file of HELM's is missing, cut off or does not fit the job; an evaluated instance is no item of
            the cell; a request is not in the wire log, or belongs to no item.
    """
    job = translate(cell)
    if isinstance(job, Absent):
        raise SuiteFailure(f"HELM has no such run: {job.reason}.")
    read = Matched(cell, wire) if cell.arm is Arm.MATCHED else Own(cell, wire)
    records: dict[str, Record] = {}
    waiting = _items_by_key(cell)
    for number, planned in enumerate(job.payload["runs"]):
        run = read_run(out_dir / f"part-{number}")
        expected = planned.get("adapter") or plan(cell).adapter_fields()
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
