"""The commands: what they print, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from safetyrepro.analysis.power import items_needed
from safetyrepro.cli import main
from tests.envelope.conftest import Ran
from tests.envelope.grids import BBQ, OWN, body

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["envelope", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def grid(models: tuple[Path, ...], tmp_path: Path) -> Path:
    """A file of one cell by likelihood and one generated; JSON is YAML."""
    path = tmp_path / "grid.yaml"
    axes = [axis for axis in body(models)["axes"] if axis["name"] == "scoring"]
    path.write_text(json.dumps(body(models[:1], benchmarks=[BBQ], axes=axes)), encoding="utf-8")
    return path


def test_plan_seal_run_verify(run: Run, grid: Path, tmp_path: Path) -> None:
    code, out, _ = run("plan", grid)
    assert code == 0
    assert "Envelope small: 2 cells, 1 shard\n" in out
    assert "tokens to read" in out
    assert f"Next: safetyrepro envelope seal {grid}" in out
    folder = tmp_path / "sealed"
    code, out, _ = run("seal", grid, "--out", folder, "--json")
    assert code == 0
    sealed = json.loads(out)
    assert (sealed["cells"], sealed["shards"]) == (2, 1)
    assert any("model tiny-0: weights_sha256: read from the file" in line for line in sealed["unverified"])
    code, out, _ = run("verify", folder)
    assert code == 3
    assert "Not run yet: the plan is as sealed, and none of its 2 cells in 1 shard has a result." in out
    assert f"Next: safetyrepro envelope run {folder}" in out
    assert "DIFFERS" not in out
    code, out, _ = run("verify", folder, "--json")
    assert (code, json.loads(out)["started"], json.loads(out)["holds"]) == (3, False, False)
    code, out, _ = run("verify", folder, "--head", "0" * 64)
    assert code == 1
    assert "has no line in the ledger: its 2 cells are missing" in out
    code, out, _ = run("run", folder)
    assert code == 0
    assert f"Seal: {sealed['seal']}\nHead: " in out
    head = out.split("Head: ")[1].split()[0]
    code, out, _ = run("verify", folder, "--seal", sealed["seal"], "--head", head)
    assert code == 0
    assert "As sealed: 2 cells in 1 shard, 4 rows." in out
    assert "Its owner could have made" not in out
    code, out, _ = run("verify", folder, "--seal", "0" * 64, "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["holds"], found["head"], found["seal"]) == (False, head, sealed["seal"])
    assert found["problems"] == [
        {
            "where": "plan.json",
            "what": f"its SHA-256 is {sealed['seal']}, the published seal is {'0' * 64}: this is another plan",
        }
    ]


def test_the_next_command_seals_what_was_planned(run: Run, grid: Path) -> None:
    code, out, _ = run("plan", grid, "--limit", "1", "--model", "tiny-0", "--benchmark", "bbq")
    assert code == 0
    narrowed = "--limit 1 --model tiny-0 --benchmark bbq --out sealed"
    assert out.endswith(f"Next: safetyrepro envelope seal {grid} {narrowed}\n")


def test_a_template_that_is_none_is_named_with_file_and_line(run: Run, grid: Path) -> None:
    text = grid.read_text(encoding="utf-8").replace('{"scoring": {"path": "free"}}', '{"prompt":\n{"template": "odd"}}')
    grid.write_text(text, encoding="utf-8")
    code, _, err = run("plan", grid)
    assert code == 2
    assert f"{grid}, line 2: axes.0.levels.0.config.prompt.template is 'odd'; bbq has chain_of_thought" in err


def test_levels_that_are_no_config_are_named_with_the_file(run: Run, grid: Path) -> None:
    text = grid.read_text(encoding="utf-8").replace('{"path": "free"}', '{"path": "odd"}')
    grid.write_text(text, encoding="utf-8")
    code, _, err = run("plan", grid)
    assert code == 2
    assert err.startswith(f"Error: {grid}: Envelope small, benchmark bbq, levels scoring=free")


def test_a_text_that_is_no_grid_is_quoted_whole(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("model,benchmark,config_id,item_id,score,template,decoding,shots,scoring,confidence\n")
    code, _, err = run("plan", path)
    assert code == 2
    assert err.count('"') == 2
    path.write_text("")
    code, _, err = run("plan", path)
    assert code == 2
    assert "is empty" in err
    assert "needed here: name, models, benchmarks" in err


def test_a_folder_that_never_held_a_sealed_plan_ends_with_2(run: Run, ran: Ran, copy: Callable[[], Path]) -> None:
    folder = copy()
    (folder / "SEAL").unlink()
    assert run("verify", folder)[0] == 1
    (folder / "plan.json").write_text("")
    code, out, err = run("verify", folder)
    assert (code, out) == (2, "")
    assert "it is no sealed plan" in err


def test_plan_counts_what_an_engine_is_asked(run: Run, grid: Path) -> None:
    code, out, _ = run("plan", grid, "--json", "--measure")
    assert code == 0
    (one,) = json.loads(out)["estimates"]
    # Two items: a generation each, and three letters each, behind the same prompts.
    assert (one["requests"], one["unique_requests"], one["prompts"]) == (2 + 6, 2 + 6, 2)
    assert one["generated_at_most"] == 4
    assert one["tokens_once"] < one["tokens"] / 3
    assert one["measured"]
    assert one["seconds"] > 0


def test_plan_of_the_reference_envelope_says_what_is_not_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, out, _ = run("plan", OWN / "reference.yaml", "--benchmark", "bbq", "--json", "--difference", "5")
    assert code == 0
    found = json.loads(out)
    assert len(found["cells"]) == 144
    assert found["tiers"] == {"full": 144, "core": 81, "conservative": 12}
    assert [row["discordant"] for row in found["items_needed"]["rows"]] == [0.1, 0.2, 0.3, 0.5]
    assert found["items_needed"]["configurations"] == 48
    first = found["items_needed"]["rows"][0]
    assert first["items"] == items_needed(0.05, 0.1)
    assert first["items_adjusted"] > first["items"]
    assert any("qwen2.5-7b-instruct: weights_sha256" in line for line in found["unverified"])


def test_a_difference_larger_than_the_discordance_is_not_possible(run: Run, grid: Path) -> None:
    code, out, _ = run("plan", grid, "--difference", "30", "--discordant", "20")
    assert code == 0
    assert "20% of items discordant: not possible" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["run", "nowhere"], "cannot be read"),
        (["verify", "nowhere"], "cannot be read"),
        (["verify", "nowhere", "--seal", "abc"], "'abc' is not 64 lower-case hex digits"),
        (["plan", str(OWN / "embedded.yaml"), "--model", "gpt"], "--model names 'gpt'; the envelope has smollm2-nf4"),
    ],
)
def test_bad_input(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_touched_folder_ends_with_1(run: Run, ran: Ran, copy: Callable[[], Path]) -> None:
    folder = copy()
    path = next((folder / "shards").glob("*.parquet"))
    path.write_bytes(path.read_bytes() + b"x")
    code, out, _ = run("verify", folder)
    assert code == 1
    assert f"DIFFERS  shards/{path.name}: was changed" in out
    code, _, err = run("run", folder)
    assert code == 2
    assert "was changed after it was finished" in err
