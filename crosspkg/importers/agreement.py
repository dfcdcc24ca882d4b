"""Whether a recorded aggregate is what the rows come to, and if not, why."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from safetyrepro.crosspkg.importers.base import Recorded
from safetyrepro.crosspkg.importers.tally import Mean

RELATIVE, ABSOLUTE = 1e-6, 1e-9
_OVER_THE_SET = re.compile(r"f1|mcc|matthews|perplexity|bleu|chrf|auroc|auc$|pearson|spearman|(?:^|_)ter$")
"""Metrics whose usual aggregate is no mean: weighted and macro F1, correlations, corpus scores of translations."""
ROUNDED_DIGITS = 2
"""A recorded value with at least so many decimals may be a rounded one."""


def agrees(mean: float, recorded: float) -> bool:
    """Whether two means are the same number, up to rounding errors or the recorded value's own rounding."""
    if math.isclose(mean, recorded, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
        return True
    exponent = Decimal(repr(recorded)).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    return ROUNDED_DIGITS <= digits <= 6 and math.isclose(round(mean, digits), recorded, abs_tol=ABSOLUTE)


def difference(
    label: str, found: Mean, recorded: Recorded, others: Mapping[str, Mean], missing: int | None
) -> str | None:
    """One sentence on how far a recorded aggregate is from the rows' mean and why; None where they agree.

    Args:
        label: The metric's name in the summary.
        found: What the rows come to.
        recorded: What the log recorded.
        others: The other metrics of the same task, by their names.
        missing: Items that the log says were run and that it does not hold; None where it does not say.
    """
    if found.mean is None or recorded.value is None or agrees(found.mean, recorded.value):
        return None
    gap = found.mean - recorded.value
    said = f"{label}: the rows' mean is {found.mean:.6g}, the log recorded {recorded.value:.6g} ({gap:+.6g})"
    return f"{said}: {_reason(label, found, recorded, others, missing)}."


def _reason(label: str, found: Mean, recorded: Recorded, others: Mapping[str, Mean], missing: int | None) -> str:
    mean, value = found.mean, recorded.value
    assert mean is not None
    assert value is not None
    if agrees(mean * 100, value):
        return "the recorded value is on a scale of 100"
    if agrees(mean / 100, value):
        return "the rows are on a scale of 100, the recorded value is not"
    if recorded.why_not_mean:
        return recorded.why_not_mean
    alike = [name for name, one in others.items() if name != label and one.mean is not None and agrees(one.mean, value)]
    same_metric = [name for name in alike if base_name(name) == base_name(label)]
    if missing:
        return f"the log holds {found.items} items, {missing} fewer than were run"
    if found.n != found.items and agrees(_by_row(found), value):
        return "the recorded value counts every row, and some items stand there more often than others"
    if found.not_finite:
        return f"{found.not_finite} rows hold no finite value and are left out of the rows' mean"
    if found.not_numbers:
        return f"{found.not_numbers} rows hold no number and are left out of the rows' mean"
    if same_metric:
        return f"the recorded value is that of {same_metric[0]}"
    if _OVER_THE_SET.search(base_name(label)):
        return f"{base_name(label)} is as a rule computed over the whole set, which a mean of rows is not"
    return "nothing in the log tells why"


def _by_row(found: Mean) -> float:
    return math.nan if found.row_mean is None else found.row_mean


def base_name(name: str) -> str:
    """The metric in `exact_match,strict-match`, `test|exact_match` and `valid|exact_match|typos`."""
    parts = name.split("|")
    return parts[1] if len(parts) > 1 else name.split(",")[0]
