"""What the gateway asks of an engine; no torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

MOST_GREEDY: Final = 1e-6
"""Temperatures below this take the likeliest token."""
UPSTREAM: Final = "upstream"
"""What stands for numerics where they are a server's own."""
given_up: ContextVar[Callable[[], bool]] = ContextVar("given_up", default=lambda: False)
"""Whether nobody waits for what is asked in this context: read when it is asked, called while it is computed."""


class GivenUp(Exception):
    """What was asked is no longer computed, since nobody waits for it."""


@dataclass(frozen=True)
class ModelInfo:
    """A loaded model, as records and reports name it."""

    name: str
    """For people: the pulled name, the folder's or file's name, or the hub id."""
    weights_sha256: str | None
    """None where the weights are an upstream server's, which nobody here has read."""
    weights_verified: bool
    """Whether a hash was given beforehand and agreed."""
    files_sha256: Mapping[str, str] | None
    """SHA-256 by name of config's and tokenizer's files, empty where the weights' file holds them; None where they are
    an upstream server's."""
    source_quant: str | None
    numerics: str
    """`quant/compute dtype/decode/mode`, such as `nf4/float32/once/exact`, or `UPSTREAM`."""
    details: Mapping[str, str]
    """Everything else worth disclosing: NF4 block size, double quantisation, batch rows, bucket, threads, versions."""
    licence: str | None
    tokenizer_dir: Path
    """A folder with the tokenizer alone (no model config), for suites."""
    has_chat_template: bool
    adds_bos: bool
    bos_text: str | None
    eos_text: str
    max_length: int


class Tokenizer(Protocol):
    """The model's tokenizer: special tokens in text are parsed, nothing is added."""

    eos_ids: frozenset[int]
    bos_id: int | None
    adds_bos: bool
    has_chat_template: bool

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`."""
        ...

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of `ids`, special tokens visible unless `skip_special`."""
        ...

    def token_text(self, token_id: int) -> str:
        """The token as the OpenAI API shows it: its bytes decoded, special tokens visible."""
        ...

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """The model's own template applied to `messages`, as text with special tokens visible."""
        ...


@dataclass(frozen=True)
class Scored:
    """One sequence's per-token log-probabilities (nats, natural log, fp32 values)."""

    logprobs: tuple[float | None, ...]
    """One per token; the first is None."""
    top: tuple[tuple[tuple[int, float], ...], ...]
    """Per position the likeliest `TOP` tokens as (id, logprob), best first; the first position's is empty."""
    next_top: tuple[tuple[int, float], ...]
    """The likeliest tokens after the sequence, best first: greedy decoding's next token is the first."""
    from_memo: bool = field(default=False, compare=False)
    """Whether this call was answered from the memo."""


@dataclass(frozen=True)
class Decoding:
    """How text is generated; with `choice` and `repeat` it is part of the memo's key."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    choice: int = 0
    repeat: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken: at such temperatures no other can be drawn."""
        return self.temperature < MOST_GREEDY


@dataclass(frozen=True)
class Generated:
    """One generation."""

    ids: tuple[int, ...]
    """Generated tokens, the stop string's tokens and EOS included."""
    text: str
    """Their text, cut before the stop string; special tokens left out."""
    finish_reason: str
    """`stop` or `length`."""
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...]
    """Per generated token the likeliest `TOP` tokens, best first."""
    from_memo: bool = field(default=False, compare=False)
    """Whether this call was answered from the memo."""


@dataclass(frozen=True)
class ScoreRequest:
    """A sequence of which a span at the end is scored."""

    ids: tuple[int, ...]
    start: int = 1
    """Place of the span's first token, such as the number of the context's tokens; at least 1."""
    top: bool = False
    """Whether the likeliest tokens are wanted too, in place of the span's tokens and after the sequence."""


@dataclass(frozen=True)
class GenerateRequest:
    """A prompt and how it is continued."""

    ids: tuple[int, ...]
    decoding: Decoding
    top: bool = False
    """Whether the likeliest tokens are wanted too, in place of every generated one."""


TOP = 20
"""How many of the likeliest tokens are kept per position (the OpenAI API gives at most 20)."""


class Engine(Protocol):
    """A model that scores and generates; calls may come from any thread."""

    info: ModelInfo
    tokenizer: Tokenizer

    def score(self, sequences: Sequence[Sequence[int]], *, memo: bool = True) -> list[Scored]:
        """Score whole sequences; in exact mode a result depends on the sequence's token ids alone."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], decoding: Decoding, *, memo: bool = True) -> list[Generated]:
        """Continue each prompt."""
        ...

    def answer(
        self,
        scores: Sequence[ScoreRequest] = (),
        generations: Sequence[GenerateRequest] = (),
        *,
        memo: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[list[Scored], list[Generated]]:
        """Answer many requests at once; in shared mode what they have in common is computed once.

        Args:
            scores: What to score. Before a request's span the log-probabilities are None and the tops empty.
            generations: What to continue; requests with the same ids branch from one prefill.
            memo: Whether results are taken from the memo and kept in it.
            progress: Called from time to time with the number of requests that are answered.

        Returns:
            Results in the order of the requests.
        """
        ...

    def memo_hits(self) -> int:
        """How many sequences were answered from the memo since the load."""
        ...

    def close(self) -> None:
        """End the engine's thread; calls that still wait fail. May be called twice."""
        ...
