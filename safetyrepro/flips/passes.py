"""What one version makes of an item: its own answer, and how it sees the other version's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Score
from safetyrepro.engine.api import Engine, Generated, GenerateRequest
from safetyrepro.engine.observing.view import Look
from safetyrepro.errors import InputError
from safetyrepro.flips.outlook import NOTHING_WRITTEN, Crossing, Own, Trajectory
from safetyrepro.flips.task import Question, Task

if TYPE_CHECKING:
    from safetyrepro.engine.observing.observer import Observer
    from safetyrepro.engine.observing.view import Ids, Span, View

Step = Callable[[int], None]
"""Told how many items are done."""
NO_PLACE = "the other version's answer merges with the prompt in this version's tokens"
TOO_LONG = "the other version's answer is longer than this version takes"
NO_EMBEDDING = "the other version's answer holds a token that this version does not have"


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

    Raises:
        InputError: an item is too long for the model or holds a token that it does not have, naming task and item.
    """
    trajectories = [None] * len(places) if others is None else [other.trajectory for other in others]
    unseen, looks = [], []
    for place, other in zip(places, trajectories, strict=True):
        question = asked.questions[place]
        unseen.append(_unseen(side, question, other, None if other is None else other.ids))
        looks.append(_look(asked, place, other if unseen[-1] is None else None))
        try:
            side.observer.check(looks[-1])
        except InputError as error:
            raise InputError(f"{task.name}, item {question.item_id}: {error}") from None
    found = []
    for place, other, crossing, look, view in zip(
        places, trajectories, unseen, looks, side.observer.views(looks), strict=True
    ):
        if other is not None and crossing is None:
            crossing = _crossing(view.spans[look.continuations.index(other.ids)])
        found.append((_own(side, task, asked, place, view), crossing or Crossing(None, None)))
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
    found: list[Crossing] = []
    looks: dict[int, Look] = {}
    for place, (question, other) in enumerate(zip(questions, seen, strict=True)):
        ids = None
        if other is not None:
            ids = other.ids if same_vocabulary else _encoded(side, question, other.text)
        unseen = _unseen(side, question, other, ids)
        found.append(unseen or Crossing(None, None))
        if other is not None and ids is not None and unseen is None:
            looks[place] = Look(question.ids, (ids,), (other.top_ids if same_vocabulary else None,))
    for place, view in zip(looks, side.observer.views(list(looks.values())), strict=True):
        found[place] = _crossing(view.spans[0])
    return found


def _unseen(side: Side, question: Question, other: Trajectory | None, ids: tuple[int, ...] | None) -> Crossing | None:
    """Why a version cannot look at the other's answer, whose tokens are `ids` to it; None where it can."""
    if other is None:
        return Crossing(None, None)
    if not ids:
        return Crossing(None, None, NO_PLACE if other.text else NOTHING_WRITTEN)
    if len(question.ids) + len(ids) > side.observer.max_length:
        return Crossing(None, None, TOO_LONG)
    return Crossing(None, None, NO_EMBEDDING) if max(ids) >= side.observer.vocabulary else None


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


def _own(side: Side, task: Task, asked: Asked, place: int, view: View) -> Own:
    question = asked.questions[place]
    if asked.written is not None:
        generated = asked.written[place]
        score, read = task.score_text(question, generated.text, generated.finish_reason)
        trajectory = None
        if generated.ids:
            in_text = _spelling(side, generated)
            trajectory = _trajectory(generated.text, generated.ids, view.spans[0], in_text)
        answer = generated.text if read is None else f"{generated.text}\n[read: {read}]"
        return Own(question, score, answer, (), trajectory, view.state, view.attention_entropy)
    options = view.spans[: len(question.options)]
    sums = [float(span.logprobs.sum(dtype="float64")) for span in options]
    score = task.score_options(question, sums)
    answer, trajectory = "", None
    if score.choice is not None:
        option = question.options[score.choice]
        answer = option.text
        trajectory = _trajectory(option.text, option.ids, options[score.choice], len(option.ids))
    values = tuple(total / option.divisor for total, option in zip(sums, question.options, strict=True))
    return Own(question, score, answer, values, trajectory, view.state, view.attention_entropy)


def _encoded(side: Side, question: Question, text: str) -> tuple[int, ...] | None:
    """The other version's answer in this one's tokens, behind its own prompt; None where the two merge."""
    whole = tuple(side.engine.tokenizer.encode(question.prompt + text))
    ids = whole[len(question.ids) :]
    return ids if ids and whole[: len(question.ids)] == question.ids else None


def _spelling(side: Side, generated: Generated) -> int | None:
    """How many of the tokens spell the text, which ends before an end token or a stop string; None within a token."""
    tokenizer, count = side.engine.tokenizer, len(generated.ids)

    def text(tokens: int) -> str:
        return tokenizer.decode(generated.ids[:tokens], skip_special=True)

    while count and len(text(count)) > len(generated.text):
        count -= 1
    if text(count) != generated.text:
        return None
    while count and text(count - 1) == generated.text:
        count -= 1
    return count


def _trajectory(text: str, ids: Sequence[int], span: Span, in_text: int | None) -> Trajectory:
    return Trajectory(text, tuple(ids), span.logprobs, span.top_ids, span.top_logprobs, in_text)


def _crossing(span: Span) -> Crossing:
    return Crossing(span.logprobs, span.support_logprobs)
