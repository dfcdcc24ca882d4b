"""From a request's prompt to the token ids that the model sees."""

from __future__ import annotations

from collections.abc import Sequence

from safetyrepro.engine.api import Tokenizer
from safetyrepro.errors import InputError
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.requests import ChatRequest, CompletionRequest


def completion_ids(tokenizer: Tokenizer, request: CompletionRequest) -> list[list[int]]:
    """Token ids of every prompt.

    Ids are taken as they are. In a text special tokens are parsed, and BOS is put in front where the tokenizer adds
    one and the text does not begin with it, as vLLM does (unless `add_special_tokens` is false).

    Raises:
        Refusal: 400, a prompt without a token.
    """
    sequences = []
    for number, prompt in enumerate(request.prompt):
        if isinstance(prompt, str):
            ids = tokenizer.encode(prompt)
            if request.add_special_tokens and tokenizer.adds_bos and tokenizer.bos_id is not None:
                ids = ids if ids[:1] == [tokenizer.bos_id] else [tokenizer.bos_id, *ids]
        else:
            ids = prompt
        if not ids:
            raise Refusal(400, f"prompt {number} holds no token: send at least one.", param="prompt")
        sequences.append(ids)
    return sequences


def chat_ids(tokenizer: Tokenizer, request: ChatRequest) -> list[int]:
    """Token ids of the chat: the model's own template, nothing added.

    Raises:
        Refusal: 400, the model has no template or its template refuses these messages.
    """
    if not tokenizer.has_chat_template:
        raise Refusal(400, "The model has no chat template: send a prompt to /v1/completions.", param="messages")
    continued = request.continue_final_message
    try:
        text = tokenizer.chat(
            [{"role": turn.role, "content": turn.content} for turn in request.messages],
            add_generation_prompt=not continued
            if request.add_generation_prompt is None
            else request.add_generation_prompt,
            continue_final_message=continued,
        )
    except InputError as error:
        raise Refusal(400, str(error), param="messages") from None
    ids = tokenizer.encode(text)
    if not ids:
        raise Refusal(400, "The chat template renders these messages as nothing.", param="messages")
    return ids


def check_room(sequences: Sequence[Sequence[int]], max_tokens: int, max_length: int, param: str) -> None:
    """Refuse what does not fit into the context, rather than truncate it.

    Raises:
        Refusal: 400, in the words by which suites recognise it.
    """
    longest = max(map(len, sequences))
    if longest + max_tokens > max_length:
        raise Refusal(
            400,
            f"This model's maximum context length is {max_length} tokens, and you asked for {longest + max_tokens} "
            f"({longest} in the prompt, {max_tokens} to generate): shorten the prompt or lower max_tokens.",
            param=param,
            code="context_length_exceeded",
        )
