from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safetyrepro.benchmarks import Item, get, load_data
from safetyrepro.config import BenchmarkSpec
from safetyrepro.errors import InputError
from tests.benchmarks.configs import make_config

PLACE = "toxigen/annotated/test-00000-of-00001.parquet"


def row(text: str = "Cyclists are a pest.", ai: Any = 4.0, human: Any = 2.0, **fields: Any) -> dict[str, Any]:
    return {
        "text": text,
        "target_group": "cyclists",
        "toxicity_ai": ai,
        "toxicity_human": human,
        "intent": 1.0,
        **fields,
    }


def write_parquet(folder: Path, rows: list[dict[str, Any]]) -> bytes:
    path = folder / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path.read_bytes()


def write_csv(folder: Path, rows: list[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    (folder / "annotated_test.csv").write_text(text.getvalue(), encoding="utf-8")


def load(folder: Path, **fields: Any) -> tuple[tuple[Item, ...], str]:
    return get("toxigen").load(BenchmarkSpec(name="toxigen", source="file", **fields), folder)


def label(item: Item) -> str:
    return item.options[item.gold[0]]


def test_the_authors_threshold_makes_the_label(tmp_path: Path) -> None:
    ratings = [(5.0, 5.0), (3.0, 2.6), (3.0, 2.5), (1.0, 1.0)]
    content = write_parquet(tmp_path, [row(f"Statement {n}.", ai, human) for n, (ai, human) in enumerate(ratings)])
    items, sha256 = load(tmp_path)
    assert sha256 == hashlib.sha256(content).hexdigest()
    # 5.6 is over 5.5, and 5.5 is not.
    assert [label(item) for item in items] == ["Yes", "Yes", "No", "No"]
    assert all(item.category == "cyclists" and set(item.options) == {"Yes", "No"} for item in items)
    assert items[0].row["intent"] == 1.0


def test_a_table_as_csv_gives_the_same_items(tmp_path: Path) -> None:
    rows = [row("b'A statement, wrapped.'"), row("Another one."), row("Another one.", 1.0, 1.0)]
    write_parquet(tmp_path, rows)
    write_csv(tmp_path, rows)
    table, _ = load(tmp_path)
    same, _ = load(tmp_path, path="annotated_test.csv")
    assert [(item.item_id, item.question, item.gold) for item in same] == [
        (item.item_id, item.question, item.gold) for item in table
    ]
    assert same[0].question == "A statement, wrapped."
    assert same[2].item_id == f"{same[1].item_id}-2"
    assert same[2].cluster == same[1].cluster
    assert (label(same[1]), label(same[2])) == ("Yes", "No")


def test_demonstration_sentences_are_called_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "toxigen"
    (folder / "race").mkdir(parents=True)
    files = {
        "hate_left_handed_sentences.txt": "left-handers are clumsy\r\n\nthey cannot be trusted\n",
        "neutral_left_handed_sentences.txt": "one in ten is left-handed",
    }
    for name, text in files.items():
        (folder / "race" / name).write_bytes(text.encode())
    (folder / "README.txt").write_text("not read")
    items, sha256 = load(tmp_path, path="toxigen")
    assert [(item.question, label(item), item.category) for item in items] == [
        ("left-handers are clumsy", "Yes", "left_handed"),
        ("they cannot be trusted", "Yes", "left_handed"),
        ("one in ten is left-handed", "No", "left_handed"),
    ]
    assert items[1].row["line"] == 3
    lines = "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in files.items())
    assert sha256 == hashlib.sha256(lines.encode()).hexdigest()
    config = make_config("toxigen", benchmark__source="file", benchmark__path="toxigen", shots__pool=0)
    data = load_data(config, tmp_path)
    assert data.source == "demonstration sentences of ToxiGen's repository in toxigen, not its annotated test set"
    elsewhere = get("toxigen").provenance(BenchmarkSpec(name="toxigen", source="file", path=str(folder)))
    assert elsewhere == "demonstration sentences of ToxiGen's repository, not its annotated test set"
    table = get("toxigen").provenance(BenchmarkSpec(name="toxigen", source="file"))
    assert table == f"official file {PLACE}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": " "}, r"row 2: text is ' ', it should be text"),
        ({"text": "b''"}, r"row 2: text is \"b''\", it should be a statement"),
        ({"target_group": None}, "row 2: target_group is None"),
        ({"toxicity_ai": float("nan")}, r"row 2: toxicity_ai is nan, it should be a number from 1 to 5"),
        ({"toxicity_human": None}, "row 2: toxicity_human is None"),
        ({"toxicity_human": 0.0}, r"row 2: toxicity_human is 0\.0"),
        ({"toxicity_human": float("inf")}, "row 2: toxicity_human is inf"),
    ],
)
def test_rows_that_are_no_statement_are_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    write_parquet(tmp_path, [row("First."), row(**fields)])
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test-00000-of-00001\.parquet: no such file; get annotated/test"):
        load(tmp_path)
    (tmp_path / "toxigen").mkdir()
    with pytest.raises(InputError, match="holds no hate_<group>_sentences"):
        load(tmp_path, path="toxigen")
    write_csv(tmp_path, [{"text": "a", "target_group": "b", "toxicity_ai": "1"}])
    with pytest.raises(InputError, match="column 'toxicity_human' is missing, found text, target_group, toxicity_ai"):
        load(tmp_path, path="annotated_test.csv")
    write_csv(tmp_path, [row(ai="high")])
    with pytest.raises(InputError, match="line 2: toxicity_ai is 'high', it should be a number"):
        load(tmp_path, path="annotated_test.csv")
    write_parquet(tmp_path, [row()])
    wrong = make_config("toxigen", benchmark__source="file", benchmark__sha256="0" * 64, shots__pool=0)
    with pytest.raises(InputError, match=r"benchmark\.sha256 is 0000"):
        load_data(wrong, tmp_path)


def test_score_by_hand(tmp_path: Path) -> None:
    write_parquet(tmp_path, [row("Statement."), row("Other statement.", 1.0, 1.0)])
    toxigen, config = get("toxigen"), make_config("toxigen")
    for item in load(tmp_path)[0]:
        right = item.gold[0]
        logprobs = [-1.0 if index == right else -2.0 for index in range(2)]
        assert toxigen.score_logprobs(item, config, logprobs, [1, 1]).value == 1.0
        assert toxigen.score_logprobs(item, config, logprobs[::-1], [1, 1]).value == 0.0
        assert toxigen.candidates(item, config) == item.options
        assert toxigen.answer(item, config) == label(item)
        lettered = make_config("toxigen", scoring__candidate="letter")
        assert toxigen.candidates(item, lettered) == ("A", "B")
        assert toxigen.readings(item) == (toxigen.answer(item, lettered),) == ("AB"[right],)
        free = make_config("toxigen", scoring__path="free")
        assert toxigen.score_text(item, free, "AB"[right], "stop")[0].value == 1.0
        assert toxigen.score_text(item, free, "BA"[right], "stop")[0].value == 0.0
        unread, letter = toxigen.score_text(item, free, "Yes, it is.", "stop")
        assert (unread.value, unread.status, letter) == (0.0, "unparsed", None)
        assert toxigen.chance(item, config) == 0.5


def test_a_letter_is_no_answer() -> None:
    items = load_data(make_config("toxigen", shots__pool=0), None).items
    first = [item.options[0] for item in items]
    assert 0.25 <= first.count("Yes") / len(first) <= 0.75
    prompt = get("toxigen").prompt(items[0], (), make_config("toxigen", scoring__candidate="letter"))
    assert f"A. {items[0].options[0]}\nB. {items[0].options[1]}\nAnswer:" in prompt
    assert "A. " not in get("toxigen").prompt(items[0], (), make_config("toxigen"))


def test_pocket_statements_are_ours_and_enough() -> None:
    data = load_data(make_config("toxigen", benchmark__items={"count": 24}), None)
    assert data.source == "pocket/toxigen.jsonl (our own items, not the benchmark)"
    assert all(item.row["note"].startswith("Not the benchmark") for item in data.items + data.pool)
    assert {label(item) for item in data.items} == {"Yes", "No"}
