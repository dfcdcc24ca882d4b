"""The command line answers at once, and every command explains itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from safetyrepro.cli import COMMANDS, cli

HEAVY = (
    "torch",
    "transformers",
    "pandas",
    "pyarrow",
    "matplotlib",
    "scipy",
    "numpy",
    "starlette",
    "uvicorn",
    "pydantic",
)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom safetyrepro.cli import cli\ncli(['--help'], standalone_mode=False)\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def commands() -> list[tuple[str, ...]]:
    context = click.Context(cli)
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found.extend((name, inner) for inner in command.list_commands(context))
        else:
            found.append((name,))
    return found


def test_every_command_has_an_example() -> None:
    assert len(commands()) >= 6
    for path in commands():
        done = subprocess.run(
            [sys.executable, "-m", "safetyrepro", *path, "--help"], capture_output=True, text=True, check=True
        )
        assert "Example:" in done.stdout, path
        assert f"safetyrepro {' '.join(path)}" in done.stdout, path


@pytest.mark.parametrize("arguments", [["nothing"], ["anchor", "run"], ["anchor", "report", "nowhere"]])
def test_bad_usage_is_exit_code_two_without_traceback(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "safetyrepro", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = Path(__file__).parents[2] / "anchor_configs" / "anchors" / "bbq-pocket.yaml"
    command = [sys.executable, "-m", "safetyrepro", "anchor", "run", str(config), "--out", str(tmp_path / "file" / "x")]
    done = subprocess.run([*command, "--suite", "native"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_examples_keep_their_lines() -> None:
    done = subprocess.run([sys.executable, "-m", "safetyrepro", "--help"], capture_output=True, text=True, check=True)
    assert "\n    safetyrepro models pull smollm2-135m-instruct\n" in done.stdout
