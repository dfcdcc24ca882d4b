"""What one side did with one item: sent, seen, answered, read, scored. Everything that a log may lack can be None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from safetyrepro.crosspkg.sides.anatomy import Anatomy, dissect
from safetyrepro.crosspkg.sides.turns import Turn

Path = Literal["logprob", "free"]
Ids = tuple[int, ...]


@dataclass(frozen=True)
class ScoredText:
    """One candidate whose likelihood was asked for."""

    text: str | None
    """As sent, with the white space that parts it from its context; None where only token ids are known."""
    logprob: float | None
    """Summed over its tokens, in nats."""
    n_tokens: int | None
    ids: Ids | None
    """Token ids of the whole sequence, context and candidate."""

    @property
    def bare(self) -> str | None:
        """The text without outer white space."""
        return None if self.text is None else self.text.strip()


@dataclass(frozen=True)
class Exchange:
    """One item and repeat on one side."""

    item_id: str
    repeat: int
    path: Path
    """`logprob` where candidates are scored, `free` where text is generated."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The request's other keys as sent; a key with null is the same as no key."""
    settings_known: bool = True
    """Whether the log holds the request; without it nothing can be said of its settings."""
    path_known: bool = True
    """Whether the log tells how the answer was got."""
    messages: tuple[Turn, ...] | None = None
    """The turns of a chat request; None for a raw prompt."""
    prompt: str | None = None
    """The raw prompt, without the candidate; special tokens that the client wrote stand in it as text."""
    sent_ids: Ids | None = None
    """The prompt where the client sent token ids."""
    ids: Ids | None = None
    """Token ids that the model saw: of the prompt, or of the first candidate's whole sequence."""
    prompt_tokens: int | None = None
    """How many the server counted (`usage`), for a request with one prompt."""
    candidates: tuple[ScoredText, ...] = ()
    output: str | None = None
    token_logprobs: tuple[float, ...] = ()
    """Of the output's tokens, in nats."""
    top: Mapping[str, float] = field(default_factory=dict)
    """The likeliest first tokens of the output with their logprobs."""
    finish_reason: str | None = None
    extracted: Any = None
    gold: Any = None
    score: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def anatomy(self) -> Anatomy:
        """The prompt in parts: template, system turn, worked examples, options, and the rest."""
        return dissect(self.prompt, self.messages)


@dataclass(frozen=True)
class Side:
    """All that one side did."""

    name: str
    exchanges: Mapping[tuple[str, int], Exchange]
    """By item and repeat, in the order of the log."""
    warnings: tuple[str, ...] = ()
    """What was read with a grain of salt."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The cluster of each item, where the log tells."""

    @cached_property
    def by_item(self) -> dict[str, list[Exchange]]:
        """The repeats of every item."""
        found: dict[str, list[Exchange]] = {}
        for (item_id, _), exchange in self.exchanges.items():
            found.setdefault(item_id, []).append(exchange)
        return found

    def score(self, item_id: str) -> float | None:
        """The item's score, averaged over its repeats; None where none holds one."""
        scores = [exchange.score for exchange in self.by_item.get(item_id, ()) if exchange.score is not None]
        return sum(scores) / len(scores) if scores else None
