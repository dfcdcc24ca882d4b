"""What an importer reads from a run's native output is what the adapter's records say, wherever both know it."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from safetyrepro.errors import InputError
from safetyrepro.records import Record, read_records
from tests.crosspkg.importers.importing import imported

FIELDS = (
    "prompt",
    "response",
    "finish_reason",
    "extracted",
    "gold",
    "choice",
    "score",
    "suite_score",
    "status",
    "shots",
    "scoring",
    "decoding",
)
UNKNOWN = (None, (), "")
LEAST = {"lm_eval": 9, "helm": 8, "inspect_ai": 4}
"""Least number of fields that both know of a record."""


def _cells(experiment: Path) -> list[tuple[dict[str, Any], Path]]:
    found = []
    for path in sorted(experiment.glob("cells/*/cell.json")):
        facts = json.loads(path.read_text())
        if facts["state"] == "done" and facts["suite"] != "native":
            found.append((facts, path.parent))
    return found


def _ids(suite: str, folder: Path, own: dict[str, Record]) -> dict[str, str]:
    """The item of each id that the suite's log uses."""
    if suite == "lm_eval":
        (path,) = (folder / "native").rglob("samples_*.jsonl")
        rows = map(json.loads, path.read_text().splitlines())
        return {str(row["doc_id"]): row["doc"]["item_id"] for row in rows}
    return {record.extra.get("helm_instance", name): name for name, record in own.items()}


def test_records_equal_the_adapters_own_field_by_field(finished: Path, tmp_path: Path) -> None:
    cells = _cells(finished)
    assert len(cells) == 6
    for number, (facts, folder) in enumerate(cells):
        suite = facts["suite"]
        native = folder / "native" / "log.json" if suite == "inspect_ai" else folder / "native"
        body, records = imported(suite, native, tmp_path / str(number))
        own = {record.item_id: record for record in read_records(folder / "records.parquet")}
        ids = _ids(suite, folder, own)
        assert len(records) == len(own) == 4
        assert body["warnings"] == []
        for record in records:
            _compare(record, own[ids[record.item_id]], letters=suite == "inspect_ai" and facts["arm"] == "matched")


def _compare(record: Record, own: Record, *, letters: bool) -> None:
    # The log of a run by likelihood names options by letter, where the adapter knows their texts.
    fields = [name for name in FIELDS if not (letters and name in ("gold", "extracted"))]
    known = [name for name in fields if getattr(record, name) not in UNKNOWN and getattr(own, name) not in UNKNOWN]
    assert {name: getattr(record, name) for name in known} == {name: getattr(own, name) for name in known}
    assert len(known) >= LEAST[record.suite]
    if record.suite_version is not None:
        assert own.suite_version is not None
        assert own.suite_version.startswith(record.suite_version)
    for found, ours in zip(record.candidates, own.candidates, strict=True) if record.candidates else ():
        assert (found.text, found.n_chars, found.n_bytes) == (ours.text, ours.n_chars, ours.n_bytes)
        assert found.logprob == pytest.approx(ours.logprob, abs=1e-9)


def test_both_forms_of_an_inspect_log_give_the_same_records(finished: Path, tmp_path: Path) -> None:
    for facts, folder in _cells(finished):
        if facts["suite"] == "inspect_ai":
            (archive,) = (folder / "native").glob("*.eval")
            with zipfile.ZipFile(archive) as opened:
                assert 93 in {info.compress_type for info in opened.infolist()}
            _, packed = imported("inspect_ai", archive, tmp_path / f"{facts['arm']}-eval")
            _, plain = imported("inspect_ai", folder / "native" / "log.json", tmp_path / f"{facts['arm']}-json")
            assert sorted(packed, key=str) == sorted(plain, key=str)


def test_a_real_log_that_is_cut_is_told(finished: Path, tmp_path: Path) -> None:
    for facts, folder in _cells(finished):
        copy = tmp_path / facts["name"]
        shutil.copytree(folder / "native", copy)
        pattern = {"lm_eval": "samples_*.jsonl", "helm": "scenario_state.json", "inspect_ai": "*.eval"}[facts["suite"]]
        (path,) = copy.rglob(pattern)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * 2 // 3])
        with pytest.raises(InputError, match=r"cut short|no whole JSON|no JSON"):
            imported(facts["suite"], path, tmp_path / f"{facts['name']}-out")
