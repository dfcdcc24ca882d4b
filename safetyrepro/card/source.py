"""From a run's folder, whatever kind it is, to its card."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from safetyrepro.analysis.card.model import FORMAT, Card, Kind, Stability
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.card.stability import Computation
    from safetyrepro.progress import Progress

_MARKS: dict[str, Kind] = {"plan.json": "envelope", "experiment.json": "anchor", "import.json": "import"}


def kind_of(folder: Path) -> Kind | None:
    """What kind of run a folder holds; None where it holds none."""
    return next((kind for mark, kind in _MARKS.items() if (folder / mark).is_file()), None)


def derive(folder: Path, how: Computation, watch: Progress) -> Card:
    """The card of a run.

    Args:
        folder: what `envelope run`, `anchor run` or `import --out` wrote.
        how: what the stability results are computed with.
        watch: progress.

    Raises:
        InputError: it is no such folder, or something in it cannot be read.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name one that envelope run, anchor run or import --out wrote.")
    kind = kind_of(folder)
    if kind is None:
        raise InputError(
            f"{folder}: holds none of {', '.join(_MARKS)}; name a folder that `safetyrepro envelope run`, "
            "`safetyrepro anchor run` or `safetyrepro import --out` wrote."
        )
    if kind == "envelope":
        from safetyrepro.card.sealed import sealed_parts as parts_of
    elif kind == "anchor":
        from safetyrepro.card.anchor import anchor_parts as parts_of
    else:
        from safetyrepro.card.imported import imported_parts as parts_of
    try:
        parts = parts_of(folder, how, watch)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        raise InputError(
            f"{folder}: what it holds fits no card: {field} is {str(first['input'])[:80]!r}, {first['msg']}; it was "
            "changed, or another version wrote it."
        ) from None
    return Card(
        format=FORMAT,
        kind=kind,
        written_by=f"safetyrepro {version('safetyrepro')}",
        models=parts.models,
        benchmarks=parts.benchmarks,
        suites=parts.suites,
        run=parts.run,
        envelope=parts.envelope,
        stability=Stability(
            tier=how.tier, draws=how.draws, seed=how.seed, benchmarks=parts.stability, suites=parts.spreads
        ),
    )
