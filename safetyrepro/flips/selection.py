"""Which configurations of a table are compared, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.analysis.flips.pairing import Configuration, configurations
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

LISTED = 8
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Comparison:
    """One update on one task: the old model's configuration and the new one's, the same unless asked otherwise."""

    old: Configuration
    new: Configuration
    label: str


def comparisons(
    frame: pd.DataFrame,
    old: str,
    new: str,
    *,
    benchmark: str | None = None,
    config: str | None = None,
    new_config: str | None = None,
) -> tuple[Comparison, ...]:
    """The configurations to compare two models under, in the table's order.

    Args:
        frame: the table.
        old: the old model, which it holds.
        new: the new model.
        benchmark: this one alone.
        config: this configuration of both models alone: a config_id, its beginning, or a label as printed.
        new_config: the new model's configuration, where it is another.

    Raises:
        InputError: nothing fits; the message lists what there is.
    """
    before = configurations(frame[frame["model"] == old])
    after = configurations(frame[frame["model"] == new])
    if benchmark is not None:
        known = list(dict.fromkeys(entry.benchmark for entry in (*before, *after)))
        if benchmark not in known:
            raise InputError(f"--benchmark is {benchmark!r}, the table holds {_listed(known)}.")
        before, after = (tuple(e for e in side if e.benchmark == benchmark) for side in (before, after))
    labels = _labels((*before, *after))
    if new_config is None:
        both = tuple(entry for entry in before if entry in set(after))
        if not both:
            raise InputError(
                f"{old!r} and {new!r} share no configuration: the first ran under {_names(before, labels)}, the "
                f"second under {_names(after, labels)}; --config and --new-config compare across configurations."
            )
        if config is not None:
            both = _matching(both, config, labels, "--config")
        return tuple(Comparison(entry, entry, labels[entry]) for entry in both)
    if config is None:
        raise InputError("--new-config names the new model's configuration; name the old one's with --config.")
    first = _one(_matching(before, config, labels, "--config"), labels, "--config")
    second = _matching(tuple(e for e in after if e.benchmark == first.benchmark), new_config, labels, "--new-config")
    chosen = _one(second, labels, "--new-config")
    return (Comparison(first, chosen, f"{labels[first]} → {labels[chosen]}"),)


def _labels(entries: Sequence[Configuration]) -> dict[Configuration, str]:
    """Short names: the benchmark where it says all, else the config_id with what varies of benchmark, suite, arm."""
    distinct = set(entries)
    if 1 < len(distinct) == len({entry.benchmark for entry in distinct}):
        return {entry: entry.benchmark for entry in entries}
    varying = [name for name in ("benchmark", "suite", "arm") if len({getattr(entry, name) for entry in entries}) > 1]
    ids = {entry.config_id for entry in entries}
    short = 12 if all(_HASH.fullmatch(name) for name in ids) and len({name[:12] for name in ids}) == len(ids) else None
    return {
        entry: "/".join([entry.config_id[:short], *(getattr(entry, name) for name in varying)]) for entry in entries
    }


def _matching(
    entries: Sequence[Configuration], wanted: str, labels: dict[Configuration, str], option: str
) -> tuple[Configuration, ...]:
    exact = tuple(entry for entry in entries if wanted in (entry.config_id, labels[entry]))
    found = exact or tuple(entry for entry in entries if entry.config_id.startswith(wanted) and len(wanted) >= 4)
    if not found or len({entry.config_id for entry in found}) > 1:
        what = "stands for several of" if found else "is none of"
        raise InputError(
            f"{option} {wanted!r} {what} the configurations that can be compared: {_names(entries, labels)}."
        )
    return found


def _one(entries: Sequence[Configuration], labels: dict[Configuration, str], option: str) -> Configuration:
    if len(entries) > 1:
        raise InputError(f"{option} stands for several configurations: {_names(entries, labels)}; name one of them.")
    return entries[0]


def _names(entries: Sequence[Configuration], labels: dict[Configuration, str]) -> str:
    return _listed([labels[entry] for entry in entries])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(map(repr, names[:LISTED])) or "none") + more
