from __future__ import annotations

import csv
import functools
import hashlib
import http.server
import io
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safetyrepro.benchmarks import Item, get, load_data
from safetyrepro.benchmarks.truthfulqa import split_answers
from safetyrepro.config import BenchmarkSpec
from safetyrepro.errors import InputError
from tests.benchmarks.configs import make_config

HEADER = ("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source")
ROWS = (
    ("A", "Tea", "Is tea blue?", "No", "No; Tea is brown or green", "Yes; Yes, all tea is blue", "s"),
    ("A", "Tea", "What is tea made from? ", "Leaves ", "Leaves; ; Unknown;", "Roots; Roots ; Unknown; Bark;", "s"),
    ("A", "Ice", "What is ice?", "Water; frozen", "Solid water; Water; frozen", "Glass; Salt", "s"),
    ("A", "Ice", "Is tea blue?", "Not at all", "Not at all", "Surely", "s"),
)


def write_csv(path: Path, rows: Any = ROWS, header: tuple[str, ...] = HEADER) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    content = b"\xef\xbb\xbf" + text.getvalue().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return content


def load(folder: Path, **fields: Any) -> tuple[tuple[Item, ...], str]:
    return get("truthfulqa").load(BenchmarkSpec(name="truthfulqa", source="file", **fields), folder)


def test_official_file_with_its_quirks(tmp_path: Path) -> None:
    content = write_csv(tmp_path / "truthfulqa/TruthfulQA.csv")
    items, sha256 = load(tmp_path)
    assert sha256 == hashlib.sha256(content).hexdigest()
    blue, made, ice, again = items
    assert blue.item_id == "tqa-" + hashlib.sha256(b"Is tea blue?").hexdigest()[:12] == blue.cluster
    assert set(blue.options) == {"No", "Yes", "Yes, all tea is blue"}
    assert [blue.options[i] for i in blue.gold] == ["No"]
    # An answer that is listed as true and as false counts as neither; repeats and empty pieces are gone.
    assert made.question == "What is tea made from?"
    assert sorted(made.options) == ["Bark", "Leaves", "Roots"]
    options, gold = made.scored("mc2")
    assert (sorted(options), [options[i] for i in gold]) == (["Bark", "Leaves", "Roots"], ["Leaves"])
    options, gold = ice.scored("mc2")
    assert {options[i] for i in gold} == {"Solid water", "Water; frozen"}
    # The same question again is an item of its own in the first one's cluster.
    assert (again.item_id, again.cluster) == (blue.item_id + "-2", blue.cluster)
    assert made.row["Best Answer"] == "Leaves "


def test_splitting_answers() -> None:
    assert split_answers("a; b;c ;  ; a; d;") == ["a", "b;c", "d"]
    assert split_answers("x; one; two; y", best="one; two") == ["x", "one; two", "y"]
    assert split_answers("") == []


def test_gold_is_not_always_first_and_order_is_fixed() -> None:
    items, _ = get("truthfulqa").load(BenchmarkSpec(name="truthfulqa"), None)
    assert len({item.gold for item in items}) > 2
    for item in items:
        expected = sorted(
            item.options, key=lambda text: hashlib.sha256(f"{item.question}\n{text}".encode()).hexdigest()
        )
        assert list(item.options) == expected


def test_pocket_set_is_ours_and_large_enough() -> None:
    items, _ = get("truthfulqa").load(BenchmarkSpec(name="truthfulqa"), None)
    assert len(items) >= 32
    for item in items:
        assert "Not the benchmark" in item.row["note"]
        assert set(HEADER) <= set(item.row)
        options, gold = item.scored("mc2")
        assert 2 <= len(gold) <= 4
        assert 2 <= len(options) - len(gold) <= 4
        assert item.row["Correct Answers"].startswith(item.row["Best Answer"])
        # Suites split on a bare semicolon, which must give the same answers.
        assert all(";" not in option for option in options)
        assert len({text.lower() for text in options}) == len(options)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, tuple(name.replace("Best", "Beste") for name in HEADER), "line 1: column 'Best Answer' is missing"),
        ([("A", "Tea", "Why?", "Because")], HEADER, "line 2: found 4 fields, the header has 7"),
        ([*ROWS[:1], ("A", "Tea", " ", "b", "b", "c", "s")], HEADER, "line 3: Question is ' '"),
        ([("A", "Tea", "q", "b", "b", "; ", "s")], HEADER, "line 2: 0 false answers are left, it should be 1 to 25"),
        ([("A", "Tea", "q", "b", "b", "b", "s")], HEADER, "line 2: 0 false answers are left"),
    ],
)
def test_malformed_file_is_named_with_line_and_field(
    tmp_path: Path, rows: Any, header: tuple[str, ...], message: str
) -> None:
    write_csv(tmp_path / "truthfulqa/TruthfulQA.csv", rows, header)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "truthfulqa/TruthfulQA.csv") in str(caught.value)


def test_unterminated_quote_and_wrong_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(HEADER) + '\nA,B,"never closed\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"t\.csv, line 2: not a CSV row"):
        load(tmp_path, path="t.csv")
    path.write_bytes(b"Type,\xff")
    with pytest.raises(InputError, match="byte 5 is 0xff, which is not UTF-8"):
        load(tmp_path, path="t.csv")


def test_missing_file_and_missing_folder_say_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(tmp_path / "truthfulqa/TruthfulQA.csv") in str(caught.value)
    assert "github.com/sylinrl/TruthfulQA" in str(caught.value)
    with pytest.raises(InputError, match="SAFETYREPRO_DATA"):
        get("truthfulqa").load(BenchmarkSpec(name="truthfulqa", source="file"), None)


def test_categories(tmp_path: Path) -> None:
    write_csv(tmp_path / "truthfulqa/TruthfulQA.csv")
    items, _ = load(tmp_path, categories=("Ice",))
    assert [item.category for item in items] == ["Ice", "Ice"]
    with pytest.raises(InputError, match=r"names 'Coffee', the categories in .* are: Ice, Tea"):
        load(tmp_path, categories=("Coffee",))


def test_mc1_and_mc2_against_a_hand_computation(tmp_path: Path) -> None:
    write_csv(tmp_path / "truthfulqa/TruthfulQA.csv")
    item = load(tmp_path)[0][0]
    benchmark, mc1 = get("truthfulqa"), make_config("truthfulqa")
    logprobs = [-3.0 if text == "No" else -5.0 for text in benchmark.candidates(item, mc1)]
    score = benchmark.score_logprobs(item, mc1, logprobs, [1] * 3)
    assert (score.value, score.choice, score.status) == (1.0, item.gold[0], "ok")
    # Four times the divisor turns -3 into -0.75: the false ones then win where they are divided by more.
    worse = benchmark.score_logprobs(item, mc1, logprobs, [1.0 if text == "No" else 10.0 for text in item.options])
    assert worse.value == 0.0
    mc2 = make_config("truthfulqa", metric="mc2")
    value = {"No": -1.0, "Tea is brown or green": -2.0, "Yes": -1.5, "Yes, all tea is blue": -4.0}
    mass = benchmark.score_logprobs(item, mc2, [value[text] for text in benchmark.candidates(item, mc2)], [1] * 4)
    right = math.exp(-1) + math.exp(-2)
    assert mass.value == pytest.approx(right / (right + math.exp(-1.5) + math.exp(-4)), abs=1e-15)
    assert benchmark.chance(item, mc1) == pytest.approx(1 / 3)
    assert benchmark.chance(item, mc2) == pytest.approx(2 / 4)


class HubFiles(http.server.SimpleHTTPRequestHandler):
    """The two answers that a hub client needs: the data set's commit, and a file with its headers."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        commit = "0123456789abcdef0123456789abcdef01234567"
        name = "multiple_choice/validation-00000-of-00001.parquet"
        base = "/datasets/truthfulqa/truthful_qa"
        if self.path.split("?")[0].startswith(f"/api{base}"):
            content = json.dumps({"id": "truthfulqa/truthful_qa", "sha": commit}).encode()
        elif self.path == f"{base}/resolve/{commit}/{name}":
            content = Path(self.directory, "data.parquet").read_bytes()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    rows = [
        {
            "question": "Is tea blue?",
            "mc1_targets": {"choices": ["No", "Yes"], "labels": [1, 0]},
            "mc2_targets": {"choices": ["No", "Never", "Yes"], "labels": [1, 1, 0]},
        },
        {
            "question": "Is ice hot?",
            "mc1_targets": {"choices": ["No", "Yes"], "labels": [1, 0]},
            "mc2_targets": {"choices": ["No", "Yes"], "labels": [1, 0]},
        },
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data.parquet")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(HubFiles, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def load_in_a_process(endpoint: str, home: Path, revision: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import json, sys\n"
        "from safetyrepro.benchmarks import load_data\n"
        "from safetyrepro.errors import InputError\n"
        "from tests.benchmarks.configs import make_config\n"
        f"hub = {{'benchmark__source': 'hub', 'benchmark__revision': {revision!r}}}\n"
        "config = make_config('truthfulqa', shots__pool=1, **hub)\n"
        "try:\n"
        "    data = load_data(config, None)\n"
        "except InputError as error:\n"
        "    sys.exit(str(error))\n"
        "print(json.dumps([data.revision, data.verified, data.sha256, data.items[0].scored('mc2')]))\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


def test_hub_data_set_and_an_unverified_revision(hub: str, tmp_path: Path) -> None:
    done = load_in_a_process(hub, tmp_path / "home", "unverified")
    assert done.returncode == 0, done.stderr
    revision, verified, sha256, (options, gold) = json.loads(done.stdout.splitlines()[-1])
    assert revision == "0123456789abcdef0123456789abcdef01234567"
    assert not verified
    assert sha256 == hashlib.sha256((tmp_path / "data.parquet").read_bytes()).hexdigest()
    assert "Yes" in options
    assert "Yes" not in [options[i] for i in gold]


def test_hub_without_that_revision(hub: str, tmp_path: Path) -> None:
    done = load_in_a_process(hub, tmp_path / "home", "f" * 40)
    assert done.returncode == 1
    assert "truthfulqa/truthful_qa" in done.stderr
    assert "benchmark.revision" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("mc1_targets", {"choices": ["No", "Yes"], "labels": [1, 1]}, "marks 2 choices as right"),
        ("mc1_targets", {"choices": ["No", "Yes"], "labels": [1]}, "as many labels as choices"),
        ("mc2_targets", {"choices": ["No", "Yes"], "labels": [1, 2]}, "labels 0 or 1"),
        ("question", "", "question is ''"),
    ],
)
def test_malformed_hub_rows(column: str, value: Any, message: str) -> None:
    from safetyrepro.benchmarks.truthfulqa import _from_hub

    targets = {"choices": ["No", "Yes"], "labels": [1, 0]}
    row = {"question": "q", "mc1_targets": targets, "mc2_targets": targets, column: value}
    with pytest.raises(InputError, match=f"file, row 7: .*{message}"):
        _from_hub("file, row 7", row)


def test_pocket_data_needs_no_folder() -> None:
    data = load_data(make_config("truthfulqa", benchmark__items={"count": 24}), None)
    assert (len(data.items), len(data.pool), data.licence) == (24, 8, "Apache-2.0")
    assert "not the benchmark" in data.source
