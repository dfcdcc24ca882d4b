"""Programming problems end to end: two tiny versions write, what they wrote is run, and the reasons are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from safetyrepro.cli import main
from safetyrepro.errors import InputError
from safetyrepro.flips.code_file import read_code_items
from safetyrepro.flips.code_task import CodeTask, code_task
from safetyrepro.flips.task import Question
from safetyrepro.sandbox.isolation import missing_isolation
from tests.flips.problems import MBPP, human_eval
from tests.sandbox.programs import NO_NAMESPACES, UNSHARE
from tests.tiny import make_tiny_model

ROWS = [human_eval("add"), human_eval("sub")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("versions")
    return [str(make_tiny_model(folder / name, seed=seed)) for seed, name in enumerate(("v1", "v2"))]


@pytest.fixture(scope="module")
def boxed() -> bool:
    """Whether code can be locked away here."""
    return missing_isolation() is None


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def call(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in ("flips", *arguments)])
    return int(ended.value.code or 0)


def test_two_versions_write_code(
    models: list[str], boxed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random models pass nothing; every row says why. Where nothing can be locked away, nothing is written either."""
    path, out = write(tmp_path / "own.jsonl", *ROWS), tmp_path / "out"
    code = call("run", *models, "--code", path, "--limit", "1", "--out", out, "--json")
    if not boxed:
        assert code == 2
        assert "Error: Code is not run here, since it cannot be locked away: " in capsys.readouterr().err
        assert not out.exists()
        return
    assert code == 0
    body = json.loads(capsys.readouterr().out)["updates"]["update"]
    assert (body["items"], body["accuracy_old"], body["negative_flips"]) == (1, 0.0, 0)
    lines = (out / "update" / "1-own" / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["model"], row["item_id"], row["score"]) for row in rows] == [
        (name, "Own/add", 0.0) for name in ("v1", "v2")
    ]
    assert all(row["reason"] and row["answer"] and row["confidence"] < 0 for row in rows)
    assert rows[0]["gold"] == ROWS[0]["prompt"] + ROWS[0]["canonical_solution"]


def test_refused_without_isolation(models: list[str], tmp_path: Path) -> None:
    """Exit code 2, one sentence, before a model is loaded or anything written."""
    path, out = write(tmp_path / "own.jsonl", *ROWS), tmp_path / "out"
    arguments = ["flips", "run", *models, "--code", str(path), "--out", str(out)]
    script = NO_NAMESPACES.format(number=UNSHARE[os.uname().machine]) + (
        f"from safetyrepro.cli import main\nmain({arguments!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Error: Code is not run here, since it cannot be locked away: unshare: Operation not permitted. It takes Linux "
        "5.12 or later that lets this user make user, mount, process and network namespaces (containers often forbid "
        "it)."
    ]
    assert not done.stdout
    assert not out.exists()


def ask(task: CodeTask, item: str, text: str, finish: str = "stop") -> tuple[float | None, str, str | None]:
    score, read = task.score_text(Question(item, item, "", "", "", (), ()), text, finish)
    assert read is None
    return score.value, score.status, score.reason


def test_scores(boxed: bool, tmp_path: Path) -> None:
    items, sha256 = read_code_items(write(tmp_path / "own.jsonl", *ROWS))
    task = CodeTask(tmp_path / "own.jsonl", items, sha256, chat=False)
    assert ask(task, "Own/add", "") == (0.0, "unparsed", "the text holds no code")
    assert ask(task, "Own/add", " ", "length") == (0.0, "truncated", "the text holds no code")
    if boxed:
        assert ask(task, "Own/add", "    return a + b\n") == (1.0, "ok", None)
        assert ask(task, "Own/add", "```python\ndef add(a, b):\n    return a + b\n```") == (1.0, "ok", None)
        assert ask(task, "Own/sub", "    return a + b\n") == (
            0.0,
            "ok",
            "failed `assert candidate(2, 1) == 1, 'small numbers'`; it gave 3",
        )
    items, sha256 = read_code_items(write(tmp_path / "mbpp.jsonl", *MBPP))
    task = CodeTask(tmp_path / "mbpp.jsonl", items, sha256, chat=True)
    assert ask(task, "1", "I cannot.") == (0.0, "unparsed", "the text holds no code")
    if boxed:
        assert ask(task, "1", f"Sure.\n```python\n{MBPP[0]['code']}```") == (1.0, "ok", None)


def test_code_is_not_run_where_it_can_no_longer_be_locked_away(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", ROWS[0])
    script = NO_NAMESPACES.format(number=UNSHARE[os.uname().machine]) + (
        "from pathlib import Path\nfrom safetyrepro.flips.code_file import read_code_items\n"
        "from safetyrepro.flips.code_task import CodeTask\nfrom safetyrepro.flips.task import Question\n"
        f"path = Path({str(path)!r})\ntask = CodeTask(path, *read_code_items(path), chat=False)\n"
        "print(task.score_text(Question('Own/add', '', '', '', '', (), ()), '    return a + b', 'stop'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "safetyrepro.errors.InputError: own, item 'Own/add': code can no longer be locked away here (unshare: "
        "Operation not permitted), and was not run; run the same command again."
    )
    assert not done.stdout


def test_what_is_asked(models: list[str], boxed: bool, tmp_path: Path) -> None:
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine import load

    engine = load(ModelSpec(id=models[0], quant="none", threads=1))
    try:
        for row, plain, shown in (
            (ROWS[0], ROWS[0]["prompt"], f"```python\n{ROWS[0]['prompt'].rstrip()}\n```"),
            (
                MBPP[0],
                '"""\n{}\n{}\n"""\n'.format(MBPP[0]["text"], "\n".join(MBPP[0]["test_list"])),
                "```python\n{}\n```".format("\n".join(MBPP[0]["test_list"])),
            ),
        ):
            path = write(tmp_path / "items.jsonl", row)
            items, sha256 = read_code_items(path)
            base, chat = (CodeTask(path, items, sha256, chat=chat) for chat in (False, True))
            assert base.questions(engine.tokenizer)[0].prompt == plain
            assert shown in chat.questions(engine.tokenizer)[0].prompt
            assert base.config_id != chat.config_id
            assert base.decoding is not None
            assert base.decoding.stop
            assert chat.decoding is not None
            assert not chat.decoding.stop
    finally:
        engine.close()
    if boxed:
        assert code_task(path, 1, chat=False).config_id == base.config_id
    else:
        with pytest.raises(InputError, match="Code is not run here"):
            code_task(path, 1, chat=False)


def test_the_report_says_why_an_item_is_lost(tmp_path: Path) -> None:
    reason = "failed `assert add(1, 2) == 3`; it gave '<script>alert(1)</script>'"
    rows = [
        {"model": m, "benchmark": "code", "config_id": "c", "item_id": f"i{n}", "score": s, "status": "ok", "reason": r}
        for m, s, r in (("v1", 1.0, None), ("v2", 0.0, reason))
        for n in range(3)
    ]
    table = write(tmp_path / "outcomes.jsonl", *rows)
    for name, more in (("open", []), ("redacted", ["--redact"])):
        out = tmp_path / name
        assert call("analyze", table, "--old", "v1", "--new", "v2", "--out", out, *more) == 0
        flips = json.loads((out / "flips.json").read_text(encoding="utf-8"))["flips"]
        assert [row["new"]["reason"] for row in flips] == [reason if name == "open" else None] * 3
        page = (out / "flips.html").read_text(encoding="utf-8")
        assert ("it gave &#39;&lt;script&gt;" in page) == (name == "open")
        assert "<script>" not in page
