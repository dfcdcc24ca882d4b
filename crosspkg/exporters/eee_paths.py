"""Where Every Eval Ever keeps a cell: `data/BENCHMARK/DEVELOPER/MODEL/UUID.json`, made of names that are safe."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass

from safetyrepro.records import Record

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9]|data)(?:\.|$)", re.IGNORECASE)
_LONGEST = 120


@dataclass(frozen=True)
class Place:
    """The files of one cell, relative to the datastore's root, and the model as they address it."""

    collection: str
    developer: str
    model_id: str
    aggregate: str
    samples: str


def place_of(record: Record, developer: str) -> Place:
    """The place of a record's cell; the same cell has the same place in every export.

    Args:
        record: Any record of the cell; its model is not None.
        developer: For models whose name has no organisation before a slash.
    """
    collection = component(record.benchmark)
    organisation, _, name = (record.model or "").strip("/").partition("/")
    parts = [component(part) for part in name.split("/") if part] if name else [component(organisation)]
    owner = component(organisation if name else developer)
    model_id = "/".join([owner, *parts]) if name else parts[0]
    folder = f"data/{collection}/{owner}/{'_'.join(parts)}"
    digest = hashlib.sha256(f"{record.cell_id}\n{record.metric}".encode()).digest()
    name_of_files = uuid.UUID(bytes=digest[:16], version=4)
    return Place(
        collection, owner, model_id, f"{folder}/{name_of_files}.json", f"{folder}/{name_of_files}_samples.jsonl"
    )


def component(name: str) -> str:
    """A name as one part of a path: letters, digits and `._+-` alone, never empty, special or reserved."""
    safe = _UNSAFE.sub("_", name)[:_LONGEST].strip("._") or "unnamed"
    return f"{safe}_" if _RESERVED.match(safe) or safe == "unknown" else safe
