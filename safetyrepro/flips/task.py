"""What two versions are both asked: items with options to score, or prompts to continue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from safetyrepro.benchmarks.base import Score
from safetyrepro.engine.api import Decoding, Tokenizer


@dataclass(frozen=True)
class Option:
    """One option of a multiple-choice item."""

    text: str
    """As scored, its delimiter included."""
    ids: tuple[int, ...]
    """Its tokens behind the prompt."""
    divisor: float
    """What its summed logprob is divided by."""


@dataclass(frozen=True)
class Question:
    """One item as one model's tokenizer has it."""

    item_id: str
    cluster: str
    category: str
    gold: str
    """The right answer, for people."""
    prompt: str
    """Everything before the answer, special tokens visible as text."""
    ids: tuple[int, ...]
    options: tuple[Option, ...]
    """Empty where text is generated."""


class Task(Protocol):
    """One task of an update."""

    name: str
    config_id: str
    """SHA-256 of everything that decides what is asked."""
    decoding: Decoding | None
    """How text is generated; None where options are scored."""

    def questions(self, tokenizer: Tokenizer) -> list[Question]:
        """The items for one tokenizer, in the same order for all."""
        ...

    def score_options(self, question: Question, sums: Sequence[float]) -> Score:
        """Score an item from its options' summed logprobs (nats)."""
        ...

    def score_text(self, question: Question, text: str, finish_reason: str) -> tuple[Score, str | None]:
        """Score generated text, and what was read from it."""
        ...
