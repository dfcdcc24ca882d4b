"""The token ids that lm-evaluation-harness sends for a text, which its logs leave out.

The harness's completions client encodes with the model's tokenizer: a prompt as it is, a context with what is scored
behind it as one text, split where the context's own tokens end. Whitespace at a context's end goes to what is scored.
What is longer than the model is cut off on the left. Special tokens are added only where the client was told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.canonical import CandidateSequence

LENGTH = 2048
"""The context length that the harness takes for granted where nobody tells it one."""
MAX_TOKENS = 256
"""What the harness generates at most where a task says nothing."""


@dataclass(frozen=True)
class Client:
    """What the harness's stock client is told, as far as it decides which token ids it sends."""

    chat: bool
    """Whether prompts go through the chat template."""
    add_bos: bool
    max_length: int
    max_tokens: int
    """Generated at most; what a prompt leaves room for."""


def client_of(cell: Cell) -> Client:
    """The client of a cell: told the canonical values, or, in the shipped arm, nothing but what the model needs."""
    config, length = cell.config, cell.model.max_length
    if cell.arm is Arm.SHIPPED:
        return Client(chat=False, add_bos=False, max_length=min(length, LENGTH), max_tokens=MAX_TOKENS)
    chat = config.chat_template.enabled
    add_bos = cell.model.adds_bos and config.prompt.bos == "auto" and not chat
    return Client(chat, add_bos, length, config.decoding.max_tokens)


@dataclass(frozen=True)
class Encoded:
    """A context with what is scored behind it, as it was sent."""

    context: str
    """With BOS visible where it was added."""
    continuation: str
    ids: tuple[int, ...]
    n_context: int


def as_canonical(sequence: CandidateSequence) -> Encoded:
    """A canonical sequence, which the matched arm's client sends as it is."""
    return Encoded(sequence.context, sequence.delimiter + sequence.candidate, sequence.ids, sequence.n_context)


class Encoder:
    """Encodes as the stock client did."""

    def __init__(self, cell: Cell):
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(cell.model.tokenizer_dir / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._client = client_of(cell)
        self._bos_text = (cell.model.bos_text or "") if self._client.add_bos else ""
        self._room = self._client.max_length - 1
        self._prefix_text = cell.model.bos_text or cell.model.eos_text
        prefix = self._tokenizer.token_to_id(self._prefix_text)
        assert prefix is not None
        self._prefix: int = prefix

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=self._client.add_bos).ids
        return ids

    def pair(self, context: str, continuation: str) -> Encoded:
        """A context and what is scored behind it; an empty context is one token, BOS or else EOS."""
        if not context:
            whole = self._ids(continuation)
            if whole[:1] != [self._prefix]:
                whole = [self._prefix, *whole]
            return Encoded(self._prefix_text, continuation, tuple(whole[-self._room :]), 1)
        bare = context.rstrip()
        scored = context[len(bare) :] + continuation
        head = self._ids(bare)
        ids = head + self._ids(bare + scored)[len(head) :]
        kept = ids[-self._room :]
        return Encoded(self._bos_text + bare, scored, tuple(kept), len(head) - len(ids) + len(kept))

    def prompt(self, text: str) -> tuple[int, ...]:
        """A prompt, behind which text is generated."""
        return tuple(self._ids(text)[-(self._room - self._client.max_tokens) :])
