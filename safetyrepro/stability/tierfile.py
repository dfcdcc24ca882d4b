"""The tiers as `anchor_configs/envelope/tiers.yaml` describes them."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from pydantic import Field

from safetyrepro.analysis.tiers import Tier
from safetyrepro.config import Strict
from safetyrepro.strict_yaml import load_model


class TierRule(Strict):
    """One tier."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    about: str
    keep: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Levels kept, by axis."""
    drop: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Levels left out, by axis."""


class TierFile(Strict):
    """All tiers, outermost first: each lies within those before it."""

    tiers: tuple[TierRule, ...] = Field(min_length=1)


def tiers(path: Path | None = None) -> tuple[Tier, ...]:
    """The tiers, outermost first.

    Args:
        path: another file; None takes the reference envelope's.

    Raises:
        InputError: naming file, line, field, the value found and what would be right.
    """
    if path is not None:
        read = load_model(path, TierFile)
    else:
        with as_file(files("safetyrepro.anchor_configs") / "envelope" / "tiers.yaml") as own:
            read = load_model(own, TierFile)
    return tuple(Tier(rule.name, rule.keep, rule.drop) for rule in read.tiers)
