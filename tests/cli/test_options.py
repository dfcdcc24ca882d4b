"""Options of every command: numbers are numbers, and what is to be written is checked before any work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from safetyrepro.cli import COMMANDS, cli, main
from safetyrepro.cli.outputs import OutFile, OutFolder


def options() -> Iterator[tuple[str, click.Command, click.Option]]:
    """Every option of every command, with the command's words."""
    with click.Context(cli) as context:
        waiting: list[tuple[str, click.Command | None]] = [(name, cli.get_command(context, name)) for name in COMMANDS]
    while waiting:
        words, command = waiting.pop(0)
        assert command is not None
        if isinstance(command, click.Group):
            waiting += [(f"{words} {name}", one) for name, one in command.commands.items()]
        yield from ((words, command, one) for one in command.params if isinstance(one, click.Option))


NUMBERS = [
    pytest.param(command, option, id=f"{words} {option.opts[0]}")
    for words, command, option in options()
    if isinstance(option.type, click.types.FloatParamType)
]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_a_number_is_finite(command: click.Command, option: click.Option, value: str) -> None:
    with pytest.raises(click.BadParameter), click.Context(command) as context:
        option.process_value(context, value)


def test_all_numbers_of_the_commands_are_looked_at() -> None:
    assert {str(one.id).split()[0] for one in NUMBERS} >= {"anchor", "envelope", "flips", "judge"}


OUTS = [
    pytest.param(words, option, id=words)
    for words, _, option in options()
    if option.opts[0] == "--out" and words.split()[0] != "models"
]


@pytest.mark.parametrize(("words", "option"), OUTS)
def test_an_output_in_the_way_is_named_for_what_it_is(words: str, option: click.Option, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    assert isinstance(option.type, OutFile | OutFolder), words
    wrong, said = (
        (folder, "is a folder, and a file") if isinstance(option.type, OutFile) else (file, "is a file, and a")
    )
    for path, sentence in ((wrong, said), (file / "below", f"{file} is a file, and a folder is needed there")):
        with pytest.raises(click.BadParameter) as error:
            option.type.convert(str(path), option, None)
        assert sentence in error.value.message


@pytest.mark.parametrize(
    "arguments",
    [("judge", "audit", "v.csv", "--fail-on", "nan"), ("envelope", "plan", "e.yaml", "--difference", "nan")],
    ids=["judge", "envelope"],
)
def test_no_number_ends_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    assert "finite" in capsys.readouterr().err


def test_a_junit_file_replaces_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "a.jsonl"
    table.write_text('{"item_id": "a", "extracted": "b"}\n', encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["diff", str(table), str(table), "--fail-on", "spread=1", "--junit", str(table)])
    assert stop.value.code == 2
    assert "is there already and is no XML" in " ".join(capsys.readouterr().err.split())
    assert table.read_text(encoding="utf-8").startswith("{")
    old = tmp_path / "checks.xml"
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            main(["diff", str(table), str(table), "--fail-on", "spread=1", "--junit", str(old)])
        assert stop.value.code == 0
    assert old.read_text(encoding="utf-8").startswith("<?xml")
