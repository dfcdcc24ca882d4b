"""What one version makes of an item: its own answer, and how it sees the other version's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Score
from safetyrepro.engine.api import Engine, Generated, GenerateRequest
from safetyrepro.engine.observing.view import Look
from safetyrepro.errors import InputError
from safetyrepro.flips.outlook import Crossing, Own, Trajectory
from safetyrepro.flips.task import Question, Task

if TYPE_CHECKING:
    from safetyrepro.engine.observing.observer import Observer
    from safetyrepro.engine.observing.view import Ids, Span, View

Step = Callable[[int], None]
"""Told how many items are done."""
NO_PLACE = "the other version's answer merges with the prompt in this version's tokens"


@dataclass(frozen=True)
class Side:
    """One version, loaded."""

    engine: Engine
    observer: Observer


@dataclass(frozen=True)
class Asked:
    """A task as one version is asked it."""

    questions: tuple[Question, ...]
    written: tuple[Generated, ...] | None
    """What it wrote; None where options are scored."""


def ask(side: Side, task: Task, step: Step) -> Asked:
    """Put a task to a version, and let it write where the task wants text."""
    questions = tuple(task.questions(side.engine.tokenizer))
    if task.decoding is None:
        return Asked(questions, None)
    asked = [GenerateRequest(question.ids, task.decoding) for question in questions]
    _, written = side.engine.answer(generations=asked, memo=False, progress=step)
    return Asked(questions, tuple(written))


def own_items(
    side: Side, task: Task, asked: Asked, places: Sequence[int], others: Sequence[Own] | None = None
) -> list[tuple[Own, Crossing]]:
    """A version's own answers to some items, and how it sees the other version's in the same go.

    Args:
        side: the version.
        task: what is asked.
        asked: as `ask` gave it.
        places: which items.
        others: the same items as the other version answered them, where both have the same vocabulary.

    Returns:
        Per item what it is to this version, and how the other's answer is seen (an empty crossing without `others`).
    """
    seen = [None] * len(places) if others is None else [other.trajectory for other in others]
    looks = [_look(asked, place, trajectory) for place, trajectory in zip(places, seen, strict=True)]
    found = []
    for place, trajectory, look, view in zip(places, seen, looks, side.observer.views(looks), strict=True):
        own = _own(task, asked, place, view)
        span = None if trajectory is None else view.spans[look.continuations.index(trajectory.ids)]
        found.append((own, _crossing(span)))
    return found


def crossing_items(
    side: Side, questions: Sequence[Question], seen: Sequence[Trajectory | None], *, same_vocabulary: bool
) -> list[Crossing]:
    """How a version sees the other version's answers.

    Args:
        side: the version that looks.
        questions: the items as it is asked them.
        seen: the other's answers; None where nothing was written.
        same_vocabulary: whether token ids mean the same to both; otherwise the text is encoded anew.
    """
    found, looks, places = [], [], []
    for place, (question, trajectory) in enumerate(zip(questions, seen, strict=True)):
        ids = None
        if trajectory is not None:
            ids = trajectory.ids if same_vocabulary else _encoded(side, question, trajectory.text)
        found.append(Crossing(None, None, NO_PLACE if trajectory is not None and ids is None else None))
        if trajectory is not None and ids is not None:
            places.append(place)
            looks.append(Look(question.ids, (ids,), (trajectory.top_ids if same_vocabulary else None,)))
    for place, view in zip(places, side.observer.views(looks), strict=True):
        found[place] = _crossing(view.spans[0])
    return found


def check_scores(owns: Sequence[Own], task: Task) -> None:
    """Refuse a task that no item of gets a score.

    Raises:
        InputError: with the first item's reason.
    """
    scores: list[Score] = [own.score for own in owns]
    if scores and all(score.value is None for score in scores):
        raise InputError(f"{task.name}: no item gets a score; the first says: {scores[0].reason or scores[0].status}.")


def _look(asked: Asked, place: int, seen: Trajectory | None) -> Look:
    """A version's own answer or options, and the other version's answer where it is none of them."""
    question = asked.questions[place]
    continuations = [option.ids for option in question.options]
    if asked.written is not None:
        written = tuple(asked.written[place].ids)
        continuations = [written] if written else []
    if seen is not None and seen.ids not in continuations:
        continuations.append(seen.ids)
    supports: list[Ids | None] = [None] * len(continuations)
    if seen is not None:
        supports[continuations.index(seen.ids)] = seen.top_ids
    return Look(question.ids, tuple(continuations), tuple(supports))


def _own(task: Task, asked: Asked, place: int, view: View) -> Own:
    question = asked.questions[place]
    if asked.written is not None:
        generated = asked.written[place]
        score, read = task.score_text(question, generated.text, generated.finish_reason)
        trajectory = _trajectory(generated.text, generated.ids, view.spans[0]) if generated.ids else None
        answer = generated.text if read is None else f"{generated.text}\n[read: {read}]"
        return Own(question, score, answer, (), trajectory, view.state, view.attention_entropy)
    options = view.spans[: len(question.options)]
    sums = [float(span.logprobs.sum(dtype="float64")) for span in options]
    score = task.score_options(question, sums)
    answer, trajectory = "", None
    if score.choice is not None:
        option = question.options[score.choice]
        answer, trajectory = option.text, _trajectory(option.text, option.ids, options[score.choice])
    values = tuple(total / option.divisor for total, option in zip(sums, question.options, strict=True))
    return Own(question, score, answer, values, trajectory, view.state, view.attention_entropy)


def _encoded(side: Side, question: Question, text: str) -> tuple[int, ...] | None:
    """The other version's answer in this one's tokens, behind its own prompt; None where the two merge."""
    whole = tuple(side.engine.tokenizer.encode(question.prompt + text))
    ids = whole[len(question.ids) :]
    return ids if ids and whole[: len(question.ids)] == question.ids else None


def _trajectory(text: str, ids: Sequence[int], span: Span) -> Trajectory:
    return Trajectory(text, tuple(ids), span.logprobs, span.top_ids, span.top_logprobs)


def _crossing(span: Span | None) -> Crossing:
    return Crossing(None, None) if span is None else Crossing(span.logprobs, span.support_logprobs)
