"""Signals that outcomes already carry: from the options' logprobs of records, or from further columns of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from safetyrepro.analysis.flips.signals import KINDS
from safetyrepro.analysis.resampling import Floats
from safetyrepro.errors import InputError
from safetyrepro.flips.options import jensen_shannon, kl_divergence, option_probabilities
from safetyrepro.flips.scores import OPTIONS, TEXT_COLUMNS
from safetyrepro.tables import REQUIRED, TEXTS, WHOLES

if TYPE_CHECKING:
    import pandas as pd

ALIASES = {"conf": "confidence", "conf_new": "confidence_new", "conf_old": "confidence_old"}
SINGLE_MODEL = ("confidence", "margin", "attention_entropy")
"""Columns that hold each model's own value in its own row."""
_KNOWN = {*REQUIRED, *TEXTS, *WHOLES, *TEXT_COLUMNS, OPTIONS, "category", "metric", "chance", "reason"}


def item_signals(
    old: pd.DataFrame, new: pd.DataFrame, items: Sequence[str]
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """Signals of one update from both models' rows.

    A further column of numbers is a signal. Where it holds each model's own value, `confidence` becomes
    `confidence_new` and `confidence_old`; where both rows of every item hold the same value it is one signal. Repeats
    are averaged.

    Args:
        old: rows of the old model.
        new: rows of the new model.
        items: which items, in which order.

    Returns:
        Signals of shape (items,), NaN where undefined; and the columns that hold no numbers.

    Raises:
        InputError: a column named as a known signal holds something else than numbers.
    """
    found: dict[str, Floats] = {}
    if OPTIONS in old and OPTIONS in new:
        found.update(_option_signals(old, new, items))
    ignored = []
    for column in dict.fromkeys([*old.columns, *new.columns]):
        if column in _KNOWN or column.startswith("_"):
            continue
        sides = [_by_item(rows, column, items) for rows in (old, new)]
        if any(side is None for side in sides):
            ignored.append(column)
            continue
        name = ALIASES.get(column, column)
        before, after = (side for side in sides if side is not None)
        found.update({key: values for key, values in _named(name, before, after).items() if np.isfinite(values).any()})
    return found, tuple(ignored)


def number(value: Any) -> float | None:
    """A cell as a number: NaN where it is empty, None where it is no number."""
    if value is None or value == "":
        return math.nan
    if isinstance(value, (bool, int, float, np.number)):
        try:
            return float(value)
        except OverflowError:
            return None
    if not isinstance(value, str) or "_" in value:
        return None
    text = value.strip().lower()
    try:
        return {"": math.nan, "true": 1.0, "false": 0.0}.get(text) if text in ("", "true", "false") else float(text)
    except ValueError:
        return None


def _named(name: str, before: Floats, after: Floats) -> dict[str, Floats]:
    if name in KINDS or not (np.isfinite(before).any() and np.isfinite(after).any()):
        values = np.where(np.isnan(after), before, after)
        if name not in SINGLE_MODEL:
            return {name: values}
    shared = np.isfinite(before) & np.isfinite(after)
    if name not in SINGLE_MODEL and np.array_equal(before[shared], after[shared]):
        return {name: np.where(np.isnan(after), before, after)}
    return {f"{name}_new": after, f"{name}_old": before}


def _by_item(rows: pd.DataFrame, column: str, items: Sequence[str]) -> Floats | None:
    """Mean over repeats by item; None where a value is no number."""
    if column not in rows:
        return np.full(len(items), np.nan)
    values = [number(value) for value in rows[column]]
    for value, raw, item in zip(values, rows[column], rows["item_id"], strict=True):
        if value is None:
            if ALIASES.get(column, column) in (*KINDS, *SINGLE_MODEL):
                raise InputError(f"{column} of item {item!r} is {str(raw)[:60]!r}, it should be a number or empty.")
            return None
    numbers = np.array(values, dtype=np.float64)
    means = rows.assign(value=numbers).groupby("item_id")["value"].mean()
    return means.reindex(list(items)).to_numpy(dtype=np.float64)


def _option_signals(old: pd.DataFrame, new: pd.DataFrame, items: Sequence[str]) -> dict[str, Floats]:
    before, after = _options_by_item(old), _options_by_item(new)
    names = ("confidence_new", "confidence_old", "margin_new", "margin_old", "kl", "jsd")
    found = {name: np.full(len(items), np.nan) for name in names}
    for place, item in enumerate(items):
        a, b = before.get(item), after.get(item)
        for side, options in (("old", a), ("new", b)):
            if options is not None:
                top = sorted(options.values(), reverse=True)
                found[f"confidence_{side}"][place] = max(option_probabilities(list(options.values())))
                found[f"margin_{side}"][place] = top[0] - top[1]
        if a is not None and b is not None and a.keys() == b.keys():
            p, q = (option_probabilities([options[text] for text in a]) for options in (b, a))
            found["kl"][place], found["jsd"][place] = kl_divergence(p, q), jensen_shannon(p, q)
    return {name: values for name, values in found.items() if np.isfinite(values).any()}


def _options_by_item(rows: pd.DataFrame) -> Mapping[str, Mapping[str, float]]:
    """An item's options in its first repeat that has them: logprobs do not depend on the repeat."""
    found: dict[str, Mapping[str, float]] = {}
    for item, options in zip(rows["item_id"], rows[OPTIONS], strict=True):
        if isinstance(options, dict):
            found.setdefault(str(item), options)
    return found
