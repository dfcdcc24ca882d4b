"""`/v1/completions` before an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from safetyrepro.engine.api import Decoding, Engine, Generated, Scored
from safetyrepro.gateway.answer import Answer, Call
from safetyrepro.gateway.logprobs import (
    completion_logprobs,
    generated_positions,
    prompt_logprobs,
    prompt_positions,
)
from safetyrepro.gateway.prompt import check_room, completion_ids
from safetyrepro.gateway.requests import CompletionRequest
from safetyrepro.gateway.sample import Sampled, greedy_next, sample
from safetyrepro.gateway.wire import Seen


def complete(engine: Engine, request: CompletionRequest, call: Call, model: str) -> Answer:
    """Answer a completions request.

    Raises:
        Refusal: the request cannot be honoured.
    """
    tokenizer = engine.tokenizer
    sequences = completion_ids(tokenizer, request)
    check_room(sequences, request.max_tokens, engine.info.max_length, "prompt")
    scored = _scores(engine, request, sequences, call)
    sampled = _choices(engine, request, sequences, scored, call)
    choices: list[dict[str, Any]] = []
    for number, (prompt, ids) in enumerate(zip(request.prompt, sequences, strict=True)):
        for generated in sampled[number].choices:
            choice = _choice(engine, request, prompt, ids, scored[number] if scored else None, generated)
            choices.append({"index": len(choices), **choice})
    n_prompt = sum(map(len, sequences))
    n_generated = sum(prompt.n_generated for prompt in sampled)
    response = {
        "id": f"cmpl-{call.wire_id}",
        "object": "text_completion",
        "created": call.created,
        "model": model,
        "choices": choices,
        "usage": usage(n_prompt, n_generated),
    }
    from_memo = all(part.from_memo for part in (*(scored or ()), *sampled))
    return Answer(200, response, seen_by(engine, sequences), call.memo and from_memo)


def seen_by(engine: Engine, sequences: Sequence[Sequence[int]]) -> tuple[Seen, ...]:
    """What the wire log tells of prompts: ids, and text with special tokens visible."""
    return tuple(Seen(tuple(ids), engine.tokenizer.decode(ids)) for ids in sequences)


def usage(n_prompt: int, n_generated: int) -> dict[str, int]:
    """The response's token counts."""
    return {"prompt_tokens": n_prompt, "completion_tokens": n_generated, "total_tokens": n_prompt + n_generated}


def _scores(
    engine: Engine, request: CompletionRequest, sequences: Sequence[Sequence[int]], call: Call
) -> list[Scored] | None:
    wanted = request.prompt_logprobs is not None or (request.echo and request.logprobs is not None)
    return engine.score(sequences, memo=call.memo) if wanted else None


def _choices(
    engine: Engine,
    request: CompletionRequest,
    sequences: Sequence[Sequence[int]],
    scored: list[Scored] | None,
    call: Call,
) -> list[Sampled]:
    if scored and request.max_tokens == 1 and request.temperature == 0 and not request.stop:
        return [Sampled((greedy_next(engine, one),) * request.n, 1, one.from_memo) for one in scored]
    decoding = Decoding(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=tuple(request.stop),
        seed=request.seed,
        repeat=call.repeat,
    )
    return sample(engine, sequences, decoding, n=request.n, best_of=request.best_of or request.n, memo=call.memo)


def _choice(
    engine: Engine,
    request: CompletionRequest,
    prompt: str | list[int],
    ids: Sequence[int],
    scored: Scored | None,
    generated: Generated,
) -> dict[str, Any]:
    tokenizer = engine.tokenizer
    text = generated.text
    positions = generated_positions(generated)
    if request.echo:
        text = (prompt if isinstance(prompt, str) else tokenizer.decode(prompt)) + text
        if scored:
            positions = prompt_positions(ids, scored) + positions
    logprobs = None
    if request.logprobs is not None:
        logprobs = completion_logprobs(tokenizer, positions, text, request.logprobs)
    choice: dict[str, Any] = {"text": text, "logprobs": logprobs, "finish_reason": generated.finish_reason}
    if request.prompt_logprobs is not None and scored:
        choice["prompt_logprobs"] = prompt_logprobs(tokenizer, prompt_positions(ids, scored), request.prompt_logprobs)
    if request.return_token_ids:
        choice["prompt_token_ids"] = list(ids)
        choice["token_ids"] = list(generated.ids)
    return choice
