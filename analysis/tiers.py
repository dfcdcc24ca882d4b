"""Which configurations of a grid belong to a tier."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from safetyrepro.analysis.grid import Configuration, temperature
from safetyrepro.errors import InputError

FULL = "full"


@dataclass(frozen=True)
class Tier:
    """A tier's rule: levels kept and levels dropped by axis; an axis not named is free."""

    name: str
    keep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def tier_mask(
    benchmark: str, configurations: Sequence[Configuration], tiers: Sequence[Tier], name: str
) -> NDArray[np.bool_]:
    """Which configurations of one benchmark are in the tier `name`.

    A table's own `tier` column comes first: it names a configuration's innermost tier (or several, between commas), and
    a tier holds those inside it. Without such a column the rule decides.

    Args:
        benchmark: for messages.
        configurations: the benchmark's.
        tiers: outermost first.
        name: the tier asked for.

    Returns:
        Shape (configurations,).

    Raises:
        InputError: the tier is not known, or an axis of its rule is not in the table.
    """
    known = [tier.name for tier in tiers]
    if any(configuration.tiers for configuration in configurations):
        found = {part for configuration in configurations for part in configuration.tiers}
        if name != FULL and name not in found and name not in known:
            raise InputError(f"tier is {name!r}; the table's tier column has {', '.join(sorted(found))}.")
        return np.array([_named(configuration.tiers, known, name) for configuration in configurations])
    if name not in known:
        raise InputError(f"tier is {name!r}; known are {', '.join(known)}, or give the table a tier column.")
    tier = tiers[known.index(name)]
    for configuration in configurations:
        for axis in (*tier.keep, *tier.drop):
            if not configuration.axes.get(axis) and _applies(configuration, axis):
                raise InputError(
                    f"tier {name!r} is told by {axis}, and configuration {configuration.label!r} of {benchmark!r} "
                    f"names none; fill the table's {axis} column, or give it a tier column."
                )
    return np.array([_by_rule(configuration, tier) for configuration in configurations])


def _named(own: Sequence[str], known: Sequence[str], name: str) -> bool:
    if name == FULL or name in own:
        return True
    return name in known and any(part in known and known.index(part) >= known.index(name) for part in own)


def _by_rule(configuration: Configuration, tier: Tier) -> bool:
    kept = all(_has(configuration, axis, levels) for axis, levels in tier.keep.items() if _applies(configuration, axis))
    dropped = any(
        _has(configuration, axis, levels) for axis, levels in tier.drop.items() if _applies(configuration, axis)
    )
    return kept and not dropped


def _applies(configuration: Configuration, axis: str) -> bool:
    return axis != "decoding" or configuration.axes["scoring"] != "logprob"


def _has(configuration: Configuration, axis: str, levels: Sequence[str]) -> bool:
    return _level(axis, configuration.axes.get(axis, "")) in {_level(axis, level) for level in levels}


def _level(axis: str, text: str) -> str:
    """A level as its rule may spell it: `Chain-of-Thought` and `chain_of_thought` are one, and so are temperatures."""
    heat = temperature(text) if axis == "decoding" else None
    return f"T={heat:g}" if heat is not None else re.sub(r"[\s_-]+", "", text.casefold())
