"""Whether a results folder is what its seal promised: every difference found and named."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.digest import file_sha256
from safetyrepro.envelope.ledger import LEDGER, Entry, read_lines
from safetyrepro.envelope.run import SHARDS, shard_path
from safetyrepro.envelope.seal import PLAN, SEAL, parse_plan, sealed_bytes, stated_seal
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted
from safetyrepro.progress import Progress
from safetyrepro.records import wrong_column

if TYPE_CHECKING:
    from safetyrepro.envelope.document import CellFacts, Plan, ShardFacts

COLUMNS = ("run_id", "model", "model_sha256", "benchmark", "config_id", "cell_id", "item_id", "repeat", "extra")
_SHOWN = 5


@dataclass(frozen=True)
class Problem:
    """One difference between a folder and its seal."""

    where: str
    """File, and line or row."""
    what: str


@dataclass
class Verdict:
    """What was found."""

    seal: str
    """As computed from the plan's bytes."""
    head: str | None
    """The last ledger entry's hash; None where there is none."""
    shards: int = 0
    """Shards that are as promised."""
    promised: int = 0
    cells: int = 0
    """Cells of the plan."""
    rows: int = 0
    """Rows of the shards that are as promised."""
    unverified: tuple[str, ...] = ()
    """What was sealed without a hash that was given beforehand."""
    problems: list[Problem] = field(default_factory=list)
    started: bool = True
    """Whether the folder holds any result, or any trace of one."""

    @property
    def holds(self) -> bool:
        """Whether there are results, and nothing differs."""
        return self.started and not self.problems

    def add(self, where: str, what: str) -> None:
        """Note a difference."""
        self.problems.append(Problem(where, what))


def verify(folder: Path, *, seal: str | None = None, head: str | None = None, watch: Progress | None = None) -> Verdict:
    """Compare a results folder with its seal.

    Args:
        folder: the results.
        seal: the published seal to hold the plan to.
        head: the published head of the ledger.
        watch: progress.

    Returns:
        What was found; of a plan that was sealed and not run, and for which no head was published, that alone.

    Raises:
        InputError: the folder holds no sealed plan.
    """
    content = sealed_bytes(folder)
    found = hashlib.sha256(content).hexdigest()
    verdict = Verdict(found, None)
    try:
        stated = stated_seal(folder)
        if stated != found:
            verdict.add(
                f"{PLAN}, {SEAL}", f"the plan's SHA-256 is {found}, {SEAL} says {stated}: one of the two was changed"
            )
    except InputError as error:
        if not (folder / SEAL).exists():
            parse_plan(folder, content)
        verdict.add(SEAL, str(error))
    if seal is not None and seal != found:
        verdict.add(PLAN, f"its SHA-256 is {found}, the published seal is {seal}: this is another plan")
    try:
        plan = parse_plan(folder, content)
    except InputError as error:
        verdict.add(PLAN, str(error))
        return verdict
    verdict.promised = len(plan.shards)
    verdict.cells = sum(len(shard.cells) for shard in plan.shards)
    verdict.unverified = tuple(f"{one.what}: {one.reason}" for one in plan.unverified)
    traces = (path for one in ("*.parquet", LEDGER, f"{SHARDS}/*") for path in folder.rglob(one))
    if head is None and not verdict.problems and next(traces, None) is None:
        verdict.started = False
        return verdict
    entries = _ledger(folder, plan, found, verdict)
    if head is not None and head != verdict.head:
        known = head in {entry.hash for entry in entries.values()}
        why = "lines were added after it" if known else "the ledger was cut, rewritten, or is another run's"
        verdict.add(LEDGER, f"its head is {verdict.head}, the published head is {head}: {why}")
    weights: dict[str, str | None] = {}
    task = (watch or Progress(None)).task("shards", len(plan.shards))
    for number, shard in enumerate(plan.shards, 1):
        before = len(verdict.problems)
        rows = _shard(folder, plan, shard, entries.get(shard.name), found, verdict, weights)
        if len(verdict.problems) == before:
            verdict.shards += 1
            verdict.rows += rows
        task.update(number)
    task.finish(f"{verdict.shards} of {verdict.promised} as sealed")
    _strays(folder, plan, verdict)
    return verdict


def _ledger(folder: Path, plan: Plan, seal: str, verdict: Verdict) -> dict[str, Entry]:
    """The entries by shard, each line held to the one before."""
    lines, problems = read_lines(folder / LEDGER)
    for number, what in problems:
        verdict.add(f"{LEDGER}, line {number}", what)
    order = [shard.name for shard in plan.shards]
    entries: dict[str, Entry] = {}
    previous, at = seal, 0
    for number, entry in lines:
        where = f"{LEDGER}, line {number}"
        if not entry.holds():
            verdict.add(where, f"its hash is not that of its contents: the line of shard {entry.shard!r} was changed")
        if entry.seal != seal:
            verdict.add(where, f"is of another plan: its seal is {entry.seal}")
        if entry.previous != previous:
            verdict.add(
                where,
                "does not follow from the line before: lines were removed, added, changed or put in another order",
            )
        if entry.shard in entries:
            verdict.add(where, f"shard {entry.shard!r} was run twice: it has a line already")
        elif entry.shard not in order:
            verdict.add(where, f"shard {entry.shard!r} was added: the plan has none of that name")
        elif at >= len(order) or entry.shard != order[at] or entry.number != at:
            verdict.add(where, f"shard {entry.shard!r} stands out of order: it is number {order.index(entry.shard)}")
        entries.setdefault(entry.shard, entry)
        previous, at = entry.hash, at + 1
    verdict.head = lines[-1][1].hash if lines else None
    return entries


def _shard(
    folder: Path,
    plan: Plan,
    shard: ShardFacts,
    entry: Entry | None,
    seal: str,
    verdict: Verdict,
    weights: dict[str, str | None],
) -> int:
    path = shard_path(folder, shard.name)
    where = f"{SHARDS}/{path.name}"
    if entry is None:
        also = "" if not path.exists() else "; its file is there, and no line vouches for it"
        verdict.add(
            where, f"has no line in the ledger: its {counted(len(shard.cells), 'cell')} {_are(shard)} missing{also}"
        )
        return 0
    if not path.is_file():
        verdict.add(where, f"is missing, with its {counted(len(shard.cells), 'cell')}")
        return 0
    if (found := file_sha256(path)) != entry.sha256:
        verdict.add(where, f"was changed: its SHA-256 is {found}, the ledger says {entry.sha256}")
    try:
        rows = _rows(path)
    except InputError as error:
        verdict.add(where, str(error))
        return 0
    if len(rows) != entry.rows:
        verdict.add(where, f"holds {counted(len(rows), 'row')}, the ledger says {entry.rows}")
    _contents(plan, shard, rows, where, seal, verdict, weights)
    return len(rows)


def _are(shard: ShardFacts) -> str:
    return "is" if len(shard.cells) == 1 else "are"


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows' `COLUMNS`.

    Raises:
        InputError: the file holds no records; the message does not name it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if (wrong := wrong_column(file.schema_arrow, COLUMNS)) is not None:
                raise InputError(f"is no records file ({wrong})")
            rows: list[dict[str, Any]] = file.read(columns=list(COLUMNS)).to_pylist()
    except (OSError, ValueError, pa.ArrowException):
        raise InputError("is no records file") from None
    return rows


def _contents(
    plan: Plan,
    shard: ShardFacts,
    rows: list[dict[str, Any]],
    where: str,
    seal: str,
    verdict: Verdict,
    weights: dict[str, str | None],
) -> None:
    cells = {cell.cell_id: cell for cell in shard.cells}
    unstamped = [at for at, row in enumerate(rows, 1) if dict(row["extra"] or []).get("seal") != seal]
    if unstamped:
        verdict.add(where, f"{len(unstamped)} rows do not carry the seal, the first is row {unstamped[0]}")
    for at, row in enumerate(rows, 1):
        cell = cells.get(row["cell_id"])
        if cell is None:
            verdict.add(where, f"row {at} is of a cell that the plan does not have in this shard: {row['cell_id']}")
            return
        if (row["config_id"], row["model"], row["benchmark"]) != (cell.config_id, shard.model, shard.benchmark):
            verdict.add(where, f"row {at}: config, model or benchmark is not that of its cell ({_levels(cell)})")
            return
    sealed = plan.model(shard.model).weights_sha256
    for sha256 in {row["model_sha256"] for row in rows}:
        if sha256 != weights.setdefault(shard.model, sealed or sha256):
            verdict.add(where, f"was run on weights {sha256}, not {weights[shard.model]}")
    promised = [item.id for item in plan.benchmark(shard.benchmark).items]
    order: list[tuple[str, str, int]] = []
    for cell in shard.cells:
        own = [(row["item_id"], row["repeat"]) for row in rows if row["cell_id"] == cell.cell_id]
        ids = promised or list(dict.fromkeys(item for item, _ in own))
        expected = [(item, repeat) for repeat in range(cell.repeats) for item in ids]
        order += [(cell.cell_id, *key) for key in expected]
        _compare(own, expected, f"cell {cell.cell_id[:12]} ({_levels(cell)})", where, verdict)
    got = [(row["cell_id"], row["item_id"], row["repeat"]) for row in rows]
    if got != order and Counter(got) == Counter(order):
        verdict.add(where, "its rows stand in another order")


def _compare(
    own: list[tuple[str, int]], expected: list[tuple[str, int]], cell: str, where: str, verdict: Verdict
) -> None:
    have, want = Counter(own), Counter(expected)
    if not own:
        verdict.add(where, f"{cell} is missing")
        return
    missing, foreign = want - have, have - want
    twice = {key: count for key, count in foreign.items() if key in want}
    strange = [key for key in foreign if key not in want]
    if missing:
        verdict.add(where, f"{cell} lacks {_named(missing)}")
    if twice:
        verdict.add(where, f"{cell} holds {_named(twice)} more than once")
    if strange:
        verdict.add(where, f"{cell} holds {_named(strange)}, which the plan does not have")


def _named(keys: Iterable[tuple[str, int]]) -> str:
    every = list(keys)
    shown = ", ".join(f"item {item!r}" + (f" (repeat {repeat})" if repeat else "") for item, repeat in every[:_SHOWN])
    return shown + (f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else "")


def _levels(cell: CellFacts) -> str:
    return ", ".join(f"{axis} {level}" for axis, level in cell.axes.items())


def _strays(folder: Path, plan: Plan, verdict: Verdict) -> None:
    promised = {shard_path(folder, shard.name) for shard in plan.shards}
    for path in sorted({*folder.rglob("*.parquet"), *(folder / SHARDS).glob("*")} - promised):
        verdict.add(str(path.relative_to(folder)), "was added: the plan has no such shard")
