"""A report or a difference as a check that passes or fails: thresholds, accepted causes, an earlier run as baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from safetyrepro.analysis.resampling import TOLERANCE
from safetyrepro.crosspkg.divergence.finding import CLASSES
from safetyrepro.crosspkg.repeats import within_words
from safetyrepro.errors import InputError
from safetyrepro.plurals import counted
from safetyrepro.strict_yaml import load_model

ANY = "any"
FAMILIES = frozenset(name.partition(".")[0] for name in CLASSES if "." in name)
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Gate:
    """What makes a command end with 1."""

    spread: float | None = None
    """Largest minus smallest suite score, in points, at or over which it fails."""
    drift: float | None = None
    """Points by which a score may not have moved against the baseline."""
    classes: tuple[str, ...] = ()
    """Class ids, families such as `bos`, or `any`."""

    def names(self, found: str) -> str | None:
        """Which of the gate's classes a class found is."""
        family = found.partition(".")[0]
        return next((name for name in self.classes if name in (found, family, ANY)), None)


class Acceptance(BaseModel):
    """A class that is known and accepted, with its reason."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    id: str = Field(alias="class", min_length=1)
    reason: str = Field(min_length=1)
    between: tuple[str, str] | None = None
    """The two suites (or sides) for which it is accepted; everywhere where none are named."""
    arm: Literal["shipped", "nominal", "matched"] | None = None
    benchmark: str | None = None

    def holds(self, found: str, a: str, b: str, arm: str | None, benchmark: str | None) -> bool:
        """Whether a class found in a place is accepted."""
        return (
            self.id in (found, found.partition(".")[0])
            and (self.between is None or {a, b} == set(self.between))
            and self.arm in (None, arm)
            and self.benchmark in (None, benchmark)
        )


class Suppressions(BaseModel):
    """A suppression file."""

    model_config = ConfigDict(extra="forbid")

    accept: tuple[Acceptance, ...]


@dataclass(frozen=True)
class Check:
    """One threshold in one place."""

    suite: str
    """Where: benchmark, model and arm, or the two sides of a difference."""
    name: str
    failed: bool
    message: str
    accepted: str | None = None
    """Why a failure is accepted."""
    measured: bool = True
    """Whether there was anything to hold to the threshold."""


@dataclass(frozen=True)
class Verdict:
    """All checks of a command."""

    checks: tuple[Check, ...] = field(default=())

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that failed and are not accepted."""
        return tuple(check for check in self.checks if check.failed and check.accepted is None)

    @property
    def unmeasured(self) -> tuple[Check, ...]:
        """Thresholds that were asked for and could not be held to anything."""
        return tuple(check for check in self.checks if not check.measured)


def parse_gate(texts: Sequence[str]) -> Gate:
    """Read `--fail-on` values such as `spread=2,class=bos.double`.

    Raises:
        InputError: an unknown name or class, or a threshold that is no number from 0.
    """
    limits: dict[str, float] = {}
    classes: list[str] = []
    for term in (part.strip() for text in texts for part in text.split(",")):
        if not term:
            continue
        name, _, value = term.partition("=")
        if name == "class":
            wanted = value.removesuffix(".*")
            if wanted != ANY and wanted not in CLASSES and wanted not in FAMILIES:
                raise InputError(f"--fail-on class={value}: no such class; `safetyrepro diff --list` lists them.")
            classes.append(wanted)
        elif name in ("spread", "drift"):
            limits[name] = _points(term, value)
        else:
            raise InputError(f"--fail-on {term!r}: it should be spread=POINTS, drift=POINTS or class=ID.")
    return Gate(limits.get("spread"), limits.get("drift"), tuple(dict.fromkeys(classes)))


def _points(term: str, value: str) -> float:
    try:
        points = float(value)
    except ValueError:
        points = math.nan
    if not math.isfinite(points) or points < 0:
        raise InputError(f"--fail-on {term!r}: {value!r} should be a number of points from 0.")
    return points


def read_suppressions(path: Path | None) -> tuple[Acceptance, ...]:
    """Accepted classes of a suppression file (YAML), none without one.

    Raises:
        InputError: it cannot be read, an entry lacks its reason, or names no class.
    """
    if path is None:
        return ()
    accepted = load_model(path, Suppressions).accept
    for entry in accepted:
        if entry.id not in CLASSES and entry.id not in FAMILIES:
            raise InputError(f"{path}: class {entry.id!r} is none; `safetyrepro diff --list` lists them.")
        if not entry.reason.strip():
            raise InputError(f"{path}: class {entry.id!r} is accepted without a reason; say why.")
    return accepted


class _Known(BaseModel):
    """A part of a report as far as a run is held to it; it may hold more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _KnownSuite(_Known):
    score: float | None = None


class _KnownArm(_Known):
    suites: dict[str, _KnownSuite]


class _KnownClass(_Known):
    name: str = Field(alias="class")


class _KnownPair(_Known):
    arm: str
    a: str
    b: str
    classes: list[_KnownClass]


class _KnownReport(_Known):
    config_id: str
    model: str
    arms: dict[str, _KnownArm]
    divergence: list[_KnownPair]


_BASELINE = TypeAdapter(list[_KnownReport])


def read_baseline(folder: Path | None) -> list[dict[str, Any]]:
    """report.json of an earlier run, nothing where none is named.

    Raises:
        InputError: the folder holds no report of this version.
    """
    if folder is None:
        return []
    path = folder / "report.json" if folder.is_dir() else folder
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        entries: list[dict[str, Any]] = body if isinstance(body, list) else [body]
        _BASELINE.validate_python(entries)
    except OSError:
        raise InputError(f"--baseline {folder}: holds no report.json; name the folder of an earlier run.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        shown = "" if first["type"] == "missing" else f", found {repr(first['input'])[:80]}"
        raise InputError(
            f"{path}: {field}: {first['msg']}{shown}; it is no report of this version, write it again."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); write it again.") from None
    return entries


def check_difference(body: Entry, gate: Gate, accepted: Sequence[Acceptance]) -> Verdict:
    """Hold one difference (as `diff --json` prints it) to a gate; `spread` is the gap of the two scores."""
    where = f"{body['a']} against {body['b']}"
    return Verdict((*_gap(body, gate, where), *_classes(body, gate, accepted, where, None, None, frozenset())))


def check_report(
    report: Sequence[Entry], gate: Gate, accepted: Sequence[Acceptance], baseline: Sequence[Entry] = ()
) -> Verdict:
    """Hold a report to a gate.

    Args:
        report: what report.json holds.
        gate: thresholds.
        accepted: classes that are known, with reasons.
        baseline: report.json of an earlier run: a class that it has in the same place does not fail, and `drift` holds
            every score to the earlier one.
    """
    earlier = {(entry["config_id"], entry["model"]): entry for entry in baseline}
    checks: list[Check] = []
    for entry in report:
        before = earlier.get((entry["config_id"], entry["model"]))
        for arm, section in entry["arms"].items():
            where = f"{entry['benchmark']}, {entry['model']}, {arm}"
            checks += _spread(section, gate, where)
            if before is not None:
                checks += _drift(section, before["arms"].get(arm), gate, where)
            for pair in entry["divergence"]:
                if pair["arm"] == arm:
                    known = _known(before, pair)
                    checks += _classes(pair, gate, accepted, where, arm, entry["benchmark"], known)
        if baseline and before is None:
            message = "the baseline has no such config and model: nothing to compare with"
            where = f"{entry['benchmark']}, {entry['model']}"
            checks.append(Check(where, "baseline", False, message, measured=gate.drift is None))
    return Verdict(tuple(checks))


def _gap(body: Entry, gate: Gate, where: str) -> Iterator[Check]:
    gap = body["gap_points"]
    if gate.spread is not None:
        failed = gap is not None and abs(gap) >= gate.spread - TOLERANCE
        shown = "no shared scores" if gap is None else f"{abs(gap):.1f} points apart"
        yield _unless_within(where, failed, f"{shown}, the limit is {gate.spread:g}", body["within"])


def _spread(section: Entry, gate: Gate, where: str) -> Iterator[Check]:
    if gate.spread is not None and section["spread_points"] is not None:
        points = section["spread_points"]
        failed = points >= gate.spread - TOLERANCE
        message = f"suites are {points:.1f} points apart, the limit is {gate.spread:g}"
        yield _unless_within(where, failed, message, section["spread"]["within"])


def _unless_within(where: str, failed: bool, message: str, within: Entry | None) -> Check:
    """A spread over the limit does not fail where a suite's own repeats are as far apart: it is no suite's doing."""
    if failed and within is not None and within["inside"]:
        return Check(where, "spread", False, f"{message}, but {within_words(within)}")
    return Check(where, "spread", failed, message)


def _drift(section: Entry, before: Entry | None, gate: Gate, where: str) -> Iterator[Check]:
    if gate.drift is None:
        return
    olds = {} if before is None else before["suites"]
    for suite in dict.fromkeys((*section["suites"], *olds)):
        old, new = (suites.get(suite, {}).get("score") for suites in (olds, section["suites"]))
        if old is None and new is None:
            continue
        if old is None or new is None:
            lacking = "the baseline" if old is None else "this run"
            message = f"{lacking} has no score of {suite}: nothing to compare with"
            yield Check(where, f"drift {suite}", False, message, measured=False)
            continue
        moved = 100 * (new - old)
        message = f"{suite} moved by {moved:+.1f} points against the baseline, the limit is {gate.drift:g}"
        yield Check(where, f"drift {suite}", abs(moved) >= gate.drift - TOLERANCE and moved != 0, message)


def _known(before: Entry | None, pair: Entry) -> frozenset[str]:
    """Classes that the baseline has between the same two suites of the same arm."""
    if before is None:
        return frozenset()
    return frozenset(
        found["class"]
        for other in before["divergence"]
        if other["arm"] == pair["arm"] and {other["a"], other["b"]} == {pair["a"], pair["b"]}
        for found in other["classes"]
    )


def _classes(
    pair: Entry,
    gate: Gate,
    accepted: Sequence[Acceptance],
    where: str,
    arm: str | None,
    benchmark: str | None,
    known: frozenset[str],
) -> Iterator[Check]:
    if not gate.classes:
        return
    a, b = pair["a"], pair["b"]
    found = [entry for entry in pair["classes"] if gate.names(entry["class"]) is not None]
    for entry in found:
        name = entry["class"]
        reason = next((e.reason for e in accepted if e.holds(name, a, b, arm, benchmark)), None)
        if name in known:
            reason = "the baseline has it as well"
        message = f"{name} between {a} and {b}: {counted(len(entry['items']), 'item')}, "
        message += f"{counted(entry['score_changed'], 'score')} changed"
        yield Check(where, f"class {name} ({a}, {b})", True, message, reason)
    if not found:
        names = ", ".join(gate.classes)
        yield Check(where, f"class {names} ({a}, {b})", False, f"none of {names} between {a} and {b}")
