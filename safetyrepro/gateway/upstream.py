"""Answers requests from another server of the OpenAI kind (vLLM or any compatible API)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from safetyrepro.engine.api import Tokenizer
from safetyrepro.errors import InputError
from safetyrepro.gateway.address import bearer, server_key, server_url
from safetyrepro.gateway.answer import CHAT, COMPLETIONS, Answer, Call
from safetyrepro.gateway.prompt import chat_ids, completion_ids
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.requests import ChatRequest, CompletionRequest, parse, parse_json
from safetyrepro.gateway.wire import Seen

KEY_VARIABLE = "SAFETYREPRO_UPSTREAM_KEY"
ATTEMPTS = 4
FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
CONNECTIONS = 64
PROMPT_FIELDS = {
    COMPLETIONS: ("prompt", "add_special_tokens"),
    CHAT: ("messages", "add_generation_prompt", "continue_final_message"),
}
"""Fields that decide what the model sees."""


class Upstream:
    """A backend that forwards requests as they came, but for the model's name.

    Connection errors, 429 and 5xx are tried again, `ATTEMPTS` times in all; redirects are not followed. What the
    model saw is told by the local tokenizer where there is one, else by the upstream's `prompt_token_ids` where it
    sends them, else it is not known.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        tokenizer: Tokenizer | None = None,
        first_wait: float = FIRST_WAIT,
        key_variable: str = KEY_VARIABLE,
    ) -> None:
        """Name the server.

        Args:
            url: Its base URL, ending in `/v1` as a rule.
            model: The model's name there; None forwards the name that the suite sent.
            tokenizer: The model's tokenizer.
            first_wait: Seconds before the second attempt; later waits are longer.
            key_variable: Environment variable that its key is read from.

        Raises:
            InputError: no http or https URL, one with credentials or a query in it, or a key that no header takes.
        """
        parsed = server_url(url, "Upstream URL", key_variable)
        self._url = parsed
        self._model = model
        self._tokenizer = tokenizer
        self._first_wait = first_wait
        self._client = httpx.Client(
            base_url=parsed,
            headers=bearer(server_key(key_variable)),
            timeout=httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=CONNECTIONS),
            follow_redirects=False,
        )

    def answer(self, path: str, body: Mapping[str, Any], call: Call) -> Answer:
        """Forward a request; the upstream's refusals are passed on as they are.

        A repeat of a request that is sampled from a seed is sent with a seed of its own.

        Raises:
            Refusal: 502, the upstream cannot be reached or gives no JSON object.
        """
        forwarded = dict(body) if self._model is None else {**body, "model": self._model}
        if call.repeat and type(body.get("seed")) is int and body.get("temperature") != 0:
            forwarded["seed"] = repeat_seed(body["seed"], call.repeat)
        response = self._post(path.removeprefix("/v1"), forwarded)
        try:
            answer = parse_json(response.content)
        except Refusal as refusal:
            raise Refusal(502, f"The upstream answered {response.status_code} with no JSON object.") from refusal
        seen = self._seen(path, body, answer) if response.is_success else ()
        return Answer(response.status_code, answer, seen)

    def model(self, name: str) -> Mapping[str, Any]:
        """What the server's `GET /models` says about the model `name`.

        Raises:
            InputError: the server cannot be reached, refuses the key, or does not list the model.
        """
        url = self._client.base_url
        try:
            response = self._client.get("/models", timeout=CONNECT_TIMEOUT)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"Upstream {url}: cannot be reached ({reason}); start it or correct the URL.") from None
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise InputError(f"Upstream {url}: refuses the key ({response.status_code}); put it in {KEY_VARIABLE}.")
        try:
            listed = parse_json(response.content).get("data") if response.is_success else None
        except Refusal:
            listed = None
        models = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else None
        if models is None:
            raise InputError(
                f"Upstream {url}: GET /models gave {response.status_code} and no list of models; the URL usually ends "
                "in /v1."
            )
        for entry in models:
            if entry.get("id") == name:
                return entry
        names = ", ".join(str(entry.get("id")) for entry in models[:5]) or "none"
        raise InputError(f"Upstream {url}: serves no model {name!r}; it lists {names}.")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        again = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=self._first_wait, max=LONGEST_WAIT) + wait_random(0, self._first_wait),
            retry=retry_if_exception_type(httpx.TransportError) | retry_if_result(_is_transient),
            retry_error_callback=_last_outcome,
        )
        try:
            response: httpx.Response = again(self._client.post, path, json=body)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Refusal(502, f"{self._url} could not be reached in {ATTEMPTS} attempts ({reason}).") from None
        return response

    def _seen(self, path: str, body: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[Seen, ...]:
        if self._tokenizer is not None:
            return _seen_locally(self._tokenizer, path, body)
        if path == CHAT:
            return (Seen(_ids(answer.get("prompt_token_ids")), None),)
        return _seen_completions(body.get("prompt"), answer.get("choices"))


def repeat_seed(seed: int, repeat: int) -> int:
    """The seed of a repeat, which follows from both; below 2**31, which every server takes."""
    return int.from_bytes(hashlib.sha256(f"{seed} {repeat}".encode()).digest()[:4], "big") >> 1


def _seen_locally(tokenizer: Tokenizer, path: str, body: Mapping[str, Any]) -> tuple[Seen, ...]:
    prompt_alone = {name: body[name] for name in PROMPT_FIELDS[path] if name in body}
    try:
        if path == CHAT:
            sequences = [chat_ids(tokenizer, parse(ChatRequest, prompt_alone))]
        else:
            sequences = completion_ids(tokenizer, parse(CompletionRequest, prompt_alone))
    except Refusal:
        # The upstream understood what we do not, such as an image: what the model saw is not known.
        return (Seen(None, None),)
    return tuple(Seen(tuple(ids), tokenizer.decode(ids)) for ids in sequences)


def _seen_completions(prompt: Any, choices: Any) -> tuple[Seen, ...]:
    prompts = [prompt] if isinstance(prompt, str) or _ids(prompt) is not None else prompt
    if not isinstance(prompts, list):
        return ()
    told: list[Any] = choices if isinstance(choices, list) else []
    per_prompt = max(len(told) // max(len(prompts), 1), 1)
    seen = []
    for one, choice in zip(prompts, told[::per_prompt] or [None] * len(prompts), strict=False):
        ids = _ids(one) or (_ids(choice.get("prompt_token_ids")) if isinstance(choice, dict) else None)
        seen.append(Seen(ids, one if isinstance(one, str) else None))
    return tuple(seen)


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and value and all(type(token) is int for token in value) else None


def _is_transient(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error


def _last_outcome(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()
