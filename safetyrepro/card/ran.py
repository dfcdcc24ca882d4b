"""What ran an anchor run's cells, as the card's section: machine, packages, commit and source files."""

from __future__ import annotations

from typing import Any

from safetyrepro.analysis.card.fact import given, not_disclosed, unverified
from safetyrepro.analysis.card.model import RunCard
from safetyrepro.crosspkg.facts import Experiment
from safetyrepro.crosspkg.importers.values import mapping
from safetyrepro.crosspkg.starts import Ran, who_ran
from safetyrepro.crosspkg.words import count_word
from safetyrepro.engine.api import UPSTREAM

PLAN = "experiment.json"
EARLIER = "the run was made before this was recorded"


def run_card(experiment: Experiment) -> RunCard:
    """The section of a card that says what ran it."""
    ran = who_ran(experiment)
    versions = {name: text for name, text in mapping(experiment.versions).items() if name != "platform"}
    own = tuple(dict.fromkeys(start.code.version for start in ran.starts))
    if not own and "safetyrepro" in versions:
        own = (versions["safetyrepro"],)
    return RunCard(
        hardware=_hardware(experiment, ran),
        software=given(versions, PLAN),
        code_version=given(", ".join(own), PLAN) if own else not_disclosed(EARLIER),
        code_commit=_commit(ran),
        code_dirty=_dirty(ran),
        code_sha256=_files(ran),
    )


def _hardware(experiment: Experiment, ran: Ran) -> Any:
    details = [mapping(model.details) for model in experiment.models]
    # A cell is kept only where device and threads are the same, so that they hold for every start.
    shared = {
        key: ", ".join(sorted({str(one[key]) for one in details if key in one}))
        for key in ("device", "threads")
        if any(key in one for one in details)
    }
    machines = [
        {name: str(value) for name, value in start.machine.model_dump().items() if value is not None} | shared
        for start in ran.starts
    ]
    if not machines and "platform" in experiment.versions:
        machines = [{"system": experiment.versions["platform"]} | shared]
    found = tuple(
        dict(one) for one in dict.fromkeys(tuple(machine.items()) for machine in machines or [shared] if machine)
    )
    if not found:
        return not_disclosed(EARLIER)
    if ran.starts and ran.unknown:
        return unverified(found, _partly(ran))
    served = any(model.numerics == UPSTREAM for model in experiment.models)
    return given(found, f"{PLAN}, of the machine that ran the suites; the server's is not known" if served else PLAN)


def _commit(ran: Ran) -> Any:
    if not ran.starts:
        return not_disclosed(EARLIER)
    named = [commit for commit in ran.commits if commit is not None]
    if not named:
        return not_disclosed("the package that ran it is no checkout")
    doubts = []
    if len(named) > 1:
        same = "" if len(ran.files) > 1 else ", whose source files that decide a result are the same"
        doubts.append(f"ran under {count_word(len(named))} commits{same}")
    if None in ran.commits:
        doubts.append("a part was run by a package that is no checkout")
    if any(start.code.dirty for start in ran.starts):
        doubts.append("tracked files differ from the commit")
    if ran.unknown:
        doubts.append(_partly(ran))
    return unverified(", ".join(named), "; ".join(doubts)) if doubts else given(named[0], PLAN)


def _dirty(ran: Ran) -> Any:
    if not ran.starts:
        return not_disclosed(EARLIER)
    states = [start.code.dirty for start in ran.starts]
    if any(states):
        return given(True, PLAN)
    if None in states:
        return not_disclosed("the package that ran it is no checkout")
    return unverified(False, _partly(ran)) if ran.unknown else given(False, PLAN)


def _files(ran: Ran) -> Any:
    if not ran.starts:
        return not_disclosed(EARLIER)
    if len(ran.files) > 1:
        return unverified(
            None, f"ran under {count_word(len(ran.files))} states of the source files: {', '.join(ran.files)}"
        )
    return unverified(ran.files[0], _partly(ran)) if ran.unknown else given(ran.files[0], PLAN)


def _partly(ran: Ran) -> str:
    return f"{ran.unknown} of {ran.cells} cells with results do not say what ran them"
