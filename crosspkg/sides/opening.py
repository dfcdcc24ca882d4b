"""What a user may name as one side: a wire set, a folder of records, a cell of an experiment."""

from __future__ import annotations

from pathlib import Path

from safetyrepro.crosspkg.sides.exchange import Side
from safetyrepro.errors import InputError

_ENDINGS = (".jsonl", ".ndjson")


def open_side(path: Path) -> Side:
    """Read one side.

    Raises:
        InputError: there is nothing of the kind at `path`, or it holds several cells.
    """
    from safetyrepro.crosspkg.folder import finished_cells
    from safetyrepro.crosspkg.sides.recorded import read_recorded, side_of
    from safetyrepro.crosspkg.sides.wireset import read_wireset
    from safetyrepro.records import read_records

    if not path.exists():
        raise InputError(f"{path}: no such file or folder; name a wire set (.jsonl) or a folder of records.")
    if path.is_file():
        if path.suffix.lower() == ".parquet":
            return side_of(path.stem, read_records(path), (), where=str(path))
        if path.suffix.lower() not in _ENDINGS:
            raise InputError(f"{path}: a wire set ends in .jsonl, a folder of records holds .parquet.")
        return read_wireset(path)
    planned = (path / "experiment.json").is_file()
    if not planned and any(path.glob("*.parquet")):
        return read_recorded(path)
    found = finished_cells(path) if planned else [one.parent for one in path.glob("cells/*/records.parquet")]
    done = sorted(found)
    if len(done) == 1:
        return read_recorded(done[0])
    if done:
        names = ", ".join(str(folder) for folder in done[:3])
        raise InputError(f"{path}: is an experiment of {len(done)} finished cells; name one of them, such as {names}.")
    raise InputError(f"{path}: holds no records (.parquet) and no finished cell.")
