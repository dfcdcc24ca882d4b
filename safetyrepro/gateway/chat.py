"""`/v1/chat/completions` before an engine."""

from __future__ import annotations

from typing import Any

from safetyrepro.engine.api import Decoding, Engine, Generated
from safetyrepro.gateway.answer import Answer, Call
from safetyrepro.gateway.completions import seen_by, usage
from safetyrepro.gateway.logprobs import chat_logprobs, generated_positions, prompt_logprobs, prompt_positions
from safetyrepro.gateway.prompt import chat_ids, check_room
from safetyrepro.gateway.requests import ChatRequest
from safetyrepro.gateway.sample import sample


def chat(engine: Engine, request: ChatRequest, call: Call, model: str) -> Answer:
    """Answer a chat request.

    Raises:
        Refusal: the request cannot be honoured.
    """
    ids = chat_ids(engine.tokenizer, request)
    limit = request.limit()
    check_room([ids], 1 if limit is None else limit, engine.info.max_length, "messages")
    decoding = Decoding(
        max_tokens=engine.info.max_length - len(ids) if limit is None else limit,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=tuple(request.stop),
        seed=request.seed,
        repeat=call.repeat,
    )
    sampled = sample(engine, [ids], decoding, n=request.n, best_of=request.n, memo=call.memo)[0]
    response: dict[str, Any] = {
        "id": f"chatcmpl-{call.wire_id}",
        "object": "chat.completion",
        "created": call.created,
        "model": model,
        "choices": [
            {"index": index, **_choice(engine, request, generated)} for index, generated in enumerate(sampled.choices)
        ],
        "usage": usage(len(ids), sampled.n_generated),
    }
    from_memo = sampled.from_memo
    if request.prompt_logprobs is not None:
        scored = engine.score([ids], memo=call.memo)[0]
        from_memo = from_memo and scored.from_memo
        positions = prompt_positions(ids, scored)
        response["prompt_logprobs"] = prompt_logprobs(engine.tokenizer, positions, request.prompt_logprobs)
    if request.return_token_ids:
        response["prompt_token_ids"] = ids
    return Answer(200, response, seen_by(engine, [ids]), call.memo and from_memo)


def _choice(engine: Engine, request: ChatRequest, generated: Generated) -> dict[str, Any]:
    logprobs = None
    if request.logprobs:
        logprobs = chat_logprobs(engine.tokenizer, generated_positions(generated), request.top_logprobs)
    choice: dict[str, Any] = {
        "message": {"role": "assistant", "content": generated.text, "refusal": None},
        "logprobs": logprobs,
        "finish_reason": generated.finish_reason,
    }
    if request.return_token_ids:
        choice["token_ids"] = list(generated.ids)
    return choice
