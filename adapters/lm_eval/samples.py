"""Reads the samples file of a finished run: one line an item, numbers that came from the model as text, NaN bare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetyrepro.errors import SuiteFailure

SampleRow = dict[str, Any]
"""One line: the item (`doc`), what was asked (`arguments`) and answered (`resps`), and a value for every metric."""


def read_samples(out_dir: Path, item_ids: Sequence[str]) -> dict[str, SampleRow]:
    """The one samples file below `out_dir`, by item id.

    Raises:
        SuiteFailure: no such file or several, a line that is no sample, an item twice, or an item without a line.
    """
    paths = sorted(out_dir.rglob("samples_*.jsonl"))
    if len(paths) != 1:
        raise SuiteFailure(f"lm_eval: {out_dir} holds {len(paths)} samples_*.jsonl files where a run leaves one.")
    path, number = paths[0], 0
    rows: dict[str, SampleRow] = {}
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                if not line.endswith("\n"):
                    raise ValueError("its end is cut off")
                row = json.loads(line)
                item_id: str = row["doc"]["item_id"]
            except (ValueError, KeyError, TypeError) as error:
                raise SuiteFailure(
                    f"{path}, line {number}: not a whole sample ({error}); run the cell again."
                ) from None
            if item_id in rows:
                raise SuiteFailure(f"{path}, line {number}: item {item_id} stands there a second time.")
            rows[item_id] = row
    missing = [item_id for item_id in item_ids if item_id not in rows]
    if missing:
        raise SuiteFailure(
            f"{path}: ends at line {number}, {len(missing)} of {len(item_ids)} items are missing, the first is "
            f"{missing[0]}; run the cell again."
        )
    return rows
