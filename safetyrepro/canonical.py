"""The canonical rendering: for every item the prompt and the candidates' token ids that all suites are held to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Benchmark, Data, Item
    from safetyrepro.config import Config
    from safetyrepro.engine.api import Tokenizer


@dataclass(frozen=True)
class Prompt:
    """One item's prompt."""

    item_id: str
    text: str
    """Everything before the answer, BOS and chat template applied, special tokens visible as text."""
    ids: tuple[int, ...]
    user: str
    """The user's text alone, before any template."""
    messages: tuple[tuple[str, str], ...]
    """(role, content) turns that the template was applied to; empty for a raw prompt."""


@dataclass(frozen=True)
class CandidateSequence:
    """One candidate behind its item's prompt."""

    item_id: str
    index: int
    context: str
    """The prompt's text."""
    delimiter: str
    """A space after a raw prompt; nothing after a chat template, nor where the prompt is a start token alone."""
    candidate: str
    ids: tuple[int, ...]
    """Token ids of context + delimiter + candidate, encoded as one text."""
    n_context: int
    """How many of them belong to the context."""


@dataclass(frozen=True)
class Canonical:
    """The rendering of a config for one tokenizer."""

    prompts: tuple[Prompt, ...]
    """In item order."""
    sequences: tuple[CandidateSequence, ...]
    """In item and candidate order; empty for free scoring."""


def ids_sha256(ids: Sequence[int]) -> str:
    """SHA-256 of token ids written as decimal numbers joined by commas."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def render(config: Config, benchmark: Benchmark, data: Data, tokenizer: Tokenizer) -> Canonical:
    """Render every item; refuses what no suite could be held to.

    Raises:
        InputError: a candidate merges with its context (the context's ids are no prefix of the whole's), two
            candidates of one item are the same text, a chat template is asked of a model that has none, or a prompt is
            empty and there is no token to begin with.
    """
    chat = config.chat_template.enabled
    if chat and not tokenizer.has_chat_template:
        raise InputError(
            "chat_template.enabled is true, and this model's tokenizer has no chat template: set it to false or take "
            "a model that has one."
        )
    prompts, sequences = [], []
    for item in data.items:
        prompt = (
            _chat_prompt(item, config, benchmark, data, tokenizer)
            if chat
            else _raw_prompt(item, config, benchmark, data, tokenizer)
        )
        prompts.append(prompt)
        if config.scoring.path == "logprob":
            delimiter = "" if chat or not prompt.user else " "
            sequences += _sequences(prompt, delimiter, benchmark.candidates(item, config), tokenizer)
    return Canonical(tuple(prompts), tuple(sequences))


def _raw_prompt(item: Item, config: Config, benchmark: Benchmark, data: Data, tokenizer: Tokenizer) -> Prompt:
    user = benchmark.prompt(item, data.shots, config)
    bos = ""
    if not user:
        bos = _start_token(config, tokenizer)
    elif config.prompt.bos == "auto" and tokenizer.adds_bos and tokenizer.bos_id is not None:
        bos = tokenizer.token_text(tokenizer.bos_id)
    text = bos + user
    return Prompt(item.item_id, text, tuple(tokenizer.encode(text)), user, ())


def _start_token(config: Config, tokenizer: Tokenizer) -> str:
    """What a text without any prompt is conditioned on: BOS, also where the tokenizer adds none by itself, else EOS.

    Without it the first token would have no probability. It is what lm-evaluation-harness puts in front of an empty
    context, and the text boundary that a model without a BOS was trained on.
    """
    if config.prompt.bos == "never":
        raise InputError(
            "prompt.bos is never, and this template's prompt is empty, so that a candidate's first token would have no "
            "probability: set prompt.bos to auto, or take another template."
        )
    if tokenizer.bos_id is not None:
        return tokenizer.token_text(tokenizer.bos_id)
    if not tokenizer.eos_ids:
        raise InputError(
            "This template's prompt is empty, and this model's tokenizer has neither a BOS nor an EOS token to begin "
            "with: take another template."
        )
    return tokenizer.token_text(min(tokenizer.eos_ids))


def _chat_prompt(item: Item, config: Config, benchmark: Benchmark, data: Data, tokenizer: Tokenizer) -> Prompt:
    system = config.chat_template.system
    messages = [] if system is None else [("system", system)]
    for shot in data.shots:
        messages += [("user", benchmark.prompt(shot, (), config)), ("assistant", benchmark.answer(shot, config))]
    user = benchmark.prompt(item, (), config)
    messages.append(("user", user))
    text = tokenizer.chat(
        [{"role": role, "content": content} for role, content in messages], add_generation_prompt=True
    )
    return Prompt(item.item_id, text, tuple(tokenizer.encode(text)), user, tuple(messages))


def _sequences(
    prompt: Prompt, delimiter: str, candidates: Sequence[str], tokenizer: Tokenizer
) -> list[CandidateSequence]:
    sequences: list[CandidateSequence] = []
    seen: dict[tuple[int, ...], int] = {}
    for index, candidate in enumerate(candidates):
        ids = tuple(tokenizer.encode(prompt.text + delimiter + candidate))
        if ids[: len(prompt.ids)] != prompt.ids or len(ids) == len(prompt.ids):
            raise InputError(_merged(prompt, index, candidate, ids, tokenizer))
        if ids in seen:
            raise InputError(
                f"Item {prompt.item_id}: candidates {seen[ids]} and {index} are the same tokens for this model "
                f"({candidates[seen[ids]]!r}, {candidate!r}): leave the item out (benchmark.items.ids)."
            )
        seen[ids] = index
        sequences.append(
            CandidateSequence(prompt.item_id, index, prompt.text, delimiter, candidate, ids, n_context=len(prompt.ids))
        )
    return sequences


def _merged(prompt: Prompt, index: int, candidate: str, ids: Sequence[int], tokenizer: Tokenizer) -> str:
    split = next(
        (at for at, (a, b) in enumerate(zip(prompt.ids, ids, strict=False)) if a != b), min(len(prompt.ids), len(ids))
    )
    start = max(0, split - 1)

    def pieces(some: Sequence[int]) -> str:
        return " ".join(repr(tokenizer.token_text(token)) for token in some[start : split + 3]) or "nothing"

    return (
        f"Item {prompt.item_id}, candidate {index} {candidate!r} merges with its prompt: at token {split} the prompt "
        f"alone has {pieces(prompt.ids)}, prompt and candidate have {pieces(ids)}; no suite could be held to one "
        "token sequence, so leave the item out (benchmark.items.ids) or change the template."
    )
