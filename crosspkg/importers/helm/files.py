"""A run folder of HELM: which of its files are there, and its requests one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.importers.helm.statistics import perturbation_of
from safetyrepro.crosspkg.importers.json_stream import JsonStream
from safetyrepro.crosspkg.importers.reading import Advance, iterate_array, opened, read_object
from safetyrepro.crosspkg.importers.values import mapping, text_of
from safetyrepro.errors import InputError

STATES, STATISTICS, AGGREGATES = "scenario_state.json", "per_instance_stats.json", "stats.json"
PREDICTIONS, REQUESTS, INSTANCES, SPEC = (
    "display_predictions.json",
    "display_requests.json",
    "instances.json",
    "run_spec.json",
)
ROWS = (STATES, PREDICTIONS, STATISTICS)
"""Files that hold rows; a folder with one of them, or with aggregates, is a run."""
_NAMES = (*ROWS, REQUESTS, INSTANCES, AGGREGATES, SPEC)


@dataclass(frozen=True)
class RunFolder:
    """A folder with files of one run."""

    path: Path
    files: dict[str, Path]
    """By their plain names; on the disk they may be gzip."""

    def size(self) -> int:
        """Bytes of the files that hold rows."""
        return sum(self.files[name].stat().st_size for name in ROWS if name in self.files)

    def spec(self) -> dict[str, Any]:
        """`run_spec.json`; empty where it is not there."""
        return read_object(self.files[SPEC]) if SPEC in self.files else {}

    def adapter(self) -> dict[str, Any]:
        """The adapter's settings: of the run's spec, or else of its states."""
        spec = mapping(self.spec().get("adapter_spec"))
        if spec or STATES not in self.files:
            return spec
        with opened(self.files[STATES]) as stream:
            values = JsonStream(stream, self.files[STATES])
            for key in values.members():
                if key == "adapter_spec":
                    return mapping(values.value())
                values.skip()
        return {}

    def states(self, advance: Advance) -> Iterator[dict[str, Any]]:
        """The run's requests: its states, or what the web pages show of them, in the same form.

        Raises:
            InputError: a file is damaged or has another form.
        """
        if STATES in self.files:
            yield from _states(self.files[STATES], advance)
        elif PREDICTIONS in self.files:
            yield from self._predictions(advance)

    def _predictions(self, advance: Advance) -> Iterator[dict[str, Any]]:
        requests = _keyed(self.files.get(REQUESTS))
        instances = _keyed(self.files.get(INSTANCES))
        for _, shown in iterate_array(self.files[PREDICTIONS], advance):
            name, perturbation = text_of(shown.get("instance_id")) or "", perturbation_of(shown)
            instance = mapping(instances.get((name, perturbation, "")))
            request = mapping(requests.get((name, perturbation, str(shown.get("train_trial_index", 0)))))
            yield {
                "instance": {**instance, "id": name, "perturbation": shown.get("perturbation")},
                "train_trial_index": shown.get("train_trial_index"),
                "request": mapping(request.get("request")),
                "result": {"success": True, "completions": [{"text": shown.get("predicted_text")}]},
            }


def _states(path: Path, advance: Advance) -> Iterator[dict[str, Any]]:
    with opened(path, advance) as stream:
        values = JsonStream(stream, path)
        found = False
        for key in values.members():
            if key == "request_states":
                found = True
                for number, state in enumerate(values.array(), 1):
                    if not isinstance(state, dict) or not isinstance(state.get("instance"), dict):
                        raise InputError(f"{path}, request state {number}: has no instance, as HELM's have.")
                    yield state
            else:
                values.skip()
        if not found:
            raise InputError(f"{path}: has no request_states, so it is no scenario state of HELM.")


def _keyed(path: Path | None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What the web pages show, by instance, perturbation and trial; it is compact."""
    if path is None:
        return {}
    found = {}
    for _, one in iterate_array(path):
        name = text_of(one.get("instance_id", one.get("id"))) or ""
        trial = one.get("train_trial_index")
        found[name, perturbation_of(one), "" if trial is None else str(trial)] = one
    return found


def find_folders(path: Path) -> list[RunFolder]:
    """The run folders at or below `path`; a file of a run stands for its folder.

    Raises:
        InputError: none is there.
    """
    if path.is_file() and _plain(path) not in _NAMES:
        raise InputError(
            f"{path}: no file of a HELM run; name its folder, which holds {', '.join(ROWS)} or {AGGREGATES}."
        )
    start = path.parent if path.is_file() else path
    folders = [start] if path.is_file() else [start, *sorted(one for one in start.rglob("*") if one.is_dir())]
    found = []
    for folder in folders:
        files = {_plain(one): one for one in sorted(folder.iterdir()) if one.is_file() and _plain(one) in _NAMES}
        if any(name in files for name in (*ROWS, AGGREGATES)):
            found.append(RunFolder(folder, files))
    if not found:
        raise InputError(f"{path}: holds no run of HELM, which is a folder with {', '.join(ROWS)} or {AGGREGATES}.")
    return found


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz")


def without_model(name: str) -> str:
    """A run's name without the parts that name its model, so that two models share it."""
    start, colon, rest = name.partition(":")
    kept = [part for part in rest.split(",") if not re.match(r"(?:model|model_deployment)=", part)]
    return f"{start}{colon if any(kept) else ''}{','.join(kept)}"
