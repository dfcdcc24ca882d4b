"""Files that are wholly there or not at all, with a disk that is really full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from safetyrepro.atomic import write_texts


@pytest.mark.parametrize("before", [None, "kept"])
def test_files_that_belong_together_are_written_all_or_none(tmp_path: Path, before: str | None) -> None:
    if before is not None:
        (tmp_path / "a.json").write_text(before, encoding="utf-8")
    # No file may grow beyond 1,000 bytes: the system refuses the second one as a full disk does.
    code = (
        "import resource, signal, sys; from pathlib import Path; from safetyrepro.atomic import write_texts;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "folder = Path(sys.argv[1]); write_texts({folder / 'a.json': 'new', folder / 'b.html': 'x' * 5000})"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ([] if before is None else ["a.json"])
    if before is not None:
        assert (tmp_path / "a.json").read_text(encoding="utf-8") == before


def test_files_are_written(tmp_path: Path) -> None:
    write_texts({tmp_path / "new" / "a.json": "{}", tmp_path / "b.html": "ä"})
    assert (tmp_path / "new" / "a.json").read_bytes() == b"{}"
    assert (tmp_path / "b.html").read_text(encoding="utf-8") == "ä"
    assert len(list(tmp_path.iterdir())) == 2
