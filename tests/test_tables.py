from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pandas as pd
import pytest

from safetyrepro.errors import InputError
from safetyrepro.records import Record
from safetyrepro.tables import read_table, records_to_table

ROWS = [
    {"model": "a", "benchmark": "bbq", "config_id": "c1", "item_id": "007", "score": 1.0, "suite": "helm", "shots": 3},
    {"model": "a", "benchmark": "bbq", "config_id": "c1", "item_id": "008", "score": None, "suite": "helm", "shots": 3},
    {"model": "b", "benchmark": "bbq", "config_id": "c1", "item_id": "007", "score": 0.25, "suite": "helm", "shots": 0},
]


def write(folder: Path, kind: str) -> Path:
    path = folder / f"t.{kind}"
    frame = pd.DataFrame(ROWS)
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    else:
        frame.to_parquet(path)
    return path


def table(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_three_formats_read_the_same(tmp_path: Path, kind: str) -> None:
    read = read_table(write(tmp_path, kind))
    frame = read.frame
    assert list(frame["item_id"]) == ["007", "008", "007"]
    assert frame["score"].tolist()[::2] == [1.0, 0.25]
    assert frame["score"].isna().tolist() == [False, True, False]
    assert frame["shots"].tolist() == [3, 3, 0]
    assert frame["repeat"].tolist() == [0, 0, 0]
    assert frame["cluster"].tolist() == frame["item_id"].tolist()
    assert (read.item_level, read.without_score) == (True, 1)
    assert {str(frame[name].dtype) for name in ("shots", "repeat")} == {"Int64"}


def test_cell_means_have_no_items(tmp_path: Path) -> None:
    read = read_table(table(tmp_path, "model,benchmark,config_id,score\na,bbq,c1,0.5\na,bbq,c2,61.5\n"))
    assert not read.item_level
    assert read.frame["score"].tolist() == [0.5, 61.5]
    assert "cluster" not in read.frame


def test_bare_nan_is_read_as_null_and_counted(tmp_path: Path) -> None:
    lines = "".join(
        f'{{"model": "a", "benchmark": "b", "config_id": "c", "item_id": {i}, "score": {score}}}\n'
        for i, score in enumerate(["NaN", "null", "1", "true", '"0.5"', '""'])
    )
    read = read_table(table(tmp_path, lines, "t.jsonl"))
    assert (read.without_score, read.written_nan) == (3, 1)
    assert read.frame["score"].dropna().tolist() == [1.0, 1.0, 0.5]
    assert read.frame["item_id"].tolist() == ["0", "1", "2", "3", "4", "5"]
    csv = read_table(table(tmp_path, "model,benchmark,config_id,item_id,score\na,b,c,1,nan\na,b,c,2,\n"))
    assert (csv.without_score, csv.written_nan) == (2, 1)


def test_other_columns_are_kept(tmp_path: Path) -> None:
    read = read_table(table(tmp_path, "model,benchmark,config_id,item_id,score,confidence\na,b,c,1,1,0.75\n"))
    assert read.frame["confidence"].tolist() == ["0.75"]


HEADER = "model,benchmark,config_id,item_id,score,shots,status,repeat\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,benchmark,config_id\na,b,c\n", "column 'score' is missing; found model, benchmark, config_id"),
        ("", "column 'model' is missing; found nothing"),
        (HEADER, "holds no rows"),
        (HEADER + "a,b,c,1,right,0,ok,0\n", "line 2: score is 'right', it should be a number or empty"),
        (HEADER + "a,b,c,1,inf,0,ok,0\n", "line 2: score is 'inf'"),
        (HEADER + "a,b,c,1,1_0,0,ok,0\n", "line 2: score is '1_0'"),
        (HEADER + "a,b,c,1,1,0,ok,0\n,b,c,1,1,0,ok,0\n", "line 3: model is empty, it should be text"),
        (HEADER + "a,b,c, ,1,0,ok,0\n", "line 2: item_id is ' ', it should be text"),
        (HEADER + "a,b,c,1,1,2.5,ok,0\n", "line 2: shots is '2.5', it should be a whole number from 0"),
        (HEADER + "a,b,c,1,1,-1,ok,0\n", "line 2: shots is '-1'"),
        (HEADER + "a,b,c,1,1,0,fine,0\n", "line 2: status is 'fine', it should be one of ok, unparsed"),
        (HEADER + "a,b,c,1,1,0,ok\n", "line 2: found 7 fields, the header has 8"),
        (HEADER + "a,b,c,1,1,0,ok,0\nx,b,c,1,1,0,ok,0\na,b,c,1,0,0,ok,0\n", "line 4: the same model, benchmark, "),
        (HEADER + 'a,b,c,1,1,0,ok,"0\n', "line 2: not a CSV row"),
        ("model,model\na,b\n", "line 1: column 'model' stands twice"),
    ],
)
def test_wrong_tables_are_named_with_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    path = table(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_repeats_make_rows_distinct(tmp_path: Path) -> None:
    read = read_table(table(tmp_path, HEADER + "a,b,c,1,1,0,ok,0\na,b,c,1,0,0,ok,1\n"))
    assert read.frame["repeat"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.xlsx", "", r"a score table ends in \.csv, \.jsonl or \.parquet, this one in '\.xlsx'"),
        ("t.jsonl", '{"model": "a"', "line 1: not JSON"),
        ("t.jsonl", "[" * 200_000, "line 1: not JSON"),
        ("t.jsonl", "[1]\n", r"line 1: found '\[1\]', it should be a JSON object"),
        ("t.jsonl", '{"model": ["a"], "benchmark": "b", "config_id": "c", "score": 1}', "line 1: model is"),
        ("t.parquet", "PAR1 but not really", "not a Parquet file"),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(table(tmp_path, text, name))


def test_missing_file_folder_and_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "folder.csv")
    (tmp_path / "latin.csv").write_bytes(b"model,\xe9\n")
    with pytest.raises(InputError, match="byte 6 is not UTF-8"):
        read_table(tmp_path / "latin.csv")


def record(item_id: str, score: float | None) -> Record:
    texts = {field.name: "" for field in dataclasses.fields(Record)}
    fields = {
        **texts,
        "suite": "helm",
        "arm": "matched",
        "model": "m",
        "benchmark": "bbq",
        "config_id": "c",
        "item_id": item_id,
        "cluster": "k",
        "repeat": 0,
        "shots": 0,
        "score": score,
        "status": "ok" if score is not None else "missing",
        "scoring": "logprob",
        "decoding": "greedy",
        "template": "minimal",
    }
    return Record(**fields)  # type: ignore[arg-type]


def test_records_become_a_table_that_reads_back(tmp_path: Path) -> None:
    frame = records_to_table([record("i1", 1.0), record("i2", None)])
    assert frame["score"].isna().tolist() == [False, True]
    for name in ("csv", "parquet"):
        path = tmp_path / f"t.{name}"
        if name == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path)
        pd.testing.assert_frame_equal(read_table(path).frame, frame)
    assert records_to_table([]).columns.tolist() == frame.columns.tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,b,c,1,1e308,,,", "score is '1e308', it should be a score of at most 1e+09 either way"),
        ("a,b,c,1,-2e9,,,", "score is '-2e9'"),
        (
            "a,b,c,1,1,99999999999999999999999,,",
            "shots is '99999999999999999999999', it should be a whole number of at",
        ),
        (
            "a,b,c,1,1,,,99999999999999999999999",
            "repeat is '99999999999999999999999', it should be a whole number of at",
        ),
    ],
)
def test_numbers_that_no_figure_could_hold(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table(table(tmp_path, f"{HEADER}{row}\n"))
    assert "line 2" in str(caught.value)
    assert message in str(caught.value)


def test_a_key_twice_in_one_row_is_refused(tmp_path: Path) -> None:
    good = '{"model": "a", "benchmark": "b", "config_id": "c", "item_id": "1", "score": 1}\n'
    path = table(tmp_path, good + good.replace('"1"', '"2"').replace("}", ', "score": 0}'), "t.jsonl")
    with pytest.raises(InputError, match="line 2: key 'score' stands twice in one object"):
        read_table(path)


def test_the_columns_are_the_file_s_own(tmp_path: Path) -> None:
    read = read_table(table(tmp_path, "model,benchmark,config_id,item_id,score\na,b,c,1,1\n"))
    assert read.columns == ("model", "benchmark", "config_id", "item_id", "score")
    assert {"repeat", "cluster"} < set(read.frame)
