"""Whatever was changed in a results folder is found and named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rfc8785

from safetyrepro.digest import file_sha256
from safetyrepro.envelope.ledger import LEDGER
from safetyrepro.envelope.run import run_sealed, shard_path
from safetyrepro.envelope.seal import PLAN, SEAL
from safetyrepro.envelope.verify import Verdict, verify
from safetyrepro.errors import InputError
from safetyrepro.records import Record, read_records, write_records
from tests.envelope.conftest import Ran
from tests.envelope.grids import QUIET, entries, write_ledger

Change = Callable[[list[Record]], list[Record]]


def told(verdict: Verdict) -> str:
    return "\n".join(f"{one.where}: {one.what}" for one in verdict.problems)


def lines(folder: Path) -> list[bytes]:
    return (folder / LEDGER).read_bytes().splitlines(keepends=True)


def test_an_untouched_run_holds(ran: Ran) -> None:
    verdict = verify(ran.folder, seal=ran.sealed.seal, head=ran.finished.head)
    assert (verdict.holds, verdict.shards, verdict.cells, verdict.rows) == (True, 16, 32, 64)


def test_published_values_that_are_others(ran: Ran) -> None:
    assert "the published seal is 000" in told(verify(ran.folder, seal="0" * 64))
    assert "the ledger was cut, rewritten, or is another run's" in told(verify(ran.folder, head="0" * 64))
    earlier = entries(ran.folder)[3].hash
    assert "lines were added after it" in told(verify(ran.folder, head=earlier))


@pytest.mark.parametrize("place", [0.0, 0.25, 0.5, 0.99])
def test_a_byte_of_a_shard(copy: Callable[[], Path], ran: Ran, place: float) -> None:
    folder = copy()
    path = shard_path(folder, ran.sealed.plan.shards[2].name)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    assert f"shards/{path.name}: was changed: its SHA-256 is {file_sha256(path)}" in told(verify(folder))


@pytest.mark.parametrize("file", [PLAN, SEAL, LEDGER])
@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.9])
def test_a_byte_of_plan_seal_or_ledger(copy: Callable[[], Path], file: str, place: float) -> None:
    folder = copy()
    content = bytearray((folder / file).read_bytes())
    content[int(place * len(content))] ^= 1
    (folder / file).write_bytes(content)
    verdict = verify(folder)
    assert not verdict.holds
    assert any(file in one.where for one in verdict.problems)


def rewritten(folder: Path, name: str, change: Change) -> None:
    """Change a shard as its owner could: file, hash in the ledger, and the whole chain anew."""
    path = shard_path(folder, name)
    write_records(path, change(read_records(path)))
    made: list[dict[str, Any]] = []
    for entry in entries(folder):
        line = asdict(entry)
        if entry.shard == name:
            line |= {"sha256": file_sha256(path), "rows": len(read_records(path))}
        made.append(line)
    write_ledger(folder, made, seal=entries(folder)[0].seal)


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("extra", "text", "string"),
        ("cell_id", ["x"], "list<element: string>"),
        ("repeat", "0", "string"),
        ("item_id", 3, "int64"),
        ("model_sha256", None, None),
    ],
)
def test_columns_of_another_kind(
    copy: Callable[[], Path], ran: Ran, column: str, values: object, kind: str | None
) -> None:
    folder, name = copy(), ran.sealed.plan.shards[0].name
    path = shard_path(folder, name)
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    spoilt = table.remove_column(at)
    if kind is not None:
        spoilt = spoilt.add_column(at, column, pa.array([values] * len(table)))
    pq.write_table(spoilt, path)
    found = told(verify(folder))
    said = f"is {kind}, it should be " if kind else "is missing"
    assert re.search(rf"{path.name}: is no records file \(column '{column}' {re.escape(said)}", found), found


@pytest.mark.parametrize(("field", "held"), [("model", "tiny-0, tiny-1"), ("benchmark", "")])
def test_a_plan_whose_shards_name_what_it_does_not_list(
    copy: Callable[[], Path], ran: Ran, field: str, held: str
) -> None:
    folder = copy()
    rewritten(folder, ran.sealed.plan.shards[1].name, lambda _: [])
    body = json.loads((folder / PLAN).read_bytes())
    body["shards"][1][field] = "another"
    (folder / PLAN).write_bytes(rfc8785.dumps(body))
    found = told(verify(folder))
    assert "one of the two was changed" in found
    assert f"plan.json: shards.1.{field} is 'another', its {field}s are {held}" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], r"cell \w{12} \(.*template minimal\) lacks item '"),
        (lambda rows: [*rows, rows[-1]], r"cell \w{12} \(.*\) holds item '.*' more than once"),
        (lambda rows: rows[2:], r"cell \w{12} \(.*\) is missing"),
        (lambda rows: [*rows[2:], *rows[:2]], "its rows stand in another order"),
        (lambda rows: [replace(rows[0], item_id="x"), *rows[1:]], "holds item 'x', which the plan does not have"),
        (lambda rows: [replace(rows[0], cell_id="x"), *rows[1:]], "row 1 is of a cell that the plan does not have"),
        (lambda rows: [replace(rows[0], model="x"), *rows[1:]], "row 1: config, model or benchmark is not that"),
        (lambda rows: [replace(row, extra={}) for row in rows], r"\d+ rows do not carry the seal, the first is row 1"),
        (lambda rows: [replace(row, model_sha256="0" * 64) for row in rows], "was run on weights 000"),
    ],
)
def test_rows_even_where_the_chain_was_made_anew(
    copy: Callable[[], Path], ran: Ran, change: Change, message: str
) -> None:
    folder, name = copy(), ran.sealed.plan.shards[0].name
    rewritten(folder, name, change)
    verdict = verify(folder)
    assert re.search(message, told(verdict)), told(verdict)
    assert all(name in one.where for one in verdict.problems)


def test_a_score_changed_with_the_chain_made_anew_needs_the_published_head(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    rewritten(folder, ran.sealed.plan.shards[0].name, lambda rows: [replace(rows[0], score=1.0), *rows[1:]])
    # This is what a seal alone does not prove.
    assert verify(folder, seal=ran.sealed.seal).holds
    assert "the published head is" in told(verify(folder, head=ran.finished.head))


def test_shards_swapped(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    first, second = (shard_path(folder, shard.name) for shard in ran.sealed.plan.shards[:2])
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    found = told(verify(folder))
    assert f"{first.name}: was changed" in found
    assert f"{second.name}: was changed" in found


def test_ledger_lines_swapped(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    made = lines(folder)
    made[1], made[2] = made[2], made[1]
    (folder / LEDGER).write_bytes(b"".join(made))
    found = told(verify(folder))
    assert f"ledger.jsonl, line 2: shard '{ran.sealed.plan.shards[2].name}' stands out of order" in found
    assert "ledger.jsonl, line 2: does not follow from the line before" in found


def test_order_even_where_the_chain_was_made_anew(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    made = [asdict(entry) for entry in entries(folder)]
    write_ledger(folder, [made[1], made[0], *made[2:]], seal=ran.sealed.seal)
    assert "line 1: shard" in told(verify(folder))
    assert "stands out of order: it is number 1" in told(verify(folder))


def test_a_shard_added(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    (folder / "shards" / "9999-more.parquet").write_bytes(b"")
    (folder / "elsewhere.parquet").write_bytes(b"")
    made = [asdict(entry) for entry in entries(folder)]
    write_ledger(folder, [*made, {**made[0], "shard": "9999-more"}], seal=ran.sealed.seal)
    found = told(verify(folder))
    assert "line 17: shard '9999-more' was added" in found
    assert "shards/9999-more.parquet: was added" in found
    assert "elsewhere.parquet: was added" in found


def test_a_cell_run_twice(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    made = [asdict(entry) for entry in entries(folder)]
    write_ledger(folder, [*made, made[4]], seal=ran.sealed.seal)
    assert f"line 17: shard '{made[4]['shard']}' was run twice" in told(verify(folder))


def test_a_shard_missing(copy: Callable[[], Path], ran: Ran) -> None:
    folder, name = copy(), ran.sealed.plan.shards[3].name
    shard_path(folder, name).unlink()
    assert f"shards/{name}.parquet: is missing, with its 3 cells" in told(verify(folder))


@pytest.mark.parametrize("cut", ["first", "middle", "last", "half"])
def test_a_ledger_that_was_cut(copy: Callable[[], Path], ran: Ran, cut: str) -> None:
    folder = copy()
    made = lines(folder)
    left = {"first": made[1:], "middle": made[:5] + made[8:], "last": made[:-2], "half": [*made[:-1], made[-1][:50]]}[
        cut
    ]
    (folder / LEDGER).write_bytes(b"".join(left))
    found = told(verify(folder, head=ran.finished.head))
    assert "has no line in the ledger: its" in found
    if cut in ("first", "middle"):
        at = 1 if cut == "first" else 6
        assert f"ledger.jsonl, line {at}: does not follow from the line before: lines were removed" in found
    else:
        assert "the ledger was cut" in found
    if cut == "half":
        assert "line 16: is cut off" in found


def test_an_unfinished_run_names_its_missing_cells(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    (folder / LEDGER).unlink()
    verdict = verify(folder)
    assert len(verdict.problems) == 16
    assert verdict.head is None
    assert "its file is there, and no line vouches for it" in told(verdict)


def test_a_plan_sealed_anew_over_old_results(copy: Callable[[], Path], ran: Ran) -> None:
    folder = copy()
    body = json.loads((folder / PLAN).read_bytes())
    body["envelope"]["about"] = "Something else."
    content = rfc8785.dumps(body)
    (folder / PLAN).write_bytes(content)
    seal = hashlib.sha256(content).hexdigest()
    (folder / SEAL).write_text(f"{seal}  {PLAN}\n", encoding="utf-8")
    found = told(verify(folder))
    assert f"ledger.jsonl, line 1: is of another plan: its seal is {ran.sealed.seal}" in found
    assert "rows do not carry the seal" in found
    with pytest.raises(InputError, match="does not follow from the line before and the seal"):
        run_sealed(folder, None, QUIET)


@pytest.mark.parametrize(
    "line", ["", "[]", "{}", "null", '{"number": NaN}', "\ufeff{}", "<script>", '{"a":' * 5000, "1e999"]
)
def test_odd_ledger_lines(copy: Callable[[], Path], line: str) -> None:
    folder = copy()
    (folder / LEDGER).write_bytes(b"".join(lines(folder)) + line.encode() + b"\n")
    assert "line 17: is no ledger entry" in told(verify(folder))
    with pytest.raises(InputError, match="line 17: is no ledger entry"):
        run_sealed(folder, None, QUIET)


def test_a_folder_that_was_never_sealed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"plan\.json: cannot be read"):
        verify(tmp_path)
