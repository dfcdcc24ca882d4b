"""JSONL items as tasks: multiple choice by the likelihood of letters, problems by a generated solution."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetyrepro.benchmarks.base import Score
from safetyrepro.benchmarks.extraction import letters
from safetyrepro.benchmarks.scoring import best_candidate, normalised
from safetyrepro.config import canonical_sha256
from safetyrepro.engine.api import Decoding, Tokenizer
from safetyrepro.errors import InputError
from safetyrepro.flips.final_answer import read_answer, same_answer
from safetyrepro.flips.item_file import FileItem, read_choices, read_problems
from safetyrepro.flips.task import Option, Question

CHOOSE = "Answer:"
SOLVE = "Solve the problem step by step. End with a line that says “Answer:” and the answer alone."
SOLUTION_TOKENS = 400


class FileTask:
    """What both kinds of files have in common."""

    decoding: Decoding | None = None

    def __init__(self, path: Path, items: Sequence[FileItem], sha256: str, *, chat: bool) -> None:
        self._items = {item.item_id: item for item in items}
        self._chat = chat
        self.name = path.stem
        self.config_id = canonical_sha256(
            {"kind": type(self).__name__, "data": sha256, "items": list(self._items), "chat": chat}
        )

    def questions(self, tokenizer: Tokenizer) -> list[Question]:
        """As `Task.questions`.

        Raises:
            InputError: a chat template is asked of a model that has none, or an option merges with its prompt.
        """
        return [self._question(item, tokenizer) for item in self._items.values()]

    def score_options(self, question: Question, sums: Sequence[float]) -> Score:
        """As `Task.score_options`: right where the right letter is the likeliest."""
        values = normalised(list(sums), [option.divisor for option in question.options])
        return values if isinstance(values, Score) else best_candidate(values, [self._items[question.item_id].gold])

    def score_text(self, question: Question, text: str, finish_reason: str) -> tuple[Score, str | None]:
        """As `Task.score_text`: right where the answer that is read is the problem's."""
        read = read_answer(text)
        if read is None:
            status = "truncated" if finish_reason == "length" else "unparsed"
            return Score(0.0, status, "the text states no answer and holds no number"), None  # type: ignore[arg-type]
        return Score(float(same_answer(read, self._items[question.item_id].answer)), "ok"), read

    def _question(self, item: FileItem, tokenizer: Tokenizer) -> Question:
        user = self._user(item)
        if self._chat:
            if not tokenizer.has_chat_template:
                raise InputError(f"{self.name}: --chat asks for a chat template, and this model's tokenizer has none.")
            prompt = tokenizer.chat([{"role": "user", "content": user}])
        else:
            start = (
                tokenizer.token_text(tokenizer.bos_id) if tokenizer.adds_bos and tokenizer.bos_id is not None else ""
            )
            prompt = start + user
        ids = tuple(tokenizer.encode(prompt))
        marks = letters(len(item.options))
        texts = [mark if self._chat else f" {mark}" for mark in marks]
        options = tuple(Option(text, self._behind(item, prompt, ids, text, tokenizer), 1.0) for text in texts)
        gold = f"{marks[item.gold]}. {item.answer}" if marks else item.answer
        return Question(item.item_id, item.cluster, item.category, gold, prompt, ids, options)

    def _behind(
        self, item: FileItem, prompt: str, ids: tuple[int, ...], text: str, tokenizer: Tokenizer
    ) -> tuple[int, ...]:
        whole = tuple(tokenizer.encode(prompt + text))
        if whole[: len(ids)] != ids or len(whole) == len(ids):
            raise InputError(
                f"{self.name}, item {item.item_id!r}: option {text!r} merges with its prompt; leave it out."
            )
        return whole[len(ids) :]

    def _user(self, item: FileItem) -> str:
        raise NotImplementedError


class ChoiceTask(FileTask):
    """Multiple choice: options listed with letters, the likeliest letter is the answer."""

    def _user(self, item: FileItem) -> str:
        listed = [f"{mark}. {text}" for mark, text in zip(letters(len(item.options)), item.options, strict=True)]
        return "\n".join([*([item.context] if item.context else []), item.question, *listed, CHOOSE])


class ProblemTask(FileTask):
    """Problems: a solution is generated greedily and its final answer read."""

    decoding: Decoding | None = Decoding(max_tokens=SOLUTION_TOKENS)

    def _user(self, item: FileItem) -> str:
        return "\n\n".join([SOLVE, *([item.context] if item.context else []), item.question])


def choice_task(path: Path, limit: int | None, *, chat: bool) -> ChoiceTask:
    """The task of a file of multiple-choice items.

    Raises:
        InputError: as `read_choices` says.
    """
    items, sha256 = read_choices(path, limit)
    return ChoiceTask(path, items, sha256, chat=chat)


def problem_task(path: Path, limit: int | None, *, chat: bool) -> ProblemTask:
    """The task of a file of problems.

    Raises:
        InputError: as `read_problems` says.
    """
    items, sha256 = read_problems(path, limit)
    return ProblemTask(path, items, sha256, chat=chat)
