"""Records in the schema of Every Eval Ever, version 0.3: an aggregate file a cell, and a line an item beside it.

The layout and the fields are those of the schemas in the package `every-eval-ever` 0.3.0 (eval.schema.json and
instance_level_eval.schema.json), whose validator the files pass. What records do not hold is left out or, where the
schema demands a value, `unknown`.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetyrepro.atomic import write_json
from safetyrepro.crosspkg.exporters.eee_items import instance_line
from safetyrepro.crosspkg.exporters.eee_paths import Place, place_of
from safetyrepro.crosspkg.exporters.source import iterate_records, record_files
from safetyrepro.engine.api import UPSTREAM
from safetyrepro.errors import InputError
from safetyrepro.records import Record

SCHEMA = "0.3.0"
MOST_CLUSTERS = 5000
"""With more clusters of items the bootstrap interval is left out."""
Relationship = Literal["first_party", "third_party", "collaborative", "other"]


@dataclass(frozen=True)
class EeeOptions:
    """What the schema asks for and records do not hold."""

    organization: str = "unknown"
    """Who provides the data."""
    relationship: Relationship = "other"
    """Of the evaluator to the model."""
    developer: str = "local"
    """Folder of models whose name has no organisation before a slash."""
    lower_is_better: bool = False
    retrieved: int | None = None
    """Unix time of the export; now where it is None."""


@dataclass(frozen=True)
class Exported:
    """One aggregate file with its items."""

    path: Path
    samples: Path
    items: int
    """Items with a score."""
    rows: int
    """Records with a score, of all repeats."""
    without_score: int


def export_eee(folder: Path, out: Path, options: EeeOptions) -> list[Exported]:
    """Write the records below `folder` as a datastore below `out`, whole or not at all.

    Args:
        folder: Of a run, of an import, or any with records files.
        out: A new folder; it gets `data/BENCHMARK/DEVELOPER/MODEL/UUID.json` and `UUID_samples.jsonl`.
        options: What the schema asks for and records do not hold.

    Raises:
        InputError: no records, none with a score, records without a model, or `out` is there already.
    """
    files = record_files(folder)
    if out.is_file():
        raise InputError(f"{out}: is a file; name a new folder with --out.")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: is there already and not empty; name a new folder with --out.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        exported = [
            _moved(one, temporary, out)
            for path in files
            for cell in _cells(path)
            if (one := _Cell(path, cell, options).write(temporary)) is not None
        ]
        if not exported:
            raise InputError(f"{folder}: no record holds a score, and the schema has no place for items without one.")
        temporary.chmod(0o755)
        if out.exists():
            out.rmdir()
        temporary.replace(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return exported


def _moved(one: Exported, temporary: Path, out: Path) -> Exported:
    path, samples = (out / file.relative_to(temporary) for file in (one.path, one.samples))
    return Exported(path, samples, one.items, one.rows, one.without_score)


def _cells(path: Path) -> list[tuple[str, str]]:
    """The cells in one file, by cell id and metric, in its order."""
    from safetyrepro.crosspkg.exporters.source import iterate_batches

    cells: dict[tuple[str, str], None] = {}
    for batch in iterate_batches(path, ("cell_id", "metric")):
        cells.update(dict.fromkeys(zip(*(column.to_pylist() for column in batch.columns), strict=True)))
    return list(cells)


class _Cell:
    """The records of one cell on their way into two files."""

    def __init__(self, path: Path, cell: tuple[str, str], options: EeeOptions) -> None:
        self._path, self._cell, self._options = path, cell, options
        self._retrieved = str(int(time.time()) if options.retrieved is None else options.retrieved)
        self._items: dict[str, list[float]] = {}
        self._clusters: dict[str, str] = {}
        self._statuses: Counter[str] = Counter()

    def write(self, root: Path) -> Exported | None:
        first = next(self._records(), None)
        if first is None:
            return None
        if first.model is None:
            raise InputError(f"{self._path}: its records name no model; import the log again with --model NAME.")
        place = place_of(first, self._options.developer)
        samples, aggregate = root / place.samples, root / place.aggregate
        samples.parent.mkdir(parents=True, exist_ok=True)
        identity = f"{place.collection}-{first.cell_id[:12]}/{place.model_id}/{self._retrieved}"
        rows, checksum = self._write_samples(samples, identity, place)
        if not rows:
            samples.unlink()
            return None
        write_json(aggregate, self._aggregate(first, place, identity, rows, checksum))
        items = sum(bool(scores) for scores in self._items.values())
        return Exported(aggregate, samples, items, rows, self._statuses.total() - rows)

    def _records(self) -> Iterator[Record]:
        return (one for one in iterate_records(self._path) if (one.cell_id, one.metric) == self._cell)

    def _write_samples(self, path: Path, identity: str, place: Place) -> tuple[int, str]:
        rows, checksum = 0, hashlib.sha256()
        with path.open("wb") as stream:
            for record in self._records():
                self._statuses[record.status] += 1
                scores = self._items.setdefault(record.item_id, [])
                self._clusters.setdefault(record.item_id, record.cluster)
                if record.score is None:
                    continue
                scores.append(record.score)
                body = instance_line(record, SCHEMA, identity, place.model_id, _result_id(record))
                line = (json.dumps(body, ensure_ascii=False, allow_nan=False) + "\n").encode()
                stream.write(line)
                checksum.update(line)
                rows += 1
        return rows, checksum.hexdigest()

    def _aggregate(self, first: Record, place: Place, identity: str, rows: int, checksum: str) -> dict[str, Any]:
        ours = first.numerics is not None and first.numerics != UPSTREAM
        model = {
            "name": first.model,
            "id": place.model_id,
            **({"developer": place.developer} if "/" not in place.model_id else {}),
            "additional_details": {
                "deployment_type": "self_deployed" if ours else "unknown",
                "model_availability": "unknown",
                **_texts(numerics=first.numerics, weights_sha256=first.model_sha256),
            },
        }
        return {
            "schema_version": SCHEMA,
            "evaluation_id": identity,
            "retrieved_timestamp": self._retrieved,
            "source_metadata": {
                "source_name": "safetyrepro",
                "source_type": "evaluation_run",
                "source_organization_name": self._options.organization,
                "evaluator_relationship": self._options.relationship,
            },
            "eval_library": {"name": first.suite, "version": first.suite_version or "unknown"},
            "model_info": model,
            "evaluation_results": [self._result(first)],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": place.samples,
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            },
        }

    def _result(self, first: Record) -> dict[str, Any]:
        temperature = _temperature(first.decoding)
        details = _texts(
            config_id=first.config_id,
            arm=first.arm,
            scoring=first.scoring,
            template=first.template,
            decoding=first.decoding,
            shots=first.shots,
        )
        return {
            "evaluation_result_id": _result_id(first),
            "evaluation_name": first.benchmark,
            "source_data": {"dataset_name": first.benchmark, "source_type": "other"},
            "metric_config": {
                "metric_id": first.metric,
                "metric_name": first.metric,
                "lower_is_better": self._options.lower_is_better,
                "score_type": "continuous",
                "min_score": 0.0,
                "max_score": 1.0,
            },
            "score_details": self._score(first),
            "generation_config": {
                **({} if temperature is None else {"generation_args": {"temperature": temperature}}),
                "additional_details": details,
            },
        }

    def _score(self, first: Record) -> dict[str, Any]:
        from safetyrepro import benchmarks
        from safetyrepro.analysis.aggregate import Aggregate
        from safetyrepro.analysis.mean import mean_score

        means = {item: math.fsum(scores) / len(scores) for item, scores in self._items.items() if scores}
        clusters = [self._clusters[item] for item in means]
        # An imported benchmark's name is another suite's: only a run of ours says how its items make the score.
        aggregate: Aggregate = "mean" if first.arm is None else benchmarks.get(first.benchmark).aggregate
        details = {
            "items": str(len(self._items)),
            "items_without_score": str(len(self._items) - len(means)),
            **{f"records_{status}": str(count) for status, count in self._statuses.items()},
        }
        if len(set(clusters)) > MOST_CLUSTERS:
            score = math.fsum(means.values()) / len(means)
            return {"score": score, "details": details, "uncertainty": {"num_samples": len(means)}}
        found = mean_score(list(means.values()), clusters, aggregate=aggregate)
        uncertainty: dict[str, Any] = {"num_samples": found.n}
        if found.ci is not None:
            low, high = found.ci
            uncertainty["confidence_interval"] = {
                "lower": low,
                "upper": high,
                "confidence_level": found.level,
                "method": found.method,
            }
            uncertainty["num_bootstrap_samples"] = found.draws
        return {"score": found.score, "details": details, "uncertainty": uncertainty}


def _result_id(record: Record) -> str:
    return f"{record.benchmark}:{record.metric}:{record.config_id[:12]}"


def _texts(**details: Any) -> dict[str, str]:
    return {name: str(value) for name, value in details.items() if value is not None}


def _temperature(decoding: str | None) -> float | None:
    if decoding is None:
        return None
    return 0.0 if decoding == "greedy" else float(decoding.removeprefix("T="))
