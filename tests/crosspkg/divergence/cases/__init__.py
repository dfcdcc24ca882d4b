"""Every class planted alone, and a twin without its cause: a module for each family of causes."""

from __future__ import annotations

from tests.crosspkg.divergence.cases import (
    beginnings,
    candidates,
    conditions,
    dataset,
    decoding,
    extraction,
    gold,
    prompt,
    truncation,
)
from tests.crosspkg.divergence.cases.case import CASES, Case

__all__ = ["CASES", "FAMILIES", "Case"]

FAMILIES = (beginnings, prompt, candidates, decoding, extraction, gold, truncation, dataset, conditions)
"""Each puts its cases into `CASES` when it is imported."""
