"""Which calls a judge run makes: every answer against the reference, in both orders, unedited and edited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetyrepro.errors import InputError
from safetyrepro.judge.answers import Answer, draw, read_answers, read_questions
from safetyrepro.judge.edits import edited
from safetyrepro.judge.prompts import JudgePrompt
from safetyrepro.judge.surface import surface

ORDERS = ("ab", "ba")


@dataclass(frozen=True)
class Call:
    """One comparison in one order."""

    call_id: str
    """Hash of all that decides it: judge, models, edit, order and the request itself."""
    key: Mapping[str, Any]
    """`judge, item_id, model_a, model_b, edit, repeat, order`, as a verdict table has them."""
    features: Mapping[str, int]
    """Surface features of both answers, as `<feature>_a` and `<feature>_b`."""
    request: Mapping[str, Any]


@dataclass(frozen=True)
class Material:
    """What is judged."""

    questions: Mapping[str, str]
    answers: Mapping[str, Mapping[str, str]]
    """By model and item."""
    reference: Mapping[str, str]
    reference_model: str
    items: tuple[str, ...]
    """Those to judge, in the order of the draw."""


def read_material(
    questions: Path, answers: Sequence[Path], reference: Path, *, limit: int | None, seed: int
) -> Material:
    """Read questions, answers and reference, and draw the items.

    Raises:
        InputError: naming file, row and field; a reference file with more than one model; a model in two files; no item
            that question, reference and every model's answers share.
    """
    asked = read_questions(questions)
    references = read_answers(reference)
    models = {answer.model for answer in references}
    if len(models) != 1:
        raise InputError(f"{reference}: holds answers of {', '.join(sorted(models))}; a reference is one model's.")
    by_model: dict[str, dict[str, str]] = {}
    for path in answers:
        here: dict[str, dict[str, str]] = {}
        for answer in read_answers(path):
            here.setdefault(answer.model, {})[answer.item_id] = answer.text
        for model, texts in here.items():
            if model in by_model:
                raise InputError(f"{path}: {model} has answers in another file already; give each model's once.")
            by_model[model] = texts
    name = models.pop()
    if name in by_model:
        raise InputError(f"{reference}: {name} is the reference and under judgement too; leave it out of --answers.")
    texts = {answer.item_id: answer.text for answer in references}
    shared = [item for item in asked if item in texts and all(item in own for own in by_model.values())]
    if not shared:
        raise InputError(
            f"No question of {questions} has an answer by every model and by the reference; compare their ids."
        )
    return Material(asked, by_model, texts, name, tuple(draw(shared, limit, seed)))


def plan_calls(
    material: Material,
    prompt: JudgePrompt,
    *,
    judge: str,
    model: str,
    max_tokens: int,
    edits: Sequence[str] = (),
) -> tuple[list[Call], dict[str, int]]:
    """All calls, item by item, so that a run that is stopped has whole comparisons.

    Args:
        material: what is judged.
        prompt: how it is put to the judge.
        judge: the judge's name in the table.
        model: its name at the endpoint.
        max_tokens: limit of a reply.
        edits: targeted edits of the answers under judgement.

    Returns:
        The calls, and by edit the answers in which it finds nothing to change.
    """
    calls: list[Call] = []
    unchanged = dict.fromkeys(edits, 0)
    for item in material.items:
        for name, texts in material.answers.items():
            answer = Answer(item, name, texts[item])
            for edit in ("", *edits):
                text = answer.text if not edit else edited(edit, answer.text)
                if text is None:
                    unchanged[edit] += 1
                    continue
                for order in ORDERS:
                    calls.append(_call(material, prompt, answer, text, edit, order, judge, model, max_tokens))
    return calls, unchanged


def prompt_bytes(request: Mapping[str, Any]) -> int:
    """Bytes of the texts of a chat request."""
    return sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in request["messages"])


def _call(
    material: Material,
    prompt: JudgePrompt,
    answer: Answer,
    text: str,
    edit: str,
    order: str,
    judge: str,
    model: str,
    max_tokens: int,
) -> Call:
    other = material.reference[answer.item_id]
    first, second = (text, other) if order == "ab" else (other, text)
    request = {
        "model": model,
        "messages": prompt.messages(material.questions[answer.item_id], first, second),
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    key = {
        "judge": judge,
        "item_id": answer.item_id,
        "model_a": answer.model,
        "model_b": material.reference_model,
        "edit": edit,
        "repeat": 0,
        "order": order,
    }
    identity = json.dumps([key, request], ensure_ascii=True, sort_keys=True).encode()
    features = {f"{name}_a": value for name, value in surface(text).items()}
    features |= {f"{name}_b": value for name, value in surface(other).items()}
    return Call(hashlib.sha256(identity).hexdigest()[:24], key, features, request)
