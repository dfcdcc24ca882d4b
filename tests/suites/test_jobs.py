"""Runners as real processes: what they see, how their failures are told, and that none outlives us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetyrepro import adapters
from safetyrepro.errors import SuiteFailure
from safetyrepro.suites import ensure, jobs

TOKEN = "a-token-of-this-run"
SLEEPERS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2] + "/pids", "w").write(f"{os.getpid()} {child.pid}\\n")
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Runs a script as the suite `somesuite`; the output folder."""

    def run(script: str, python: Path = Path(sys.executable), **options: Any) -> Path:
        runner = tmp_path / "somesuite" / "runner.py"
        runner.parent.mkdir(exist_ok=True)
        runner.write_text(script, encoding="utf-8")
        (tmp_path / "job.json").write_text("{}", encoding="utf-8")
        env = {"SAFETYREPRO_TOKEN": TOKEN}
        jobs.run(python, runner, tmp_path / "job.json", tmp_path / "out", log=tmp_path / "log", env=env, **options)
        return tmp_path / "out"

    return run


def alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def sleepers(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def gone(pids: list[int]) -> bool:
    """Whether all of them end within a few seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(map(alive, pids)):
            return True
        time.sleep(0.05)
    return False


def test_a_runner_sees_an_empty_home_and_none_of_our_secrets(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("OPENAI_API_KEY", "HF_TOKEN", "INSPECT_EVAL_MODEL", "HELM_CREDENTIALS", "HTTPS_PROXY", "PYTHONPATH")
    for name in secrets:
        monkeypatch.setenv(name, "mine")
    out = run(
        "import json, os, sys; from pathlib import Path\n"
        "nltk = Path(os.environ['NLTK_DATA'], 'tokenizers', 'punkt_tab')\n"
        "seen = dict(env=dict(os.environ), cwd=os.listdir(), dotenv=Path('.env').read_text(), nltk=nltk.is_dir(),"
        " home=os.listdir(Path.home()), path=sys.path, argv=sys.argv[1:])\n"
        "Path(sys.argv[2], 'seen.json').write_text(json.dumps(seen))\n"
    )
    seen = json.loads((out / "seen.json").read_text())
    assert not set(secrets) & set(seen["env"])
    assert "mine" not in seen["env"].values()
    assert seen["env"]["SAFETYREPRO_TOKEN"] == TOKEN
    offline = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
    assert [seen["env"][name] for name in offline] == ["1", "1", "1"]
    assert (seen["cwd"], seen["dotenv"], seen["home"], seen["nltk"]) == ([".env"], "", [], True)
    assert str(out.parent / "somesuite") not in seen["path"]
    assert seen["argv"] == [str(out.parent / "job.json"), str(out)]
    assert not Path(seen["env"]["HOME"]).exists()


def test_failure_quotes_the_last_lines_without_the_token(run: Callable[..., Path], tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "for number in range(40): print('line', number)\n"
        "print('\\x1b[31mBearer', os.environ['SAFETYREPRO_TOKEN'], '\\x1b[0m', file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    with pytest.raises(SuiteFailure) as failure:
        run(script)
    first, *lines = str(failure.value).splitlines()
    assert first == f"somesuite ended with exit code 3; its log {tmp_path / 'log'} ends:"
    assert len(lines) == jobs.LAST_LINES
    assert lines[0].strip() == f"line {40 - jobs.LAST_LINES + 1}"
    assert lines[-1].strip() == "Bearer [token]"
    assert TOKEN not in (tmp_path / "log").read_text()


def test_a_signal_is_named(run: Callable[..., Path]) -> None:
    with pytest.raises(SuiteFailure, match="somesuite was killed by SIGSEGV"):
        run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")


def test_an_interpreter_that_is_not_there_is_a_failure(run: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(SuiteFailure, match="cannot be started"):
        run("", python=tmp_path / "no-python")


def test_the_timeout_ends_the_whole_group(run: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(SuiteFailure, match=r"somesuite was stopped after 1\.5 s"):
        run(SLEEPERS + "time.sleep(600)", timeout=1.5)
    assert gone(sleepers(tmp_path / "out"))


def test_an_interrupt_ends_the_whole_group(run: Callable[..., Path], tmp_path: Path) -> None:
    def tick() -> None:
        if (tmp_path / "out" / "pids").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SLEEPERS + "time.sleep(600)", on_tick=tick)
    assert gone(sleepers(tmp_path / "out"))


def test_what_a_runner_leaves_running_is_ended_with_it(run: Callable[..., Path]) -> None:
    ticks: list[float] = []
    out = run(SLEEPERS + "time.sleep(0.8)", on_tick=lambda: ticks.append(time.monotonic()))
    assert gone(sleepers(out))
    assert len(ticks) >= 3


def test_no_runner_outlives_us_even_where_we_are_killed(tmp_path: Path) -> None:
    runner = tmp_path / "somesuite" / "runner.py"
    runner.parent.mkdir()
    runner.write_text(SLEEPERS + "time.sleep(600)", encoding="utf-8")
    script = (
        "import sys; from pathlib import Path; from safetyrepro.suites import jobs\n"
        "runner, job, out, log = map(Path, sys.argv[1:])\n"
        "jobs.run(Path(sys.executable), runner, job, out, log=log, env={})\n"
    )
    places = [str(runner), str(tmp_path / "job.json"), str(tmp_path / "out"), str(tmp_path / "log")]
    parent = subprocess.Popen([sys.executable, "-c", script, *places], env={**os.environ, "TMPDIR": str(tmp_path)})
    until = time.monotonic() + 20
    while not (tmp_path / "out" / "pids").exists() or len((tmp_path / "out" / "pids").read_text()) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    pids = sleepers(tmp_path / "out")
    assert all(map(alive, pids))
    parent.kill()
    parent.wait()
    assert gone(pids)


def test_helm_runs_without_torch(run: Callable[..., Path]) -> None:
    lock = adapters.get("helm").lock
    assert lock is not None
    run(
        "import sys\n"
        "import helm.benchmark.run\n"
        "from helm.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer\n"
        "from helm.clients.openai_client import OpenAILegacyCompletionsClient\n"
        "from helm.benchmark.run_spec import get_run_spec_function\n"
        "assert get_run_spec_function('truthful_qa') and get_run_spec_function('bbq')\n"
        "assert 'torch' not in sys.modules\n",
        python=ensure(lock).python,
    )
