"""The card of an anchor run: what its configs asked, what each suite held, how far the suites are apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.analysis.card.fact import given, not_applicable, not_disclosed, unverified
from safetyrepro.analysis.card.model import (
    BenchmarkCard,
    Departure,
    EnvelopeCard,
    ModelCard,
    Shots,
    SuiteCard,
)
from safetyrepro.card.asked import asked, ids_sha256
from safetyrepro.card.identity import model_identity
from safetyrepro.card.parts import Parts
from safetyrepro.card.ran import EARLIER, PLAN, run_card
from safetyrepro.card.spreads import suite_spreads
from safetyrepro.card.stability import Analysed, Computation, analysed, read_table
from safetyrepro.config import UNVERIFIED, Arm, ModelSpec, cell_id
from safetyrepro.crosspkg.facts import CellOutcome, ConfigInfo, Experiment, ModelFacts
from safetyrepro.crosspkg.folder import load_experiment
from safetyrepro.crosspkg.importers.values import mapping
from safetyrepro.facts import items_sha256
from safetyrepro.runners import in_order, suite_of

if TYPE_CHECKING:
    import pandas as pd

    from safetyrepro.progress import Progress

_NOT_SEALED = (
    "nothing was sealed before the run, so that nothing shows that its configuration was not chosen by results"
)
_NO_SEAL = not_applicable("there is no seal")
_UPSTREAM = not_disclosed("a server that somebody else runs answered, and does not say")


def anchor_parts(folder: Path, how: Computation, watch: Progress) -> Parts:
    """The parts of the card of an anchor run.

    Args:
        folder: what `anchor run` wrote.
        how: what the stability results are computed with.
        watch: progress.

    Raises:
        InputError: none of its cells ended with records, or a file of it cannot be read.
    """
    experiment = load_experiment(folder)
    table = read_table(folder)
    found = analysed(table, how, watch)
    return Parts(
        models=tuple(_model(experiment, facts) for facts in experiment.models),
        benchmarks=tuple(
            _benchmark(experiment, name, infos, found.get(name)) for name, infos in _grids(experiment, table.frame)
        ),
        suites=tuple(_suites(experiment)),
        run=run_card(experiment),
        envelope=_envelope(experiment),
        stability=tuple(one.stability for one in found.values()),
        spreads=tuple(suite_spreads(experiment, how)),
    )


def _grids(experiment: Experiment, frame: pd.DataFrame) -> list[tuple[str, list[ConfigInfo]]]:
    """The configs of each grid, by the name that `grid` gives it: with the metric where there are several."""
    groups: dict[str, list[ConfigInfo]] = {}
    for info in experiment.configs:
        names = sorted(frame.loc[frame["config_id"] == info.config_id, "benchmark"].unique())
        for name in names or [info.config.benchmark.name]:
            groups.setdefault(str(name), []).append(info)
    return sorted(groups.items())


def _spec(experiment: Experiment, model: str) -> ModelSpec | None:
    """What the configs say of a model: the one whose cell's id is that of a cell of this model."""
    cells = {(one.facts.config_id, one.facts.suite, one.facts.arm, one.facts.cell_id): one for one in experiment.cells}
    for info in experiment.configs:
        for spec in info.config.models:
            for suite in info.config.suites:
                for arm in Arm:
                    key = (info.config_id, suite, arm.value, cell_id(info.config, spec, suite, arm))
                    if key in cells and cells[key].facts.model == model:
                        return spec
    return None


def _files(facts: ModelFacts) -> Any:
    if facts.files_sha256 is None:
        return not_disclosed(EARLIER)
    if not facts.files_sha256:
        return not_applicable("the weights' file holds them")
    return given(dict(facts.files_sha256), PLAN)


def _model(experiment: Experiment, facts: ModelFacts) -> ModelCard:
    spec = _spec(experiment, facts.name)
    upstream = spec is not None and spec.upstream is not None
    hidden = _UPSTREAM if upstream else not_disclosed("no cell of this model has ended")
    if facts.weights_sha256 is None:
        weights: Any = hidden
    elif facts.weights_verified:
        weights = given(facts.weights_sha256, PLAN)
    else:
        weights = unverified(facts.weights_sha256, "read from the file; no hash was given beforehand")
    own = None if spec is None or upstream else spec
    if spec is None:
        ids: dict[str, Any] = {"id": hidden, "revision": hidden}
        licence: Any = hidden
    else:
        found = model_identity(spec.id, spec.revision, facts.weights_sha256, PLAN)
        ids, licence = found.ids, found.licence
        if upstream:
            ids = {
                "id": unverified(spec.id, "as the server was asked for it; nobody saw its weights"),
                "revision": hidden,
            }
    numerics = {
        **(
            {}
            if own is None
            else {"decode": own.decode, "mode": own.mode, "double_quant": str(own.double_quant).lower()}
        ),
        **{name: str(value) for name, value in sorted(mapping(facts.details).items())},
    }
    return ModelCard(
        name=facts.name,
        **ids,
        weights_sha256=weights,
        files_sha256=hidden if upstream else _files(facts),
        source_quant=given(facts.source_quant, PLAN)
        if facts.source_quant
        else hidden
        if upstream
        else not_disclosed("the config states none, and the weights' files do not say whether they were quantised"),
        quant=hidden if own is None else given(own.quant, PLAN),
        compute_dtype=hidden if own is None else given(own.compute_dtype, PLAN),
        numerics=given(numerics, PLAN) if own is not None else hidden,
        licence=given(facts.licence, PLAN) if facts.licence else licence,
    )


def _benchmark(experiment: Experiment, name: str, infos: Sequence[ConfigInfo], found: Analysed | None) -> BenchmarkCard:
    ids = {info.config_id for info in infos}
    cells = [cell for cell in experiment.cells if cell.facts.config_id in ids]
    held = {record.item_id for cell in cells for record in cell.records}
    return BenchmarkCard(
        name=name,
        **asked([info.config.model_dump(mode="json") for info in infos], PLAN),
        dataset=given(_joined(info.data.source for info in infos), PLAN),
        revision=_revision(infos),
        data_sha256=_data(infos),
        licence=given(_joined(info.data.licence for info in infos), PLAN),
        items=given(max(info.data.items for info in infos), PLAN),
        item_ids_sha256=given(ids_sha256(held), "records") if held else not_disclosed("no cell has records"),
        items_sha256=_items(infos),
        template_sha256=_templates(infos),
        shot_ids=given(
            tuple(
                Shots(count=len(shots), ids=shots)
                for shots in sorted({info.data.shot_ids for info in infos}, key=lambda shots: (len(shots), shots))
            ),
            PLAN,
        ),
        departures=given(tuple(_departures(cells)), "cell.json of each cell"),
        statuses={} if found is None else found.statuses,
        configurations=() if found is None else found.configurations,
        results=() if found is None else found.results,
    )


def _items(infos: Sequence[ConfigInfo]) -> Any:
    pairs: list[tuple[str, str]] = []
    for info in infos:
        if info.item_sha256 is None:
            return not_disclosed(EARLIER)
        pairs += info.item_sha256.items()
    return given(items_sha256(pairs), PLAN)


def _templates(infos: Sequence[ConfigInfo]) -> Any:
    found = {info.config.prompt.template: info.template_sha256 for info in infos}
    return not_disclosed(EARLIER) if None in found.values() else given(found, PLAN)


def _revision(infos: Sequence[ConfigInfo]) -> Any:
    revisions = {info.data.revision for info in infos}
    if UNVERIFIED in revisions:
        return unverified(None, "marked unverified in the config")
    named = sorted(revision for revision in revisions if revision is not None)
    if named:
        return given(", ".join(named), PLAN)
    return not_applicable("the data is a file, which its hash pins")


def _data(infos: Sequence[ConfigInfo]) -> Any:
    hashes = {info.data.sha256 for info in infos}
    if len(hashes) > 1:
        return not_disclosed(f"the configs read {len(hashes)} different states of the data")
    sha256 = hashes.pop()
    if all(info.data.verified for info in infos):
        return given(sha256, PLAN)
    return unverified(sha256, "read from the file; no hash was given beforehand")


def _departures(cells: Iterable[CellOutcome]) -> list[Departure]:
    found = {
        (cell.facts.suite, cell.facts.arm, one.name, one.canonical, one.effective): None
        for cell in cells
        if cell.facts.state == "done"
        for one in cell.facts.settings
        if not one.held
    }
    return [
        Departure(suite=suite, arm=arm, setting=setting, asked=canonical, got=effective)
        for suite, arm, setting, canonical, effective in found
    ]


def _suites(experiment: Experiment) -> Iterable[SuiteCard]:
    arms: dict[str, dict[str, None]] = {}
    for cell in experiment.cells:
        if cell.facts.state == "done":
            arms.setdefault(cell.facts.suite, {})[cell.facts.arm] = None
    known = {facts.suite: facts for facts in experiment.suites}
    for suite in in_order(known):
        facts = known[suite]
        if facts.lock_sha256 is not None:
            lock: Any = given(facts.lock_sha256, PLAN)
        elif suite_of(suite) == "native":
            lock = not_applicable("the native runner has no environment of its own; the packages are listed")
        else:
            lock = not_disclosed("the run records no lock for it")
        yield SuiteCard(
            name=suite,
            version=given(facts.version, PLAN),
            lock_sha256=lock,
            arms=given(tuple(arms[suite]), "cell.json of each cell")
            if suite in arms
            else not_applicable("no cell of it ended with a result"),
        )


def _envelope(experiment: Experiment) -> EnvelopeCard:
    none = not_applicable("an anchor run is no envelope")
    done = sum(cell.facts.state == "done" for cell in experiment.cells)
    return EnvelopeCard(
        name=none,
        cells=given(len(experiment.cells) + len(experiment.unfinished), PLAN),
        cells_with_results=given(done, "cell.json of each cell"),
        tiers=none,
        seal=not_disclosed(_NOT_SEALED),
        ledger_head=_NO_SEAL,
        as_sealed=_NO_SEAL,
        published=_NO_SEAL,
    )


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts)))
