"""What is exported is what the records say, in forms that others' programs accept."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from safetyrepro.cli.export import export
from safetyrepro.crosspkg.exporters import EeeOptions, export_eee, export_table, records_frame
from safetyrepro.crosspkg.exporters.eee_paths import component
from safetyrepro.crosspkg.exporters.source import iterate_records, record_files
from safetyrepro.errors import InputError
from safetyrepro.paths import cache_dir
from safetyrepro.records import Record, read_records, write_records
from safetyrepro.tables import read_table, records_to_table
from tests.crosspkg.importers.importing import imported, write_lines
from tests.crosspkg.importers.test_inspect_ai import header, sample, write_eval
from tests.crosspkg.importers.test_lm_eval import choosing, generated

VALIDATOR = "every-eval-ever==0.3.0 --hash=sha256:564b8bc624c1f822f749a769dc69dc058a736e83d920cbeb147c3a30d3152317"


@pytest.fixture(scope="session")
def validator() -> Path:
    """The validator's package. It asks for Python 3.12, and its modules for validating run on 3.11 as they are."""
    target = cache_dir() / "validators" / "every-eval-ever-0.3.0"
    if not (target / "every_eval_ever").is_dir():
        wanted = target.parent / "requirements.txt"
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.write_text(VALIDATOR + "\n")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"]
        subprocess.run([*pip, "--require-hashes", "--target", str(target), "-r", str(wanted)], check=True)
    return target


def validate(validator: Path, store: Path) -> list[dict[str, Any]]:
    """The validator's reports on a datastore; it fails on errors and on warnings."""
    files = sorted(map(str, store.rglob("*.json*")))
    ended = subprocess.run(
        [sys.executable, "-m", "every_eval_ever.validate", "--format", "json", *files],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(validator)},
        cwd=store,
    )
    reports: list[dict[str, Any]] = json.loads(ended.stdout)
    assert ended.returncode == 0, [(one["file"], one["errors"], one["warnings"]) for one in reports]
    assert len(reports) == len(files)
    return reports


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """An import of two tasks: letters with an error, generations with two filters, in several cells."""
    samples = [sample(1, "C"), sample("2", "I"), sample(3, None, error={"message": "gone"})]
    imported("inspect_ai", write_eval(tmp_path / "log.eval", header(0.5, [1, "2", 3]), samples), tmp_path / "in" / "a")
    rows = [generated(0, 1.0, name="strict"), generated(0, 0.0, name="loose"), generated(1, 1.0, name="strict")]
    path = write_lines(tmp_path / "samples_gsm8k.jsonl", rows)
    imported("lm_eval", path, tmp_path / "in" / "b", model="org/other:v1")
    return tmp_path / "in"


def test_exported_files_pass_the_validator(validator: Path, finished: Path, logs: Path, tmp_path: Path) -> None:
    export_eee(finished, tmp_path / "own", EeeOptions())
    export_eee(logs, tmp_path / "others", EeeOptions("Somebody", "third_party"))
    assert len(validate(validator, tmp_path / "own")) == 2 * 7
    assert len(validate(validator, tmp_path / "others")) == 2 * 3


def test_aggregates_and_items_say_what_the_records_say(logs: Path, tmp_path: Path) -> None:
    (one, *_) = export_eee(logs / "a", tmp_path / "store", EeeOptions(retrieved=7))
    body = json.loads(one.path.read_text())
    (result,) = body["evaluation_results"]
    assert result["score_details"]["score"] == 0.5
    assert (
        result["score_details"]["details"] | {"items": "3", "items_without_score": "1", "records_error": "1"}
        == (result["score_details"]["details"])
    )
    assert (body["eval_library"], body["model_info"]["id"]) == (
        {"name": "inspect_ai", "version": "0.3.180"},
        "org/model",
    )
    assert result["generation_config"]["generation_args"] == {"temperature": 0.5}
    lines = [json.loads(line) for line in one.samples.read_text().splitlines()]
    assert [(line["sample_id"], line["evaluation"]) for line in lines] == [
        ("1", {"score": 1.0, "is_correct": True}),
        ("2", {"score": 0.0, "is_correct": False}),
    ]
    assert {line["evaluation_id"] for line in lines} == {body["evaluation_id"]}
    assert (one.rows, one.without_score) == (2, 1)
    again = export_eee(logs / "a", tmp_path / "again", EeeOptions(retrieved=7))
    assert again[0].path.read_bytes() == one.path.read_bytes()
    assert again[0].path.name == one.path.name


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b", "con", "data", "unknown", "", "a:b|c", "ü" * 300, "x. "])
def test_no_name_leads_out_of_the_folder(name: str, logs: Path, tmp_path: Path, validator: Path) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._+-]+", component(name))
    (path,) = record_files(logs / "a")
    odd = [replace(record, model=name or "x", benchmark=name) for record in iterate_records(path)]
    write_records(tmp_path / "odd.parquet", odd)
    (one,) = export_eee(tmp_path / "odd.parquet", tmp_path / "store", EeeOptions())
    assert one.path.resolve().is_relative_to((tmp_path / "store" / "data").resolve())
    assert len(one.path.relative_to(tmp_path / "store").parts) == 5
    if name in ("../../etc", "a:b|c"):
        validate(validator, tmp_path / "store")


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_table_reads_back_as_the_records(ending: str, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / f"scores{ending}"
    assert export_table(finished, out).rows == 7 * 4
    found = read_table(out)
    records = [record for path in record_files(finished) for record in read_records(path)]
    columns = list(records_to_table([]).columns)
    expected = records_to_table(records)[columns]
    pd.testing.assert_frame_equal(found.frame[columns], expected, check_exact=True)
    pd.testing.assert_frame_equal(records_frame(finished)[columns], expected, check_exact=True)


def test_another_metric_of_an_import_is_a_table_too(tmp_path: Path) -> None:
    rows = [{**generated(i, i), "metrics": ["exact_match", "bleu"], "bleu": 40 + i / 3} for i in range(2)]
    imported("lm_eval", write_lines(tmp_path / "samples_t.jsonl", rows), tmp_path / "in", model="m")
    assert records_frame(tmp_path / "in")["score"].tolist() == [0.0, 1.0]
    out = tmp_path / "bleu.jsonl"
    export_table(tmp_path / "in", out, "bleu")
    assert read_table(out).frame["score"].tolist() == [40.0, 40 + 1 / 3]
    with pytest.raises(InputError, match=r"no record holds the metric 'f1'; there are exact_match, bleu"):
        export_table(tmp_path / "in", tmp_path / "f1.csv", "f1")
    assert not (tmp_path / "f1.csv").exists()


def test_records_without_a_model_or_a_score_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_t.jsonl", [choosing(0, [-1, -2], 0, float("nan"))])
    imported("lm_eval", path, tmp_path / "nameless")
    for write in (
        lambda: export_table(tmp_path / "nameless", tmp_path / "x.csv"),
        lambda: export_eee(tmp_path / "nameless", tmp_path / "x", EeeOptions()),
    ):
        with pytest.raises(InputError, match="--model NAME"):
            write()
    imported("lm_eval", path, tmp_path / "named", model="m")
    with pytest.raises(InputError, match="no record holds a score"):
        export_eee(tmp_path / "named", tmp_path / "x", EeeOptions())
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "x.csv").exists()


def test_the_commands_say_what_they_wrote(logs: Path, tmp_path: Path) -> None:
    run = CliRunner()
    table = run.invoke(export, ["table", str(logs), "--out", str(tmp_path / "t.csv"), "--json"])
    assert json.loads(table.stdout) == {"table": str(tmp_path / "t.csv"), "rows": 6, "metric": None}
    store = run.invoke(export, ["eee", str(logs), "--out", str(tmp_path / "store"), "--json"])
    files = json.loads(store.stdout)["files"]
    assert [Path(one["aggregate"]).is_file() for one in files] == [True] * 3
    with pytest.raises(InputError, match="holds no records"):
        run.invoke(export, ["table", str(tmp_path / "store"), "--out", "x.csv"], catch_exceptions=False)


def test_an_export_does_not_replace_a_file_of_its_run(finished: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    cell = next(folder.glob("cells/*/records.parquet"))
    link = tmp_path / "link.parquet"
    link.symlink_to(cell)
    for out in (cell, link, cell.with_name("wire.jsonl")):
        before = out.read_bytes()
        with pytest.raises(InputError, match="give --out another path"):
            export_table(folder, out)
        assert out.read_bytes() == before
    for ending in (".csv", ".jsonl", ".parquet"):
        for _ in range(2):
            assert export_table(folder, folder / f"scores{ending}").rows == 7 * 4


@pytest.mark.parametrize("command", ["table", "eee"])
def test_an_output_of_the_wrong_kind_is_said_to_be_one(command: str, logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "there.csv"
    if command == "table":
        out.mkdir()
        said = "is a folder, and a file"
    else:
        out.touch()
        said = "is a file, and a folder"
    for path, words in ((out, said), (logs / "a" / "records.parquet" / "x.csv", "cannot be written")):
        ended = CliRunner().invoke(export, [command, str(logs), "--out", str(path)])
        assert ended.exit_code == 2, ended.output
        assert words in " ".join(ended.output.split())
    with pytest.raises(InputError, match="is a file"):
        export_eee(logs, logs / "a" / "records.parquet", EeeOptions())


def test_epochs_are_counted_as_records_and_one_model_is_not_sent_to_the_ranking(tmp_path: Path) -> None:
    log = write_eval(
        tmp_path / "e.eval", header(1.0, [1, 2], epochs=2), [sample(i, "C", e) for i in (1, 2) for e in (1, 2)]
    )
    imported("inspect_ai", log, tmp_path / "in")
    run = CliRunner()
    said = run.invoke(export, ["eee", str(tmp_path / "in"), "--out", str(tmp_path / "store")]).output
    assert "2 items, 4 records" in said
    said = run.invoke(export, ["table", str(tmp_path / "in"), "--out", str(tmp_path / "t.csv")]).output
    assert said.startswith("4 rows")
    assert "Next: this is one model" in said


def test_a_record_read_here_is_the_record_written(finished: Path) -> None:
    path = record_files(finished)[0]
    records: list[Record] = read_records(path)
    assert list(iterate_records(path)) == records
