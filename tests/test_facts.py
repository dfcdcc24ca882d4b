"""What is recorded of the code: its commit where the checkout tracks it, and the hash of the files that decide."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from safetyrepro import benchmarks, facts
from safetyrepro.crosspkg.starts import CELL_CODE
from safetyrepro.envelope.plan import SHARD_CODE


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_the_repository_that_tracks_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed below a repository of somebody else, it has none: its files are not tracked there."""
    source = tmp_path / "benchmarks" / "__init__.py"
    source.parent.mkdir()
    source.write_text("")
    (tmp_path / "thesis.tex").write_text("precious")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "thesis.tex")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    monkeypatch.setattr(benchmarks, "__file__", str(source))
    assert facts.commit() == (None, None)
    git(tmp_path, "add", "benchmarks")
    git(tmp_path, "commit", "--quiet", "-m", "second")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert facts.commit() == (head, False)
    (tmp_path / "new.txt").write_text("untracked")
    assert facts.commit() == (head, False)
    source.write_text("changed = True")
    assert facts.commit() == (head, True)


@pytest.mark.parametrize("pattern", sorted({*CELL_CODE, *SHARD_CODE}))
def test_every_pattern_finds_source_files(pattern: str) -> None:
    assert facts.code_sha256([pattern]) != facts.code_sha256([])


def test_the_hash_is_of_the_files_whatever_the_order_of_the_patterns() -> None:
    assert facts.code_sha256(CELL_CODE) == facts.code_sha256(reversed(CELL_CODE)) != facts.code_sha256(SHARD_CODE)
