"""What one version makes of an item: its own answer, and how it sees the other version's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Score
from safetyrepro.engine.api import Engine, Generated, GenerateRequest
from safetyrepro.errors import InputError
from safetyrepro.flips.outlook import Crossing, Own, Trajectory
from safetyrepro.flips.task import Question, Task

if TYPE_CHECKING:
    from safetyrepro.engine.observing import Ids, Observer, Span

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


def own_item(side: Side, task: Task, asked: Asked, place: int, other: Own | None = None) -> tuple[Own, Crossing]:
    """A version's own answer to an item, and how it sees the other version's in the same go.

    Args:
        side: the version.
        task: what is asked.
        asked: as `ask` gave it.
        place: which item.
        other: the item as the other version answered it, where both have the same vocabulary.

    Returns:
        The item, and how the other's answer is seen (an empty crossing without `other`).
    """
    question = asked.questions[place]
    seen = None if other is None else other.trajectory
    if asked.written is not None:
        return _written(side, task, question, asked.written[place], seen)
    chosen = None if seen is None else _place(question, seen)
    supports: list[Ids | None] = [
        seen.top_ids if seen is not None and number == chosen else None for number in range(len(question.options))
    ]
    view = side.observer.view(question.ids, [option.ids for option in question.options], supports)
    sums = [float(span.logprobs.sum(dtype="float64")) for span in view.spans]
    score = task.score_options(question, sums)
    answer, trajectory = "", None
    if score.choice is not None:
        option = question.options[score.choice]
        answer, trajectory = option.text, _trajectory(option.text, option.ids, view.spans[score.choice])
    values = tuple(total / option.divisor for total, option in zip(sums, question.options, strict=True))
    own = Own(question, score, answer, values, trajectory, view.state, view.attention_entropy)
    if seen is not None and chosen is None:
        return own, crossing_item(side, question, seen, same_vocabulary=True)
    return own, _crossing(None if chosen is None else view.spans[chosen])


def crossing_item(side: Side, question: Question, seen: Trajectory | None, *, same_vocabulary: bool) -> Crossing:
    """How a version sees the other version's answer.

    Args:
        side: the version that looks.
        question: the item as it is asked it.
        seen: the other's answer; None where nothing was written.
        same_vocabulary: whether token ids mean the same to both; otherwise the text is encoded anew.
    """
    if seen is None:
        return Crossing(None, None)
    ids = seen.ids if same_vocabulary else _encoded(side, question, seen.text)
    if ids is None:
        return Crossing(None, None, NO_PLACE)
    return _crossing(side.observer.view(question.ids, [ids], [seen.top_ids if same_vocabulary else None]).spans[0])


def check_scores(owns: Sequence[Own], task: Task) -> None:
    """Refuse a task that no item of gets a score.

    Raises:
        InputError: with the first item's reason.
    """
    scores: list[Score] = [own.score for own in owns]
    if scores and all(score.value is None for score in scores):
        raise InputError(f"{task.name}: no item gets a score; the first says: {scores[0].reason or scores[0].status}.")


def _written(
    side: Side, task: Task, question: Question, generated: Generated, seen: Trajectory | None
) -> tuple[Own, Crossing]:
    wanted: list[Sequence[int]] = [generated.ids] if generated.ids else []
    supports: list[Ids | None] = [None] * len(wanted)
    if seen is not None:
        wanted.append(seen.ids)
        supports.append(seen.top_ids)
    view = side.observer.view(question.ids, wanted, supports)
    score, read = task.score_text(question, generated.text, generated.finish_reason)
    trajectory = _trajectory(generated.text, generated.ids, view.spans[0]) if generated.ids else None
    answer = generated.text if read is None else f"{generated.text}\n[read: {read}]"
    own = Own(question, score, answer, (), trajectory, view.state, view.attention_entropy)
    return own, _crossing(None if seen is None else view.spans[-1])


def _place(question: Question, seen: Trajectory) -> int | None:
    """Which of the options the other version's answer is, as tokens."""
    return next((place for place, option in enumerate(question.options) if option.ids == seen.ids), None)


def _encoded(side: Side, question: Question, text: str) -> tuple[int, ...] | None:
    """The other version's answer in this one's tokens, behind its own prompt; None where the two merge."""
    whole = tuple(side.engine.tokenizer.encode(question.prompt + text))
    ids = whole[len(question.ids) :]
    return ids if ids and whole[: len(question.ids)] == question.ids else None


def _trajectory(text: str, ids: Sequence[int], span: Span) -> Trajectory:
    return Trajectory(text, tuple(ids), span.logprobs, span.top_ids, span.top_logprobs)


def _crossing(span: Span | None) -> Crossing:
    return Crossing(None, None) if span is None else Crossing(span.logprobs, span.support_logprobs)
