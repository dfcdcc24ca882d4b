"""Why the suites of an experiment differ: every pair of an arm with its classes, and the gap in parts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.atomic import write_json
from safetyrepro.crosspkg.attribution import Attribution
from safetyrepro.crosspkg.attribution_scoring import attribute_sides
from safetyrepro.crosspkg.divergence import Difference, diff_sides
from safetyrepro.crosspkg.facts import CellOutcome
from safetyrepro.crosspkg.sides.exchange import Side
from safetyrepro.crosspkg.sides.recorded import side_of
from safetyrepro.errors import InputError
from safetyrepro.gateway.wire import read_wire

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine

KEPT_FILE = "attribution.json"
Kept = Mapping[tuple[str, str], Mapping[str, Any]]
"""Attributions that were computed with the model, by the jobs of both cells."""


def pairs_of(
    arm: str,
    cells: Mapping[str, CellOutcome],
    *,
    redact: bool = False,
    engine: Engine | None = None,
    kept: Kept | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The divergence and the attribution of every pair of finished cells of one arm, config and model.

    Args:
        arm: the arm's name.
        cells: finished cells by suite, in report order.
        redact: leave out evidence, which quotes prompts and outputs.
        engine: the model, for hybrids that need it; without it stored outputs are re-scored.
        kept: attributions of an earlier call with the model, taken where they are of the same jobs.
        progress: called with a line before slow steps.

    Returns:
        Both lists as report.json holds them; a pair without a difference has no classes.
    """
    sides = {suite: _side(suite, cell) for suite, cell in cells.items() if cell.records}
    divergence, attribution = [], []
    for a, b in itertools.combinations(sides, 2):
        difference = diff_sides(sides[a], sides[b])
        divergence.append({"arm": arm, **difference_json(difference, redact=redact)})
        if not difference.classes:
            continue
        jobs = (cells[a].facts.job_sha256 or a, cells[b].facts.job_sha256 or b)
        found = (kept or {}).get(jobs) if engine is None else None
        if found is None:
            made = attribute_sides(sides[a], sides[b], difference, engine=engine, progress=progress)
            found = None if made is None else attribution_json(made)
        if found is not None:
            attribution.append({"arm": arm, **found, "a": a, "b": b, "jobs": list(jobs)})
    return divergence, attribution


def difference_json(difference: Difference, *, redact: bool = False) -> dict[str, Any]:
    """A difference as a report holds it; without evidence where prompts and outputs are to be left out."""
    body = difference.to_json()
    if redact:
        for found in body["classes"]:
            found["evidence"] = {}
    return body


def attribution_json(attribution: Attribution) -> dict[str, Any]:
    """An attribution as JSON, with its sentence; points of 100 everywhere."""
    body = asdict(attribution)
    body["parts"] = [part | {"components": list(part["components"])} for part in body["parts"]]
    return body | {"merged": list(attribution.merged), "sentence": attribution.sentence()}


def read_kept(folder: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Attributions that `keep` left in an experiment's folder; none where there are none.

    Raises:
        InputError: the file is not what `keep` writes.
    """
    path = folder / KEPT_FILE
    if not path.is_file():
        return {}
    try:
        return {(row["jobs"][0], row["jobs"][1]): row for row in json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path}: not attributions of this version ({error}); delete it.") from None


def keep(folder: Path, attributions: Sequence[Mapping[str, Any]]) -> None:
    """Write attributions that were computed with the model, so that a report without it can show them."""
    write_json(folder / KEPT_FILE, list(attributions))


def _side(suite: str, cell: CellOutcome) -> Side:
    wire = itertools.chain.from_iterable(map(read_wire, cell.wires))
    return side_of(suite, cell.records, wire, where=cell.facts.name)
