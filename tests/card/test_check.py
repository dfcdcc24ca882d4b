"""`card check`: what a card leaves open, errors in one sentence, a card held to its run, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetyrepro.analysis.card.model import Card, schema
from safetyrepro.card.file import read_card
from tests.card.conftest import Run
from tests.envelope.conftest import Ran

HERE = Path(__file__).parents[2]


@pytest.fixture
def spoilt(body: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(body))
    return path


def test_a_card_is_written_checked_and_as_its_run(sealed_copy: Path, run: Run) -> None:
    code, out, _ = run(sealed_copy)
    assert code == 0
    assert f"Next: open {sealed_copy / 'card.html'} in a browser" in out
    code, out, _ = run("check", sealed_copy / "card.json")
    assert code == 0
    assert f"As its run has it: {sealed_copy}" in out
    assert "weights hash (tiny-0, tiny-1): unverified; read from the file" in out
    assert out.splitlines()[-1].startswith("Next: Claim no order") or "Hold the seal" in out.splitlines()[-1]


def test_a_card_in_the_runs_folder_does_not_break_its_seal(sealed_copy: Path, run: Run) -> None:
    from safetyrepro.envelope.verify import verify

    run(sealed_copy)
    assert verify(sealed_copy).holds


def test_a_card_that_says_more_than_its_run_differs(ran: Ran, body: dict[str, Any], tmp_path: Path, run: Run) -> None:
    weights = body["models"][0]["weights_sha256"]
    body["models"][0]["weights_sha256"] = {"state": "given", "value": weights["value"], "source": "plan.json"}
    body["stability"]["benchmarks"][0]["sentence"] = "A is safer than B."
    path = tmp_path / "card.json"
    path.write_text(json.dumps(body))
    code, out, _ = run("check", path, "--run", ran.folder)
    assert code == 1
    assert 'DIFFERS  models.0.weights_sha256.state: the card says "given", the run "unverified"' in out
    assert 'the card says "A is safer than B."' in out
    code, out, _ = run("check", path, "--run", ran.folder, "--json")
    report = json.loads(out)
    assert code == 1
    assert report["run"]["matches"] is False
    assert {one["path"] for one in report["run"]["differences"]} >= {
        "models.0.weights_sha256.state",
        "stability.benchmarks.0.sentence",
    }


@pytest.mark.parametrize(
    ("limit", "code"),
    [("open=1", 1), ("open=1000", 0), ("decisive=1", 0), ("trust=1", 1), ("context=99", 0)],
)
def test_fail_on_counts_open_fields(written: Path, limit: str, code: int, run: Run) -> None:
    found, _, err = run("check", written, "--fail-on", limit)
    assert found == code
    assert ("Over the threshold" in err) is bool(code)


@pytest.mark.parametrize("limit", ["open", "open=0", "open=-1", "open=x", "holes=1", "open=١", "", "open=1.5"])
def test_a_threshold_that_is_none_is_bad_usage(written: Path, limit: str, run: Run) -> None:
    code, _, err = run("check", written, "--fail-on", limit)
    assert code == 2
    assert "is none of open=N" in err


def test_json_is_json_alone(written: Path, run: Run) -> None:
    code, out, _ = run("check", written, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["run"] is None
    assert report["open"] == report["decisive"] + report["trust"] + report["repeat"] + report["context"]
    assert report["open"] == sum(len(gap["paths"]) for gaps in report["groups"].values() for gap in gaps)


SPOILT = {
    "missing": (lambda card: card["models"][0].pop("quant"), "models.0.quant is missing"),
    "unknown": (lambda card: card.update(score=1), "score is no field of a card"),
    "state": (
        lambda card: card["run"]["hardware"].update(state="secret"),
        "run.hardware.state is \"secret\", it should be one of 'given'",
    ),
    "hash": (
        lambda card: card["envelope"]["seal"].update(value="abc"),
        'envelope.seal.value is "abc", it should be 64 lower-case hex digits',
    ),
    "type": (
        lambda card: card["benchmarks"][0]["items"].update(value="two"),
        'benchmarks.0.items.value is "two", it should be a valid integer',
    ),
    "literal": (
        lambda card: card["models"][0]["id"].update(value="a secret model"),
        "models.0.id.value is \"a secret model\", it should be 'not disclosed'",
    ),
    "no-reason": (
        lambda card: card["models"][0]["id"].update(reason=""),
        'models.0.id.reason is "", it should have at least 1 character',
    ),
    "no-models": (lambda card: card.update(models=[]), "models is [], it should have at least 1 item"),
    "draws": (lambda card: card["stability"].update(draws=10**12), "stability.draws is 1000000000000"),
    "format": (lambda card: card.update(format="2"), "format is \"2\", it should be 'safetyrepro-grid-card-1'"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_card_that_is_none_is_one_sentence(name: str, body: dict[str, Any], tmp_path: Path, run: Run) -> None:
    change, said = SPOILT[name]
    change(body)
    path = tmp_path / "card.json"
    path.write_text(json.dumps(body))
    code, _, err = run("check", path)
    assert code == 2
    assert err.startswith(f"Error: {path}: ")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", [name for name in SPOILT if name != "draws"])
def test_the_schema_refuses_what_the_command_refuses(name: str, body: dict[str, Any]) -> None:
    SPOILT[name][0](body)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, shipped())


def shipped() -> dict[str, Any]:
    path = HERE / "safetyrepro" / "card" / "card.schema.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_shipped_schema_is_the_models(run: Run) -> None:
    assert shipped() == schema()
    code, out, _ = run("schema")
    assert (code, json.loads(out)) == (0, schema())


def test_cards_of_all_kinds_hold_to_the_schema(sealed_card: Card, anchor_card: Card) -> None:
    for card in (sealed_card, anchor_card):
        jsonschema.validate(json.loads(card.model_dump_json()), shipped())


BYTES = {
    "empty": (b"", "is no JSON"),
    "cut": (b'{"format": ', "line 1, column 12: is no JSON"),
    "list": (b"[1]", "found [1], a card is an object"),
    "number": (b"7", "found 7, a card is an object"),
    "twice": (b'{"format": "a", "format": "b"}', 'key "format" stands twice'),
    "nan": (b'{"format": NaN}', "NaN is no number of JSON"),
    "infinity": (b'{"format": -Infinity}', "-Infinity is no number of JSON"),
    "not-utf8": (b'{"format": "\xff"}', "is not UTF-8 text"),
    "surrogate": (b'{"format": "\\ud800"}', "is no JSON"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "long-number": (b'{"format": ' + b"9" * 10_000 + b"}", "is no JSON of a card"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_card_are_one_sentence(name: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "card.json"
    content, said = BYTES[name]
    path.write_bytes(content)
    code, _, err = run("check", path)
    assert code == 2
    assert err.startswith(f"Error: {path}")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_byte_order_mark_is_no_error(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf" + written.read_bytes())
    assert read_card(path) == read_card(written)


@pytest.mark.parametrize("what", ["nowhere", "folder", "run-nowhere"])
def test_what_is_not_there_is_one_sentence(what: str, written: Path, tmp_path: Path, run: Run) -> None:
    path = {"nowhere": tmp_path / "no.json", "folder": tmp_path}.get(what, written)
    more = ("--run", tmp_path / "no") if what == "run-nowhere" else ()
    code, _, err = run("check", path, *more)
    assert code == 2
    assert err.startswith("Error: ")


def test_a_folder_that_holds_no_run_gets_no_card(tmp_path: Path, run: Run) -> None:
    code, _, err = run(tmp_path)
    assert code == 2
    assert "holds none of plan.json, experiment.json, import.json" in err
    assert not list(tmp_path.iterdir())


def test_an_unknown_tier_writes_nothing(sealed_copy: Path, run: Run) -> None:
    code, _, err = run(sealed_copy, "--tier", "best")
    assert code == 2
    assert "known are full, core, conservative" in err
    assert not (sealed_copy / "card.json").exists()


def test_the_cards_own_tier_is_that_of_the_comparison(sealed_copy: Path, run: Run) -> None:
    code, out, _ = run(sealed_copy, "--tier", "conservative", "--json")
    assert code == 0
    assert json.loads(out)["stability"]["tier"] == "conservative"
    code, _, _ = run("check", sealed_copy / "card.json")
    assert code == 0


def test_a_damaged_run_beside_a_card_is_one_sentence(sealed_copy: Path, written: Path, run: Run) -> None:
    shutil.copy(written, sealed_copy / "card.json")
    for shard in (sealed_copy / "shards").glob("*"):
        shard.write_bytes(b"no parquet")
    code, _, err = run("check", sealed_copy / "card.json")
    assert code == 2
    assert "not a records file" in err


def test_a_terminal_is_not_written_to_by_a_card(body: dict[str, Any], tmp_path: Path, run: Run) -> None:
    body["models"][0]["id"]["reason"] = "\x1b]0;owned\x07 \u202e evil\nsecond line"
    path = tmp_path / "card.json"
    path.write_text(json.dumps(body))
    _, out, _ = run("check", path)
    assert "owned" in out
    assert not set("\x1b\x07\u202e") & set(out)
    assert "\nsecond line" not in out
