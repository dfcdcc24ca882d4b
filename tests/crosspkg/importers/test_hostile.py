"""Damaged and odd files: a right answer, or one sentence that names the file, and nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from safetyrepro.cli.imports import import_
from safetyrepro.crosspkg.importers.json_stream import CHUNK, JsonStream
from safetyrepro.crosspkg.importers.reading import iterate_rows, opened
from safetyrepro.errors import InputError
from tests.crosspkg.importers.importing import imported, metrics, summary, write_json, write_lines
from tests.crosspkg.importers.test_helm import recorded, state, stats, write_run
from tests.crosspkg.importers.test_inspect_ai import header, sample, whole, write_eval
from tests.crosspkg.importers.test_lm_eval import generated


def _lm_eval(folder: Path) -> Path:
    return write_lines(folder / "samples_t.jsonl", [generated(i, 1, doc={"text": "x" * 400}) for i in range(5)])


def _helm(folder: Path) -> Path:
    run = write_run(
        folder / "run", [state(f"id{i}", "yes") for i in range(5)], [stats("id0", {"a": 1})], [recorded("a", 1)]
    )
    return run / "scenario_state.json"


def _inspect_json(folder: Path) -> Path:
    return write_json(folder / "log.json", whole(header(1.0, list(range(5))), [sample(i, "C") for i in range(5)]))


def _inspect_eval(folder: Path) -> Path:
    return write_eval(folder / "log.eval", header(1.0, list(range(5))), [sample(i, "C") for i in range(5)])


LOGS: dict[str, Callable[[Path], Path]] = {
    "lm_eval": _lm_eval,
    "helm": _helm,
    "inspect_ai": _inspect_json,
    "inspect_ai eval": _inspect_eval,
}


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.55, 0.97])
def test_a_log_that_is_cut_is_named_in_one_sentence(kind: str, share: float, tmp_path: Path) -> None:
    path = LOGS[kind](tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    out = tmp_path / "out"
    with pytest.raises(InputError) as raised:
        imported(kind.split()[0], path, out)
    message = str(raised.value)
    assert str(path) in message
    assert "\n" not in message
    assert not out.exists()
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("kind", ["lm_eval", "helm", "inspect_ai"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n\n",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf",
        b"not json at all",
        b"[1, 2, 3]",
        b"{}",
        b"null",
        b'{"a": ' * 100_000,
        b"[" * 100_000,
        b'{"doc_id": 0, "resps": [], "acc": 1}\n{"doc_id": 1, "re\xff": 2}\n',
        gzip.compress(b'{"doc_id": 0}' * 100, mtime=0)[:-20],
        b"PK\x05\x06" + bytes(18),
        b"PK\x03\x04 no archive",
    ],
    ids=lambda data: repr(data[:18]),
)
def test_what_is_no_log_is_refused(kind: str, data: bytes, tmp_path: Path) -> None:
    names = {"lm_eval": "samples_t.jsonl", "helm": "scenario_state.json", "inspect_ai": "log.json"}
    path = tmp_path / names[kind]
    path.write_bytes(data)
    for place in (path, tmp_path):
        with pytest.raises(InputError, match=str(tmp_path)):
            summary(kind, place)


def test_a_broken_file_among_good_ones_is_left_out_and_named(tmp_path: Path) -> None:
    _inspect_eval(tmp_path)
    (tmp_path / "broken.eval").write_bytes(b"PK\x03\x04 no archive")
    body = summary("inspect_ai", tmp_path)
    assert body["records"] == 5
    assert any("left out" in warning and "broken.eval" in warning for warning in body["warnings"])


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header(1.0, [1])))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample(1, "C")))
    path.write_bytes(path.read_bytes().replace(b'"target"', b'"tarGet"', 1))
    with pytest.raises(InputError, match=r"samples/1_epoch_1.json"):
        summary("inspect_ai", path)


def test_odd_text_survives_and_halves_of_pairs_do_not(tmp_path: Path) -> None:
    answer = "\ud800 <script>\u2028 \U0001f600 \x00"
    rows = json.dumps(generated(0, 1, resps=[[answer]], filtered_resps=[answer])) + "\n"
    path = tmp_path / "samples_t.jsonl"
    path.write_text(rows)
    _, (record,) = imported("lm_eval", path, tmp_path / "out")
    assert record.response == "? <script>\u2028 \U0001f600 \x00"


def test_unknown_keys_and_wrong_types_change_nothing(tmp_path: Path) -> None:
    odd = {"new_key": {"deep": [1, {"x": None}]}, "metrics": ["exact_match"], "target": {"a": 1}, "resps": "text"}
    path = write_lines(
        tmp_path / "samples_t.jsonl", [generated(0, 1, **odd), generated(1, 0, arguments="?", filter=None)]
    )
    assert metrics(summary("lm_eval", path))["exact_match"]["mean"] == 0.5
    run = write_run(
        tmp_path / "run", [state("id0", "yes", request=[], result="?", output_mapping=7)], [{"stats": 3}], []
    )
    assert summary("helm", run)["tasks"][0]["rows"] == 1
    strange = sample(1, "C", output=[], messages="?", events=[3, {"event": "model", "call": 5}], target=4, limit=7)
    log = write_json(tmp_path / "log.json", whole(header(1.0, [1]), [strange]) | {"plan": [], "stats": "x"})
    assert metrics(summary("inspect_ai", log))["match"]["mean"] == 1.0


def test_logs_of_other_programs(tmp_path: Path) -> None:
    own = {"doc_id": 0, "input": "q", "target": "a", "filtered_resps": [["a"]], "exact_match": True, "f1": ["a", ["b"]]}
    body, (record,) = imported("lm_eval", write_lines(tmp_path / "mine.jsonl", [own]), tmp_path / "out")
    assert (record.response, record.extracted, record.score, record.prompt) == (None, "a", 1.0, None)
    assert any("f1 is a list in every row" in warning for warning in body["warnings"])
    bare = write_json(tmp_path / "quiz.json", {"version": 2, "status": "success", "samples": [sample(1, "C")]})
    body = summary("inspect_ai", bare)
    assert (body["tasks"][0]["task"], metrics(body)["match"]["mean"], body["model"]) == ("quiz", 1.0, None)
    assert {"model", "suite_version", "recorded aggregates"} <= set(body["absent"])


def test_depth_and_size_of_values(tmp_path: Path) -> None:
    def log(depth: int) -> Path:
        value: Any = "bottom"
        for _ in range(depth):
            value = [value]
        events = [{"event": "model", "input": [value]}]
        return write_json(tmp_path / "log.json", whole(header(1.0, [1]), [sample(1, "C", epoch=10**30, events=events)]))

    assert imported("inspect_ai", log(50), tmp_path / "out")[1][0].repeat == 0
    with pytest.raises(InputError, match=r"log\.json.*nested too deeply"):
        imported("inspect_ai", log(700), tmp_path / "deep")
    rows = [
        generated(0, 10**400, **{"shots": 1}),
        {**generated(1, 1), "\ud800": 1, "metrics": ["\ud800", "exact_match"]},
    ]
    (tmp_path / "samples_t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, records = imported("lm_eval", tmp_path / "samples_t.jsonl", tmp_path / "rows")
    assert [record.status for record in records] == ["undefined", "ok"]


def test_two_runs_that_make_one_cell_are_both_kept(tmp_path: Path) -> None:
    for name in ("quiz:model=a", "quiz:model_deployment=a"):
        write_run(tmp_path / "runs" / name, [state("id0", "yes")], [stats("id0", {"a": 1})], [], name=name)
    body, records = imported("helm", tmp_path / "runs", tmp_path / "out")
    assert len(records) == body["records"] == 2
    assert len({record.cell_id for record in records}) == 1


def test_what_a_log_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_t.jsonl", [generated(0, 1, **{"\x1b[2Jgone\n": "x"})])
    ended = CliRunner().invoke(import_, ["lm_eval", str(path), "--model", "m\x1b[31m"], standalone_mode=False)
    assert ended.exit_code == 0
    assert "gone" in ended.stdout
    assert "\x1b" not in ended.output


def test_an_out_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        imported("lm_eval", _lm_eval(tmp_path), out)
    assert [one.name for one in out.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("chunk", range(1, 6))
@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, NaN, -Infinity, 1e400], "b": "x"}',
        ' {"a":{}, "b":[]} ',
        "{ }",
        '{"a":1.5,"b":-0.25e-10,"c":1E+5,"d":12e3,"e":0}',
    ],
)
def test_a_stream_gives_what_a_parser_gives(
    text: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyrepro.crosspkg.importers.json_stream.CHUNK", chunk)
    path = tmp_path / "a.json"
    path.write_text(text)
    with opened(path) as stream:
        values = JsonStream(stream, path)
        found = {key: values.value() for key in values.members()}
    assert repr(found) == repr(json.loads(text))


@pytest.mark.parametrize("number", ["1.5", "1e-5", "-2.5E+10"])
def test_a_number_may_be_cut_anywhere_by_the_end_of_what_was_read(number: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for kept in range(1, len(number) + 1):
        path.write_text("[" + " " * (CHUNK - 1 - kept) + number + "," + number + "]")
        with opened(path) as stream:
            assert list(JsonStream(stream, path).array()) == [float(number)] * 2


def test_rows_over_several_lines_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n" + "\n".join(json.dumps({"a": number}, indent=2) for number in range(3)))
    assert [row for _, row in iterate_rows(path)] == [{"a": 0}, {"a": 1}, {"a": 2}]


@pytest.mark.parametrize("kind", ["lm_eval", "inspect_ai"])
def test_a_large_log_takes_little_memory(kind: str, tmp_path: Path) -> None:
    """A log of 80 MB is imported in a process that may take a quarter of that more than for a small one."""
    (tmp_path / "small").mkdir()
    small = LOGS[kind](tmp_path / "small")
    path = tmp_path / ("samples_t.jsonl" if kind == "lm_eval" else "log.json")
    filler, rows = "x" * 160_000, 500
    with path.open("w") as stream:
        if kind == "inspect_ai":
            stream.write(json.dumps(header(1.0, list(range(rows))))[:-1] + ', "samples": [')
        for number in range(rows):
            row: dict[str, Any] = (
                generated(number, 1, doc={"text": filler})
                if kind == "lm_eval"
                else sample(number, "C", store={"x": filler})
            )
            stream.write(json.dumps(row))
            stream.write("\n" if kind == "lm_eval" else "," * (number < rows - 1))
        if kind == "inspect_ai":
            stream.write("]}")
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from safetyrepro.crosspkg.importers import import_logs\n"
        "from safetyrepro.progress import Progress\n"
        "import_logs(sys.argv[1], Path(sys.argv[4]), Path(sys.argv[3] + '-small'), Progress(None))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "body = import_logs(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Progress(None)).as_json()\n"
        "print(body['records'], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, kind, str(path), str(tmp_path / "out"), str(small)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    records, grown = map(int, ended.stdout.split())
    assert records == rows
    assert grown < 20, grown
