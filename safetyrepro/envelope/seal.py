"""Sealing: a plan written once, its hash beside it, and the comparison of a plan with its seal."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from safetyrepro.atomic import write_bytes, write_text
from safetyrepro.envelope.document import Plan
from safetyrepro.envelope.items import Items
from safetyrepro.envelope.plan import Planned, Say, build_plan
from safetyrepro.errors import InputError

PLAN = "plan.json"
SEAL = "SEAL"
_LINE = re.compile(r"([0-9a-f]{64})  plan\.json\n")
_SHOWN = 3


@dataclass(frozen=True)
class Sealed:
    """A sealed folder's plan."""

    folder: Path
    plan: Plan
    seal: str


def write_seal(planned: Planned, folder: Path) -> Sealed:
    """Seal a plan into `folder`: `plan.json`, and `SEAL` in the form of `sha256sum`.

    Raises:
        InputError: a hash is not resolved and not marked unverified, or the folder holds another sealed plan.
    """
    if planned.blocks:
        more = f" ({len(planned.blocks) - 1} more like it)" if len(planned.blocks) > 1 else ""
        raise InputError(
            f"The plan cannot be sealed: {planned.blocks[0]}{more}. Resolve it, or mark it 'unverified' in the "
            "envelope, which the card then says."
        )
    content = planned.plan.canonical()
    seal = hashlib.sha256(content).hexdigest()
    path = folder / PLAN
    if path.exists() and path.read_bytes() != content:
        raise InputError(f"{path}: holds another sealed plan; name another --out.")
    if folder.exists() and not path.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: is not empty and holds no sealed plan; name another --out.")
    write_bytes(path, content)
    write_text(folder / SEAL, f"{seal}  {PLAN}\n")
    return Sealed(folder, planned.plan, seal)


def read_sealed(folder: Path) -> Sealed:
    """Read a sealed folder's plan and hold it to its seal.

    Raises:
        InputError: it is not sealed, or plan and seal do not belong together.
    """
    content, stated = sealed_bytes(folder), stated_seal(folder)
    found = hashlib.sha256(content).hexdigest()
    if found != stated:
        raise InputError(
            f"{folder / PLAN}: its SHA-256 is {found}, {SEAL} says {stated}: the plan was changed after it was sealed; "
            "take the sealed one back, or seal the new one in another folder."
        )
    return Sealed(folder, parse_plan(folder, content), stated)


def sealed_bytes(folder: Path) -> bytes:
    """The plan's bytes.

    Raises:
        InputError: there are none.
    """
    try:
        return (folder / PLAN).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder / PLAN}: cannot be read ({error.strerror}); name a folder that `safetyrepro envelope seal` wrote."
        ) from None


def stated_seal(folder: Path) -> str:
    """The seal as the folder states it.

    Raises:
        InputError: there is none.
    """
    path = folder / SEAL
    try:
        line = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); name a folder that was sealed.") from None
    match = _LINE.fullmatch(line)
    if match is None:
        raise InputError(f"{path}: found {line[:80]!r}, it should be 64 hex digits and '  {PLAN}'.")
    return match[1]


def parse_plan(folder: Path, content: bytes) -> Plan:
    """The plan in canonical JSON.

    Raises:
        InputError: it is no plan, not canonical, or at odds with itself.
    """
    try:
        plan = Plan.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        raise InputError(f"{folder / PLAN}: {field or 'content'}: {first['msg']}; it is no sealed plan.") from None
    if plan.canonical() != content:
        raise InputError(f"{folder / PLAN}: is not the canonical JSON of a plan (RFC 8785); it was written by hand.")
    models, benchmarks = [model.name for model in plan.models], [one.name for one in plan.benchmarks]
    for number, shard in enumerate(plan.shards):
        for field, named, held in (("model", shard.model, models), ("benchmark", shard.benchmark, benchmarks)):
            if named not in held:
                raise InputError(
                    f"{folder / PLAN}: shards.{number}.{field} is {named!r}, its {field}s are {', '.join(held)}; "
                    "it is no sealed plan."
                )
    return plan


def check_against_world(sealed: Sealed, items: Items, say: Say) -> None:
    """Plan the sealed grid again from what is on this machine, and refuse what differs.

    Another commit, or another state of the checkout, passes where the source files that a shard runs are the same.

    Raises:
        InputError: naming what differs, sealed and found.
    """
    now = build_plan(sealed.plan.envelope, items, say)
    if now.blocks:
        raise InputError(f"The sealed plan cannot be run here: {now.blocks[0]}.")
    was, found = _comparable(sealed.plan), _comparable(now.plan)
    _leave_unresolved(was, found)
    differing = _differences(was, found, "")
    if differing:
        more = f"; and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        raise InputError(
            f"{sealed.folder}: the plan on this machine differs from its seal: {'; '.join(differing[:_SHOWN])}{more}. "
            "Restore what was sealed, or seal a new plan in another folder."
        )


def _comparable(plan: Plan) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(plan.canonical())
    del body["code"]["commit"], body["code"]["dirty"], body["unverified"]
    return body


def _leave_unresolved(was: dict[str, Any], found: dict[str, Any]) -> None:
    """Hold what was sealed as unverified to nothing: it may be found here and not have been where it was sealed."""
    open_models = {model["name"]: model for model in was["models"] if model["weights_sha256"] is None}
    found["models"] = [open_models.get(model["name"], model) for model in found["models"]]
    open_data = {one["name"]: one for one in was["benchmarks"] if not one["items"]}
    found["benchmarks"] = [open_data.get(one["name"], one) for one in found["benchmarks"]]
    for before, shard in zip(was["shards"], found["shards"], strict=False):
        if shard["benchmark"] in open_data:
            shard["shots"] = before["shots"]
            for cell in shard["cells"]:
                cell["rows"] = 0


def _differences(was: Any, found: Any, where: str) -> list[str]:
    if isinstance(was, dict) and isinstance(found, dict):
        names = [*was, *(name for name in found if name not in was)]
        return [line for name in names for line in _differences(was.get(name), found.get(name), f"{where}.{name}")]
    if isinstance(was, list) and isinstance(found, list) and len(was) == len(found):
        return [
            line
            for at, pair in enumerate(zip(was, found, strict=True))
            for line in _differences(*pair, f"{where}.{at}")
        ]
    if was == found:
        return []
    return [f"{where.removeprefix('.')} was {_short(was)} and is {_short(found)}"]


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
