"""Finds results and samples files below a path, and says which results belong to which samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetyrepro.crosspkg.importers.base import Notes
from safetyrepro.crosspkg.importers.json_stream import JsonStream
from safetyrepro.crosspkg.importers.lm_eval.results import Results, read_results
from safetyrepro.crosspkg.importers.reading import iterate_rows, opened
from safetyrepro.errors import InputError

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?")
_LOG = re.compile(r"\.(jsonl|ndjson|json)(\.gz)?$", re.IGNORECASE)
_WRITE_OUT = "_write_out_info"
_ANSWERS = frozenset({"resps", "filtered_resps", "arguments", "prompt_0", "logit_0"})


@dataclass(frozen=True)
class Samples:
    """A samples file, and the results file of the same run where there is one."""

    path: Path
    results: Results | None

    @property
    def stamp(self) -> str:
        """The time in the file's name; "" where there is none."""
        return stamp_of(self.path)


def stamp_of(path: Path) -> str:
    """The time in a file's name, in a form that sorts; "" where there is none."""
    found = STAMP.search(path.name)
    return "" if found is None else found[0].replace(":", "-")


def stem_of(path: Path) -> str:
    """A file's name without its endings and its time."""
    return STAMP.sub("", _LOG.sub("", path.name)).rstrip("_")


def find_files(path: Path, notes: Notes) -> tuple[list[Samples], list[Results]]:
    """Samples files below `path`, paired with their results, and all results files.

    A single samples file finds its results beside it, a single results file its samples.

    Raises:
        InputError: no file there is one of lm-evaluation-harness.
    """
    alone = path if path.is_file() else None
    paths = sorted(path.parent.iterdir() if alone else path.rglob("*"))
    samples: list[Path] = []
    results: list[Results] = []
    failures: list[str] = []
    for one in paths:
        if not one.is_file() or (not _LOG.search(one.name) and one != alone):
            continue
        if alone and one != alone and stamp_of(one) != stamp_of(alone):
            continue
        try:
            found = read_results(one)
            if found is not None:
                results.append(found)
            elif _is_samples(one):
                samples.append(one)
        except InputError as error:
            if one == alone:
                raise
            failures.append(str(error))
    if alone:
        samples, results = _belonging(alone, samples, results)
    if not samples and not results:
        if failures:
            raise InputError(failures[0])
        raise InputError(
            f"{path}: holds no results and no samples of lm-evaluation-harness; samples are files such as "
            "samples_TASK_TIME.jsonl, whose rows have doc and resps."
        )
    if not alone:
        for failure in failures:
            notes.say(f"left out: {failure}")
    return [Samples(one, _paired(one, results, notes)) for one in samples], results


def _belonging(alone: Path, samples: Sequence[Path], results: Sequence[Results]) -> tuple[list[Path], list[Results]]:
    if alone in samples:
        return [alone], list(results)
    named = [one for one in results if one.path == alone]
    if not named:
        return [], []
    tasks = {plain(task) for task in named[0].tasks}
    return [one for one in samples if any(plain(stem_of(one)).endswith(task) for task in tasks)], named


def plain(name: str) -> str:
    """A task's name as the harness puts it into a file's name in one release or another, made alike."""
    return re.sub(r"\W", "_", name)


def _is_samples(path: Path) -> bool:
    with opened(path) as stream:
        if JsonStream(stream, path).peek() not in ("{", "["):
            raise InputError(f"{path}: holds no JSON object or array.")
    first = next(iter(iterate_rows(path)), None)
    return first is not None and not _ANSWERS.isdisjoint(first[1]) and ("doc_id" in first[1] or "doc" in first[1])


def _paired(path: Path, results: Iterable[Results], notes: Notes) -> Results | None:
    """The results of the same run: in the same folder, of the same time where both names hold one."""
    beside = [one for one in results if one.path.parent == path.parent]
    same = [one for one in beside if stamp_of(one.path) == stamp_of(path)]
    if stamp_of(path) and not same:
        same = [one for one in beside if not stamp_of(one.path)]
    if not same and not stamp_of(path):
        same = beside
    if len(same) == 1:
        return same[0]
    fitting = [one for one in same if any(plain(stem_of(path)).endswith(plain(task)) for task in one.tasks)]
    if len(fitting) == 1:
        return fitting[0]
    if same or beside:
        which = "several results files" if same else "results files of other times only"
        notes.say(f"{path}: beside it lie {which}, so its scores are compared with none.")
    return None


def task_and_model(path: Path, results: Results | None, siblings: Sequence[Path]) -> tuple[str, str | None, bool]:
    """The task and model of a samples file, and whether its name alone told the model.

    Without a results file the name is all there is: `pretrained=ORG__MODEL_TASK` in early releases of 0.4,
    `samples_TASK` below a folder `ORG__MODEL` in later ones, `TASK_write_out_info` in 0.3.
    """
    stem = stem_of(path)
    task = stem.removesuffix(_WRITE_OUT).removeprefix("samples_")
    if results is not None:
        known = [name for name in results.body["results"] if plain(task).endswith(plain(name))]
        return max(known, key=len, default=task), results.model, False
    found = re.match(r"(?:pretrained|model|engine)(?:=|__)", task)
    if found:
        model, task = _split(task, found.end(), [stem_of(one) for one in siblings])
        return task, model.split(",")[0].replace("__", "/"), True
    folder = path.parent.name
    if stem.startswith("samples_") and "__" in folder:
        return task, folder.replace("__", "/"), True
    return task, None, False


def _split(stem: str, start: int, siblings: Iterable[str]) -> tuple[str, str]:
    """Model and task in `pretrained=ORG__MODEL_TASK`: what files of a folder share is the model."""
    others = [other for other in siblings if other != stem and other[:start] == stem[:start]]
    shared = max((_common(stem, other) for other in others), key=len, default="")
    end = shared.rfind("_")
    if end > start:
        return stem[start:end], stem[end + 1 :]
    rest = re.compile(r"(?<!_)_(?!_)").search(stem, start)
    return (stem[start : rest.start()], stem[rest.end() :]) if rest else (stem[start:], stem)


def _common(one: str, other: str) -> str:
    length = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return one[:length]
