"""Both versions on the same items: outcomes of each and every signal between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from safetyrepro.engine.tokenizer import FastTokenizer
from safetyrepro.errors import InputError
from safetyrepro.flips.outlook import Crossing, Own, Signals, counted, crossed_signals, own_signals
from safetyrepro.flips.passes import Asked, Side, ask, check_scores, crossing_items, own_items
from safetyrepro.flips.task import Task

if TYPE_CHECKING:
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine.api import ModelInfo, Tokenizer
    from safetyrepro.flips.update import Update
    from safetyrepro.progress import Progress

Version = Literal["old", "new"]


@dataclass(frozen=True)
class Collected:
    """One task under one update."""

    rows: tuple[dict[str, Any], ...]
    """A score table: for every item a row of each version, the signals between them on the new version's."""
    undefined: tuple[dict[str, Any], ...]
    """`signal`, `reason`, `items`."""
    versions: dict[str, dict[str, Any]]
    """Facts of both models."""


class Versions:
    """Both versions of an update, loaded when they are asked for."""

    def __init__(self, update: Update, watch: Progress, *, one_at_a_time: bool) -> None:
        self._specs: dict[Version, ModelSpec] = {"old": update.old, "new": update.new}
        self._watch = watch
        self.one_at_a_time = one_at_a_time
        self._open: dict[Version, Side] = {}
        self.infos: dict[Version, ModelInfo] = {}
        self.tokenizers: dict[Version, Tokenizer] = {}

    def side(self, version: Version) -> Side:
        """A version, loaded; with one at a time the other is let go first."""
        if version in self._open:
            return self._open[version]
        if self.one_at_a_time:
            self.close()
        from safetyrepro.engine import load
        from safetyrepro.engine.observing.observer import Observer

        engine = load(self._specs[version], progress=self._watch.say)
        self._open[version] = Side(engine, Observer(engine))
        self.infos[version] = engine.info
        self.tokenizers[version] = engine.tokenizer
        return self._open[version]

    def names(self) -> dict[Version, str]:
        """What the versions are called: by name, and by what differs of their numerics where the name is the same."""
        old, new = self.infos["old"], self.infos["new"]
        if old.name != new.name:
            return {"old": old.name, "new": new.name}
        parts = zip(old.numerics.split("/"), new.numerics.split("/"), strict=False)
        differing = next(((a, b) for a, b in parts if a != b), ("old", "new"))
        first, second = ("unquantised" if part == "none" else part for part in differing)
        return {"old": f"{old.name} ({first})", "new": f"{new.name} ({second})"}

    def close(self) -> None:
        """Let go of what is loaded."""
        for side in self._open.values():
            side.engine.close()
        self._open.clear()


@contextmanager
def versions_of(update: Update, watch: Progress, *, one_at_a_time: bool) -> Iterator[Versions]:
    """Both versions for the time of a run."""
    versions = Versions(update, watch, one_at_a_time=one_at_a_time)
    try:
        yield versions
    finally:
        versions.close()


@dataclass(frozen=True)
class _Seen:
    """One task as both versions saw it, items in order."""

    old: tuple[Own, ...]
    new: tuple[Own, ...]
    old_by_new: tuple[Crossing, ...]
    new_by_old: tuple[Crossing, ...]


def collect(versions: Versions, tasks: Sequence[Task], watch: Progress) -> list[Collected]:
    """Ask both versions all tasks.

    The old version answers; the new one answers and looks at the old answer; the old one looks at the new answer. With
    both in memory that happens a few items at a time, and the old version's second look goes on from its first.

    Raises:
        InputError: a task cannot be put to one of the versions, or gives no scores.
    """
    seen = _in_turn(versions, tasks, watch) if versions.one_at_a_time else _together(versions, tasks, watch)
    same = _same_vocabulary(versions)
    return [_collected(versions, task, part, same_vocabulary=same) for task, part in zip(tasks, seen, strict=True)]


def _together(versions: Versions, tasks: Sequence[Task], watch: Progress) -> list[_Seen]:
    old, new = versions.side("old"), versions.side("new")
    same = _same_vocabulary(versions)
    at_once = min(side.observer.at_once for side in (old, new))
    found = []
    for task in tasks:
        first, second = (_asked(versions, version, task, watch) for version in ("old", "new"))
        befores: list[Own] = []
        rows: list[tuple[Own, Crossing]] = []
        backs: list[Crossing] = []
        with _told(watch, task.name, len(first.questions)) as step:
            for places in _runs(len(first.questions), at_once, step):
                before = [own for own, _ in own_items(old, task, first, places)]
                after = _new_items(new, task, second, places, before, same_vocabulary=same)
                befores += before
                rows += after
                backs += _looked_at(old, before, [own for own, _ in after], same_vocabulary=same)
        afters, crossings = zip(*rows, strict=True)
        check_scores(befores, task)
        check_scores(afters, task)
        found.append(_Seen(tuple(befores), afters, crossings, tuple(backs)))
    return found


def _in_turn(versions: Versions, tasks: Sequence[Task], watch: Progress) -> list[_Seen]:
    befores = _old_answers(versions, tasks, watch)
    afters = _new_answers(versions, tasks, befores, watch)
    backs = _new_answers_by_old(versions, tasks, befores, [[own for own, _ in after] for after in afters], watch)
    return [
        _Seen(tuple(before), tuple(own for own, _ in after), tuple(crossing for _, crossing in after), tuple(back))
        for before, after, back in zip(befores, afters, backs, strict=True)
    ]


# Each of the three passes lets go of its version when it returns: the next one is loaded into the room that it leaves.


def _old_answers(versions: Versions, tasks: Sequence[Task], watch: Progress) -> list[list[Own]]:
    side, found = versions.side("old"), []
    for task in tasks:
        asked = _asked(versions, "old", task, watch)
        owns: list[Own] = []
        with _told(watch, f"{task.name}, old", len(asked.questions)) as step:
            for places in _runs(len(asked.questions), side.observer.at_once, step):
                owns += [own for own, _ in own_items(side, task, asked, places)]
        check_scores(owns, task)
        found.append(owns)
    return found


def _new_answers(
    versions: Versions, tasks: Sequence[Task], befores: Sequence[Sequence[Own]], watch: Progress
) -> list[list[tuple[Own, Crossing]]]:
    side, same, found = versions.side("new"), _same_vocabulary(versions), []
    for task, before in zip(tasks, befores, strict=True):
        asked = _asked(versions, "new", task, watch)
        rows: list[tuple[Own, Crossing]] = []
        with _told(watch, f"{task.name}, new", len(asked.questions)) as step:
            for places in _runs(len(asked.questions), side.observer.at_once, step):
                rows += _new_items(side, task, asked, places, [before[at] for at in places], same_vocabulary=same)
        check_scores([own for own, _ in rows], task)
        found.append(rows)
    return found


def _new_answers_by_old(
    versions: Versions,
    tasks: Sequence[Task],
    befores: Sequence[Sequence[Own]],
    afters: Sequence[Sequence[Own]],
    watch: Progress,
) -> list[list[Crossing]]:
    side, same, found = versions.side("old"), _same_vocabulary(versions), []
    for task, before, after in zip(tasks, befores, afters, strict=True):
        looked: list[Crossing] = []
        with _told(watch, f"{task.name}, new answers by old", len(before)) as step:
            for places in _runs(len(before), side.observer.at_once, step):
                owns, others = [before[at] for at in places], [after[at] for at in places]
                looked += _looked_at(side, owns, others, same_vocabulary=same)
        found.append(looked)
    return found


def _new_items(
    side: Side, task: Task, asked: Asked, places: Sequence[int], befores: Sequence[Own], *, same_vocabulary: bool
) -> list[tuple[Own, Crossing]]:
    found = own_items(side, task, asked, places, befores if same_vocabulary else None)
    if same_vocabulary:
        return found
    owns = [own for own, _ in found]
    return list(zip(owns, _looked_at(side, owns, befores, same_vocabulary=False), strict=True))


def _looked_at(side: Side, owns: Sequence[Own], others: Sequence[Own], *, same_vocabulary: bool) -> list[Crossing]:
    """Others' answers as the version sees them whose own ones are `owns`."""
    questions, seen = [own.question for own in owns], [other.trajectory for other in others]
    return crossing_items(side, questions, seen, same_vocabulary=same_vocabulary)


def _asked(versions: Versions, version: Version, task: Task, watch: Progress) -> Asked:
    if task.decoding is None:
        return ask(versions.side(version), task, lambda _: None)
    side = versions.side(version)
    with _told(watch, f"{task.name}, {version} writes", len(task.questions(side.engine.tokenizer))) as step:
        return ask(side, task, step)


def _runs(count: int, at_once: int, step: Callable[[int], None]) -> Iterator[range]:
    for start in range(0, count, at_once):
        step(start)
        yield range(start, min(start + at_once, count))


def _same_vocabulary(versions: Versions) -> bool:
    pieces = []
    for version in ("old", "new"):
        tokenizer = versions.tokenizers[version]
        if not isinstance(tokenizer, FastTokenizer):
            return False
        pieces.append(tokenizer.hugging_face.get_vocab())
    return bool(pieces[0] == pieces[1])


def _collected(
    versions: Versions,
    task: Task,
    seen: _Seen,
    *,
    same_vocabulary: bool,
) -> Collected:
    old, new = seen.old, seen.new
    if [own.question.item_id for own in old] != [own.question.item_id for own in new]:
        raise InputError(f"{task.name}: the two versions were asked other items; run them again.")
    names = versions.names()
    rows, reasons = [], []
    for before, after, first, second in zip(old, new, seen.old_by_new, seen.new_by_old, strict=True):
        between = crossed_signals(before, after, first, second, same_vocabulary=same_vocabulary)
        own = {"old": own_signals(before), "new": own_signals(after)}
        rows.append(_row(task, names["old"], before, own["old"].values))
        rows.append(_row(task, names["new"], after, {**own["new"].values, **between.values}))
        reasons += [between, *(_named(signals, side) for side, signals in own.items())]
    facts = {version: _facts(info) for version, info in versions.infos.items()}
    return Collected(tuple(rows), tuple(counted(reasons)), {str(version): body for version, body in facts.items()})


def _named(signals: Signals, side: str) -> Signals:
    return Signals({}, {f"{name}_{side}": reason for name, reason in signals.undefined.items()})


def _row(task: Task, model: str, own: Own, signals: dict[str, float]) -> dict[str, Any]:
    return {
        "model": model,
        "benchmark": task.name,
        "config_id": task.config_id,
        "item_id": own.question.item_id,
        "cluster": own.question.cluster,
        "category": own.question.category,
        "score": own.score.value,
        "status": own.score.status,
        "reason": own.score.reason,
        "prompt": own.question.prompt,
        "answer": own.answer,
        "gold": own.question.gold,
        **signals,
    }


def _facts(info: ModelInfo) -> dict[str, Any]:
    kept = asdict(info)
    del kept["tokenizer_dir"]
    return kept


def _told(watch: Progress, name: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    @contextmanager
    def told() -> Iterator[Callable[[int], None]]:
        task = watch.task(name, total)
        yield task.update
        task.finish(f"{total} items")

    return told()
