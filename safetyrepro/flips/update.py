"""Updates: an old version and a new one, each with its numerics."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from safetyrepro.config import ModelSpec, Strict


class Update(Strict):
    """One update, as a YAML file names it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """A label, and the name of its folder."""
    note: str = ""
    """What changes, for people."""
    old: ModelSpec
    new: ModelSpec


def load_update(path: Path) -> Update:
    """Read an update from a YAML file.

    Raises:
        InputError: naming file, line, field, the value found and what would be right.
    """
    from safetyrepro.strict_yaml import load_model

    return load_model(path, Update)
