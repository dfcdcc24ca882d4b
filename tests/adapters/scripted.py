"""A model that writes what a test wants, behind the tokenizer of a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from safetyrepro.engine.api import Decoding, Engine, Generated, ModelInfo, Scored, Tokenizer


class Replying:
    """An engine that only writes: whatever `reply` makes of the prompt's text."""

    def __init__(self, engine: Engine, reply: Callable[[str], str]) -> None:
        self.info: ModelInfo = engine.info
        self.tokenizer: Tokenizer = engine.tokenizer
        self._reply = reply

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        raise NotImplementedError

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        made = []
        for prompt in prompts:
            text = self._reply(self.tokenizer.decode(prompt))
            ids = tuple(self.tokenizer.encode(text))[: decoding.max_tokens]
            made.append(Generated(ids, self.tokenizer.decode(ids), "stop", (-1.0,) * len(ids), ((),) * len(ids)))
        return made

    def memo_hits(self) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to end."""


def by_part(parts: dict[str, str]) -> Callable[[str], str]:
    """A reply for the one of `parts` that stands in a prompt."""

    def reply(prompt: str) -> str:
        return next(text for part, text in parts.items() if part in prompt)

    return reply
