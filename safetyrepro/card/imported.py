"""The card of a third party's logs, as `safetyrepro import` keeps them: what they say, and what they miss."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.analysis.card.fact import given, not_applicable, not_disclosed, unverified
from safetyrepro.analysis.card.model import BenchmarkCard, DecodingCard, EnvelopeCard, ModelCard, RunCard, SuiteCard
from safetyrepro.analysis.grid import temperature
from safetyrepro.card.asked import ids_sha256
from safetyrepro.card.parts import Parts
from safetyrepro.card.stability import UNNAMED, Analysed, Computation, analysed, read_table
from safetyrepro.card.taskrecords import TaskRecords, task_records
from safetyrepro.crosspkg.importers.helm.files import without_model
from safetyrepro.crosspkg.importers.values import clean, finite, mapping, text_of, whole
from safetyrepro.errors import InputError
from safetyrepro.facts import items_sha256

if TYPE_CHECKING:
    import pandas as pd

    from safetyrepro.progress import Progress

SUMMARY = "import.json"
LOG = "the log"
_NOBODY = not_disclosed("no log of a suite says what was planned")
_NO_SEAL = not_applicable("there is no seal")


@dataclass(frozen=True)
class _Log:
    """What import.json says of the tasks, and what of it concerns one part of a card."""

    tasks: Sequence[Mapping[str, Any]]

    def of_model(self, name: str) -> _Log:
        """The tasks of a model."""
        return _Log([task for task in self.tasks if (task.get("model") or UNNAMED) == name])

    def of_task(self, name: str) -> _Log:
        """The tasks of a benchmark; HELM's names hold the model, its records' do not."""
        return _Log([task for task in self.tasks if name in (task.get("task"), without_model(str(task.get("task"))))])

    def fact(self, name: str, make: Callable[[str], Any] = str) -> Any:
        """What the log discloses of itself under `name`."""
        said = [mapping(task.get("disclosed")).get(name) for task in self.tasks]
        values = list(dict.fromkeys(str(one) for one in said if one is not None))
        if len(values) == 1 and None not in said:
            return given(make(values[0]), LOG)
        if values:
            return unverified(make(values[0]), f"the logs do not agree, or not all say: {'; '.join(values[:3])}")
        return not_disclosed(self.silence)

    @property
    def silence(self) -> str:
        """Why nothing is known."""
        if self.tasks and all("disclosed" in task for task in self.tasks):
            return "the log does not say"
        return "the import kept nothing of it; import the log again"


def imported_parts(folder: Path, how: Computation, watch: Progress) -> Parts:
    """The parts of the card of imported logs.

    Args:
        folder: what `import --out` wrote.
        how: what the stability results are computed with.
        watch: progress.

    Raises:
        InputError: `import.json` is none, or the records cannot be read.
    """
    log = _read(folder / SUMMARY)
    seen = task_records(folder)
    table = read_table(folder)
    _blank_mixed_axes(table.frame)
    found = analysed(table, how, watch)
    names = dict.fromkeys(model for one in seen.values() for model in sorted(one.models))
    suites: dict[str, set[str]] = {}
    for one in seen.values():
        for suite, versions in one.suites.items():
            suites.setdefault(suite, set()).update(versions)
    return Parts(
        models=tuple(_model(name, log) for name in names),
        benchmarks=tuple(_benchmark(name, seen[name], log.of_task(seen[name].task), found) for name in sorted(seen)),
        suites=tuple(_suite(suite, versions) for suite, versions in sorted(suites.items())),
        run=_run(log),
        envelope=_envelope(found),
        stability=tuple(one.stability for one in found.values()),
        spreads=(),
    )


def _read(path: Path) -> _Log:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not the summary of an import ({error}); import the logs again.") from None
    tasks = body.get("tasks") if isinstance(body, dict) else None
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{path}: tasks is no list of tasks; it is not what `safetyrepro import --out` writes.")
    return _Log(tasks)


def _blank_mixed_axes(frame: pd.DataFrame) -> None:
    """Leave an axis open where a log's configuration has several levels of it, such as examples cut to a window."""
    keys = ["benchmark", "config_id"]
    for axis in ("template", "decoding", "shots", "scoring"):
        mixed = frame.groupby(keys, sort=False)[axis].transform("nunique", dropna=False) > 1
        frame[axis] = frame[axis].where(~mixed)


def _model(name: str, log: _Log) -> ModelCard:
    own = log.of_model(name)
    return ModelCard(
        name=name,
        id=not_disclosed("the log does not name its model") if name == UNNAMED else given(name, LOG),
        revision=own.fact("model_revision"),
        weights_sha256=not_disclosed("no log of a suite holds a hash of the weights"),
        files_sha256=not_disclosed("no log of a suite holds hashes of the model's config and tokenizer"),
        source_quant=not_disclosed(own.silence),
        quant=own.fact("quantisation"),
        compute_dtype=own.fact("compute_dtype"),
        numerics=own.fact("model_arguments", lambda text: {"arguments": text}),
        licence=not_disclosed("no log of a suite names the model's licence"),
    )


def _benchmark(name: str, seen: TaskRecords, log: _Log, found: Mapping[str, Analysed]) -> BenchmarkCard:
    result = found.get(name)
    hashes = seen.hashes if set(seen.hashes) == seen.items else None
    free, likelihood = "free" in seen.scoring, "logprob" in seen.scoring
    unknown = not_disclosed("the log does not tell whether candidates were scored or text was generated")
    return BenchmarkCard(
        name=name,
        metric=given(", ".join(sorted(seen.metrics)), LOG)
        if any(seen.metrics)
        else not_disclosed("no row has a score"),
        dataset=log.fact("dataset"),
        revision=log.fact("dataset_revision"),
        data_sha256=not_disclosed("no log of a suite holds a hash of the data set"),
        licence=not_disclosed("no log of a suite names the data's licence"),
        items=given(len(seen.items), "the records"),
        item_ids_sha256=given(ids_sha256(seen.items), "the records"),
        items_sha256=not_disclosed("the log holds no hash of the items")
        if hashes is None
        else given(items_sha256(hashes.items()), "the log's own hash of each item"),
        templates=log.fact("template", lambda text: (text,)),
        template_sha256=log.fact("template_sha256", lambda text: {"as the log has it": text}),
        chat_template=log.fact("chat_template", lambda text: (text,)),
        shots=_shots(seen),
        shot_ids=not_applicable("without worked examples")
        if seen.shots == {0}
        else not_disclosed("no log of a suite names its worked examples by id"),
        decoding=_decoding(seen, log)
        if free
        else unknown
        if not likelihood
        else not_applicable("nothing is generated"),
        seeds=log.fact("seeds", _seeds),
        scoring_path=unknown
        if None in seen.scoring
        else given(tuple(sorted(filter(None, seen.scoring))), "the records"),
        candidates=_candidates(seen, unknown, free=free, likelihood=likelihood),
        normalisation=_normalisation(unknown, free=free, likelihood=likelihood),
        extraction=log.fact("extraction", lambda text: (text,))
        if free
        else unknown
        if not likelihood
        else not_applicable("nothing is generated"),
        departures=not_applicable("there is no config that the suite was held to"),
        statuses={} if result is None else result.statuses,
        configurations=() if result is None else result.configurations,
        results=() if result is None else result.results,
    )


def _shots(seen: TaskRecords) -> Any:
    known = sorted(count for count in seen.shots if count is not None)
    if not known:
        return not_disclosed("the log does not say how many worked examples stood in front of an item")
    if None in seen.shots:
        return unverified(tuple(known), "some rows do not say")
    return given(tuple(known), "the records")


def _decoding(seen: TaskRecords, log: _Log) -> Any:
    """The temperature of the records, with what the log says besides."""
    said = [mapping(mapping(task.get("disclosed")).get("decoding")) for task in log.tasks]
    heats = sorted({heat for label in seen.decoding if label is not None and (heat := temperature(label)) is not None})
    own = said[0] if said and all(one == said[0] for one in said) else {}
    if not heats and not own:
        return not_disclosed("the log does not say how text was generated")
    values = tuple(
        DecodingCard(
            temperature=heat,
            top_p=finite(own.get("top_p")),
            max_tokens=whole(own.get("max_tokens")),
            stop=_texts(own.get("stop")),
        )
        for heat in heats or (None,)
    )
    lacking = [name for name in ("temperature", "top_p", "max_tokens", "stop") if getattr(values[0], name) is None]
    if all(heat == 0 for heat in heats) and heats and "top_p" in lacking:
        lacking.remove("top_p")
    if None in seen.decoding and "temperature" not in lacking:
        lacking.insert(0, "temperature (in some rows)")
    if lacking:
        return unverified(values, f"the log does not say: {', '.join(lacking)}")
    return given(values, LOG)


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(clean(str(one)) for one in value) if isinstance(value, list) else None


def _seeds(text: str) -> dict[str, tuple[int, ...]]:
    body = _object(text)
    return {name: (value,) for name, value in body.items() if isinstance(value, int) and value >= 0}


def _candidates(seen: TaskRecords, unknown: Any, *, free: bool, likelihood: bool) -> Any:
    if not likelihood:
        return not_applicable("no candidates are scored") if free else unknown
    if not seen.candidates:
        return not_disclosed("the log does not hold the candidates that were scored")
    return given(tuple(sorted(seen.candidates)), "the candidates' texts in the records")


def _normalisation(unknown: Any, *, free: bool, likelihood: bool) -> Any:
    if likelihood:
        return not_disclosed("the log does not say by what a candidate's likelihood is divided")
    return not_applicable("no candidates are scored") if free else unknown


def _suite(suite: str, versions: set[str]) -> SuiteCard:
    return SuiteCard(
        name=suite,
        version=given(", ".join(sorted(versions)), LOG) if versions else not_disclosed("the log does not say"),
        lock_sha256=not_disclosed("no log of a suite holds the lock of its environment"),
        arms=not_applicable("arms are of this project's own runs"),
    )


def _run(log: _Log) -> RunCard:
    return RunCard(
        hardware=log.fact("hardware", lambda text: ({"as the log has it": text},)),
        software=log.fact("software", _software),
        code_version=not_applicable("the code is the suite's, whose version stands there"),
        code_commit=log.fact("code_commit"),
        code_dirty=not_disclosed("no log of a suite says whether its code was changed"),
        code_sha256=not_disclosed("no log of a suite holds a hash of its code"),
    )


def _software(text: str) -> dict[str, str]:
    return {clean(str(name)): text_of(value) or "" for name, value in _object(text).items()}


def _object(text: str) -> dict[str, Any]:
    """A JSON object that the import wrote as text."""
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _envelope(found: Mapping[str, Analysed]) -> EnvelopeCard:
    none = not_applicable("a log is no envelope")
    return EnvelopeCard(
        name=none,
        cells=not_disclosed("a log shows the runs that it holds, and not which others were made"),
        cells_with_results=given(sum(one.cells for result in found.values() for one in result.results), "the records"),
        tiers=none,
        seal=not_disclosed("nothing was sealed before the run"),
        ledger_head=_NO_SEAL,
        as_sealed=_NO_SEAL,
        published=_NO_SEAL,
    )
