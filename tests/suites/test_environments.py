"""Real environments, built by uv from a lock of one small wheel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from safetyrepro import adapters
from safetyrepro.errors import EnvironmentMissing, InputError
from safetyrepro.suites import ensure
from safetyrepro.suites.environments import find, folder_of
from safetyrepro.suites.lockfile import read_lock
from tests.suites.tiny_suite import PACKAGE, VERSION, make_wheel, write_lock

ENSURE = "import sys; from pathlib import Path; from safetyrepro.suites import ensure; {}".format(
    "print(ensure(Path(sys.argv[1]), progress=lambda line: print(line, flush=True)).python)"
)


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny suite's lock, with caches of the test's own and no index but the folder with its wheel."""
    sha256 = make_wheel(tmp_path / "wheels")
    monkeypatch.setenv("SAFETYREPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    return write_lock(tmp_path / "tiny", sha256)


def start(lock: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", ENSURE, str(lock)], stdout=subprocess.PIPE, text=True)


def test_it_is_built_once_and_found_again(lock: Path) -> None:
    said: list[str] = []
    assert find(lock) is None
    built = ensure(lock, progress=said.append)
    assert (built.name, built.version, built.size > 0) == ("tiny", VERSION, True)
    assert said[0].startswith("tiny: building")
    assert said[-1].startswith(f"tiny {VERSION}: ready")
    command = [str(built.python), "-c", f"import {PACKAGE}; print({PACKAGE}.VERSION)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == VERSION
    said.clear()
    assert ensure(lock, progress=said.append) == built == find(lock)
    assert said == []


def test_two_processes_at_once_build_it_once(lock: Path) -> None:
    folder = folder_of(read_lock(lock))
    folder.parent.mkdir(parents=True)
    with FileLock(f"{folder}.lock"):
        both = [start(lock), start(lock)]
        first = [(process.stdout or pytest.fail("no pipe")).readline() for process in both]
        assert ["another process is building" in line for line in first] == [True, True]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("building its environment" in output for output in said) == [False, True]
    assert {output.splitlines()[-1] for output in said} == {str(folder / "bin" / "python")}


def test_one_that_was_cut_off_is_built_anew(lock: Path) -> None:
    folder = folder_of(read_lock(lock))
    process = start(lock)
    assert "building" in (process.stdout or pytest.fail("no pipe")).readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (folder / "half").mkdir(parents=True, exist_ok=True)
    assert find(lock) is None
    assert ensure(lock).version == VERSION
    assert not (folder / "half").exists()


def test_rebuild_builds_what_stands(lock: Path) -> None:
    built = ensure(lock)
    stray = built.python.parent.parent / "stray"
    stray.touch()
    assert ensure(lock, rebuild=True) == built
    assert not stray.exists()


def test_another_file_than_the_locked_one_is_refused(lock: Path, tmp_path: Path) -> None:
    wrong = write_lock(tmp_path / "wrong", "0" * 64)
    with pytest.raises(
        EnvironmentMissing, match=r"wrong could not be built.*do not agree.*safetyrepro suites sync wrong"
    ):
        ensure(wrong)
    assert not folder_of(read_lock(wrong)).exists()


def test_no_network_is_said_so(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_FIND_LINKS", "UV_NO_INDEX"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentMissing, match="check the network, then run `safetyrepro suites sync tiny`"):
        ensure(lock)


def test_a_cache_that_cannot_be_written_is_named(lock: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SAFETYREPRO_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentMissing, match="SAFETYREPRO_CACHE"):
        ensure(lock)


def test_bad_lock_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_lock(tmp_path / "absent.lock")
    (tmp_path / "bare.lock").write_text("six==1.17.0\n")
    with pytest.raises(InputError, match="safetyrepro: main"):
        read_lock(tmp_path / "bare.lock")
    with pytest.raises(InputError, match="pins no elsewhere"):
        read_lock(write_lock(tmp_path / "other", "0" * 64, main="elsewhere"))


@pytest.mark.parametrize("name", ["lm_eval", "helm", "inspect_ai", "inspect_ai@0.3.258"])
def test_locks_pin_and_hash_everything_and_name_no_machine(name: str) -> None:
    path = adapters.lock_of(name)
    assert path is not None
    lines = path.read_text(encoding="utf-8").splitlines()
    pins = [index for index, line in enumerate(lines) if line[0] not in "# "]
    assert len(pins) > 50
    for index in pins:
        assert "==" in lines[index]
        assert lines[index + 1].startswith("    --hash=sha256:")
    text = "\n".join(lines)
    assert "://" not in text
    assert os.sep + "home" not in text
    assert not [line for line in lines if line.startswith(("torch", "nvidia", "triton"))]
    assert read_lock(path).name == name
