"""The card of a sealed envelope run, from its plan, its ledger and its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro import benchmarks
from safetyrepro.analysis.card.fact import given, not_applicable, not_disclosed, unverified
from safetyrepro.analysis.card.model import (
    BenchmarkCard,
    Configuration,
    EnvelopeCard,
    ModelCard,
    RunCard,
    Shots,
    SuiteCard,
)
from safetyrepro.card.asked import asked, ids_sha256
from safetyrepro.card.identity import model_identity
from safetyrepro.card.parts import Parts
from safetyrepro.card.stability import Computation, analysed, read_table
from safetyrepro.config import UNVERIFIED
from safetyrepro.envelope.grid import ARM, SUITE
from safetyrepro.envelope.ledger import LEDGER, Entry, read_lines
from safetyrepro.envelope.seal import PLAN, SEAL, read_sealed
from safetyrepro.envelope.verify import Verdict, verify
from safetyrepro.errors import InputError
from safetyrepro.facts import items_sha256

if TYPE_CHECKING:
    import pandas as pd

    from safetyrepro.envelope.document import BenchmarkFacts, ModelFacts, Plan
    from safetyrepro.progress import Progress

_NAMED = 3


@dataclass(frozen=True)
class _Run:
    plan: Plan
    entries: Sequence[Entry]
    frame: pd.DataFrame

    def doubt(self, start: str) -> str:
        """Why the plan calls something unverified."""
        return next((one.reason for one in self.plan.unverified if one.what.startswith(start)), "not verified")

    def facts(self, model: str) -> list[Mapping[str, Any]]:
        """What the ledger says of a model's shards."""
        shards = {shard.name for shard in self.plan.shards if shard.model == model}
        return [entry.facts for entry in self.entries if entry.shard in shards]


def sealed_parts(folder: Path, how: Computation, watch: Progress) -> Parts:
    """The parts of the card of a sealed run.

    Args:
        folder: what `envelope run` wrote.
        how: what the stability results are computed with.
        watch: progress.

    Raises:
        InputError: plan and seal do not belong together, nothing was run yet, or the records cannot be read.
    """
    sealed = read_sealed(folder)
    verdict = verify(folder, watch=watch)
    lines, _ = read_lines(folder / LEDGER)
    if not lines:
        raise InputError(f"{folder}: nothing was run yet; run `safetyrepro envelope run {folder}` first.")
    table = read_table(folder)
    run = _Run(sealed.plan, [entry for _, entry in lines], table.frame)
    found = analysed(table, how, watch)
    return Parts(
        models=tuple(_model(run, facts) for facts in sealed.plan.models),
        benchmarks=tuple(_benchmark(run, facts, found.get(facts.name)) for facts in sealed.plan.benchmarks),
        suites=(_suite(run),),
        run=_code(run),
        envelope=_envelope(run, verdict),
        stability=tuple(one.stability for one in found.values()),
        spreads=(),
    )


def _model(run: _Run, facts: ModelFacts) -> ModelCard:
    spec = next(one.model for one in run.plan.envelope.models if one.name == facts.name)
    ledger = run.facts(facts.name)
    numerics = {
        "decode": spec.decode,
        "mode": spec.mode,
        "double_quant": str(spec.double_quant).lower(),
        **_joined([{str(key): str(value) for key, value in _mapping(one.get("details")).items()} for one in ledger]),
    }
    licences = {str(one["licence"]) for one in ledger if one.get("licence")}
    if facts.verified and facts.weights_sha256 is not None:
        weights: Any = given(facts.weights_sha256, PLAN)
    else:
        read = next((str(one["weights_sha256"]) for one in ledger if one.get("weights_sha256")), None)
        weights = unverified(facts.weights_sha256 or read, run.doubt(f"model {facts.name}:"))
    found = model_identity(spec.id, spec.revision, facts.weights_sha256, PLAN)
    quant = facts.source_quant
    return ModelCard(
        name=facts.name,
        **found.ids,
        weights_sha256=weights,
        files_sha256=given(dict(facts.files), PLAN)
        if facts.files
        else not_applicable("the weights' file holds them, or they are not on the machine that sealed the plan"),
        source_quant=given(quant, PLAN)
        if quant
        else not_disclosed("the envelope states none, and the weights' files do not say whether they were quantised"),
        quant=given(spec.quant, PLAN),
        compute_dtype=given(spec.compute_dtype, PLAN),
        numerics=given(numerics, f"{PLAN}, {LEDGER}"),
        licence=given(", ".join(sorted(licences)), LEDGER) if licences else found.licence,
    )


def _benchmark(run: _Run, facts: BenchmarkFacts, found: Any) -> BenchmarkCard:
    plan, name = run.plan, facts.name
    spec = next(one.benchmark for one in plan.envelope.benchmarks if one.benchmark.name == name)
    bodies = [body for body in plan.configs.values() if body["benchmark"]["name"] == name]
    templates = {
        key.partition("/")[2]: sha256 for key, sha256 in plan.templates.items() if key.partition("/")[0] == name
    }
    shots = {(len(shard.shots), shard.shots) for shard in plan.shards if shard.benchmark == name}
    doubt = run.doubt(f"benchmark {name}:")
    if facts.items:
        ids: Any = given(ids_sha256(item.id for item in facts.items), PLAN)
        items: Any = given(items_sha256((item.id, item.sha256) for item in facts.items), PLAN)
        count: Any = given(len(facts.items), PLAN)
    else:
        held = sorted(set(run.frame.loc[run.frame["benchmark"] == name, "item_id"]))
        ids = given(ids_sha256(held), "records") if held else not_disclosed("no record of it")
        count = given(len(held), "records")
        items = unverified(None, doubt)
    data: Any = unverified(facts.sha256, doubt)
    if facts.verified and facts.sha256 is not None:
        data = given(facts.sha256, PLAN)
    return BenchmarkCard(
        name=name,
        **asked(bodies, PLAN),
        dataset=given(facts.source, PLAN),
        revision=_revision(spec.source, facts.revision, doubt),
        data_sha256=data,
        licence=given("Apache-2.0", "the pocket items' own")
        if spec.source == "pocket"
        else given(benchmarks.get(name).licence, "the data set's, as docs/benchmarks.md names it"),
        items=count,
        item_ids_sha256=ids,
        items_sha256=items,
        template_sha256=given(templates, PLAN),
        shot_ids=given(tuple(Shots(count=count, ids=own) for count, own in sorted(shots)), PLAN),
        departures=given((), "the native runner's cells hold every setting of their config"),
        statuses={} if found is None else found.statuses,
        configurations=_configurations(run, name),
        results=() if found is None else found.results,
    )


def _revision(source: str, revision: str | None, doubt: str) -> Any:
    if revision == UNVERIFIED:
        return unverified(None, doubt)
    if revision is not None:
        return given(revision, PLAN)
    if source == "hub":
        return not_disclosed("the plan names no commit of the data set")
    return not_applicable("the data is a file, which its hash pins")


def _configurations(run: _Run, name: str) -> tuple[Configuration, ...]:
    found = {
        cell.config_id: Configuration(config_id=cell.config_id, axes=cell.axes, tiers=cell.tiers)
        for shard in run.plan.shards
        if shard.benchmark == name
        for cell in shard.cells
    }
    return tuple(found.values())


def _suite(run: _Run) -> SuiteCard:
    return SuiteCard(
        name=SUITE,
        version=given(run.plan.code.version, PLAN),
        lock_sha256=not_applicable("the native runner has no environment of its own; the packages are listed"),
        arms=given((ARM.value,), PLAN),
    )


def _code(run: _Run) -> RunCard:
    code = run.plan.code
    machines = {tuple(sorted(_machine(entry.facts).items())): None for entry in run.entries}
    ran = {str(_mapping(entry.facts.get("code")).get("commit")) for entry in run.entries} - {str(code.commit)}
    source = PLAN
    if ran:
        source += f"; shards were run at {', '.join(sorted(ran)[:_NAMED])}, whose sealed source files are the same"
    if code.commit is None:
        commit: Any = not_disclosed("the package that ran it is no checkout")
    elif code.dirty:
        commit = unverified(code.commit, run.doubt("code.commit"))
    else:
        commit = given(code.commit, source)
    return RunCard(
        hardware=given(tuple(dict(one) for one in machines), LEDGER),
        software=given(dict(run.plan.packages), PLAN),
        code_version=given(code.version, PLAN),
        code_commit=commit,
        code_dirty=not_disclosed("the package that ran it is no checkout")
        if code.dirty is None
        else given(code.dirty, PLAN),
        code_sha256=given(code.files_sha256, PLAN),
    )


def _machine(facts: Mapping[str, Any]) -> dict[str, str]:
    machine = {str(key): str(value) for key, value in _mapping(facts.get("machine")).items()}
    details = _mapping(facts.get("details"))
    return machine | {key: str(details[key]) for key in ("device",) if key in details}


def _envelope(run: _Run, verdict: Verdict) -> EnvelopeCard:
    cells = [cell for shard in run.plan.shards for cell in shard.cells]
    tiers: dict[str, int] = {}
    for cell in cells:
        for tier in cell.tiers:
            tiers[tier] = tiers.get(tier, 0) + 1
    with_results = len(run.frame[["model", "config_id"]].drop_duplicates())
    if verdict.holds:
        as_sealed: Any = given(True, "held to the seal: every shard, row and ledger line is as promised")
    else:
        named = "; ".join(f"{one.where}: {one.what}" for one in verdict.problems[:_NAMED])
        more = f"; and {len(verdict.problems) - _NAMED} more" if len(verdict.problems) > _NAMED else ""
        as_sealed = unverified(False, f"{named}{more}")
    return EnvelopeCard(
        name=given(run.plan.envelope.name, PLAN),
        cells=given(len(cells), PLAN),
        cells_with_results=given(with_results, "records"),
        tiers=given(tiers, PLAN),
        seal=given(verdict.seal, f"{SEAL}, the SHA-256 of {PLAN}"),
        ledger_head=given(verdict.head, LEDGER) if verdict.head else not_disclosed("there is no ledger"),
        as_sealed=as_sealed,
        published=not_disclosed(
            "nothing in a folder shows that its seal stood before the results; its owner could have made all of it anew"
        ),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _joined(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Facts of several shards as one: different values side by side."""
    found: dict[str, dict[str, None]] = {}
    for one in several:
        for key, value in one.items():
            found.setdefault(key, {})[value] = None
    return {key: " / ".join(values) for key, values in sorted(found.items())}
