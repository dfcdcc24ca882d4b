"""The token ids that lm-evaluation-harness sends for a text, which its logs leave out.

The harness's completions client encodes with the model's tokenizer: a prompt as it is, a context with what is scored
behind it as one text, split where the context's own tokens end. Whitespace at a context's end goes to what is scored.
What is longer than the model is cut off on the left. Special tokens are added only where the client was told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.canonical import CandidateSequence


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
    """Encodes as the nominal arm's stock client did."""

    def __init__(self, cell: Cell, *, add_bos: bool):
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(cell.model.tokenizer_dir / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._add_bos = add_bos
        self._bos_text = (cell.model.bos_text or "") if add_bos else ""
        self._room = cell.model.max_length - 1

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=self._add_bos).ids
        return ids

    def pair(self, context: str, continuation: str) -> Encoded:
        """A context and what is scored behind it."""
        bare = context.rstrip()
        scored = context[len(bare) :] + continuation
        head = self._ids(bare)
        ids = head + self._ids(bare + scored)[len(head) :]
        kept = ids[-self._room :]
        return Encoded(self._bos_text + bare, scored, tuple(kept), len(head) - len(ids) + len(kept))

    def prompt(self, text: str, max_tokens: int) -> tuple[int, ...]:
        """A prompt, behind which `max_tokens` are generated."""
        return tuple(self._ids(text)[-(self._room - max_tokens) :])
