"""Checks of the paths that a command is about to write, before it does any work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from safetyrepro.errors import InputError


def not_an_input(out: Path, inputs: Iterable[Path], option: str = "--out") -> None:
    """Refuse an output path that is one of the command's own inputs, also by way of a link.

    Args:
        out: the file that the command would write; it need not exist.
        inputs: the files that it reads.
        option: which option named `out`.

    Raises:
        InputError: `out` and an input are the same file.
    """
    for given in inputs:
        try:
            same = out.samefile(given)
        except OSError:
            same = False
        if same:
            raise InputError(f"{out}: the output would replace the input {given}; give {option} another path.")


class _Out(click.Path):
    """A path to write to, told before any work where something of another kind is in its way."""

    wanted = ""
    folder = False

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; refused where it cannot become what the command writes."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.exists() and path.is_dir() != self.folder:
            found = "a folder" if path.is_dir() else "a file"
            self.fail(f"{path} is {found}, and {self.wanted} is needed here.", param, ctx)
        above = next((parent for parent in path.parents if parent.exists()), None)
        if above is not None and not above.is_dir():
            self.fail(f"{path} cannot be written: {above} is a file, and a folder is needed there.", param, ctx)
        return path


class OutFolder(_Out):
    """A folder to write into; it need not exist."""

    wanted = "a folder (there already, or new)"
    folder = True


class OutFile(_Out):
    """A file to write; it need not exist."""

    wanted = "a file (name one in it)"


class XmlFile(OutFile):
    """A file for XML that replaces none but an earlier one of the kind, so that no input can be named by mistake."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; refused where something that is no XML would be lost."""
        path = super().convert(value, param, ctx)
        if path.is_file():
            with path.open("rb") as stream:
                start = stream.read(64).lstrip()
            if start and not start.startswith(b"<"):
                self.fail(f"{path} is there already and is no XML: name another file.", param, ctx)
        return path
