"""What a run has spent, and whether the next call may still be made.

A call is begun only if everything spent, everything that the calls under way can cost at most, and the most that it can
cost itself stay within the cap: the cap holds, whatever the answers' lengths.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MILLION = 1_000_000
MOST = 2**40
"""No call uses so many tokens: a server that states more states nothing."""
SLACK = 1.2
"""How far above the most tokens per byte seen so far the next prompt may be."""
FEWEST_OBSERVED = 3
"""Replies before tokens per byte are relied on."""
TEMPLATE_TOKENS = 64
"""Tokens that a chat template may add."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more calls."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.prompt - other.prompt, self.completion - other.completion)

    @property
    def total(self) -> int:
        """Both."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class Limits:
    """Prices in money per million tokens, and caps; None is no cap."""

    price_in: float = 0.0
    price_out: float = 0.0
    max_cost: float | None = None
    max_tokens: int | None = None

    def cost(self, usage: Usage) -> float:
        """Money for these tokens."""
        return (usage.prompt * self.price_in + usage.completion * self.price_out) / MILLION

    def allow(self, usage: Usage) -> bool:
        """Whether so much is within both caps."""
        money = self.max_cost is None or self.cost(usage) <= self.max_cost
        return money and (self.max_tokens is None or usage.total <= self.max_tokens)


def told_usage(response: Mapping[str, Any] | None) -> Usage | None:
    """The tokens that a response states; None where it states none that can be."""
    usage = (response or {}).get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int or not (0 <= prompt < MOST and 0 <= completion < MOST):
        return None
    return Usage(prompt, completion)


@dataclass
class Budget:
    """Spending of a run; used from many threads."""

    limits: Limits
    spent: Usage = Usage()
    unknown: int = 0
    """Calls that may have been paid without saying so; they are counted at the most they can have cost."""
    _reserved: Usage = Usage()
    _per_byte: float = 0.0
    _observed: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def most(self, prompt_bytes: int, max_tokens: int) -> Usage:
        """The most that one request can use: a token is at least a byte; later, by the tokens seen per byte so far."""
        ratio = 1.0 if self._observed < FEWEST_OBSERVED else min(1.0, SLACK * self._per_byte)
        return Usage(int(prompt_bytes * ratio) + TEMPLATE_TOKENS, max_tokens)

    def reserve(self, most: Usage, stopping: threading.Event) -> bool:
        """Set `most` aside, once calls under way leave room for it; False where it cannot fit any more."""
        with self._changed:
            while not self.limits.allow(self.spent + self._reserved + most):
                if self._reserved == Usage() or stopping.is_set():
                    return False
                self._changed.wait(0.5)
            self._reserved = self._reserved + most
            return True

    def release(self, most: Usage) -> None:
        """A call is over: what was set aside for it is free."""
        with self._changed:
            self._reserved = self._reserved - most
            self._changed.notify_all()

    def paid(self, usage: Usage | None, most: Usage, prompt_bytes: int) -> None:
        """Count an answer, by what it states or else by the most it can have cost."""
        with self._changed:
            self.spent = self.spent + (usage or most)
            if usage is None:
                self.unknown += 1
            elif prompt_bytes:
                self._per_byte = max(self._per_byte, usage.prompt / prompt_bytes)
                self._observed += 1

    def within(self) -> bool:
        """Whether spending so far and what is set aside stay within the caps."""
        with self._changed:
            return self.limits.allow(self.spent + self._reserved)

    @property
    def cost(self) -> float:
        """Money spent."""
        return self.limits.cost(self.spent)
