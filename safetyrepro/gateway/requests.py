"""What suites may ask: the two request bodies, checked strictly, so that nothing is ignored in silence.

Fields of the OpenAI API (https://platform.openai.com/docs/api-reference/completions/create, .../chat/create) and the
vLLM extras that suites send. A field that the engine cannot honour is accepted only at the value that changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from safetyrepro.engine.api import TOP
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.unicode import is_text

MAX_CHOICES = 128
DEFAULT_MAX_TOKENS = 16
"""Of a completions request that names none, as the OpenAI API has it."""
UNUSED = frozenset({"user"})
"""Fields that change no answer anywhere."""
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "stream": (False,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "suffix": ("",),
    "top_k": (-1, 0),
    "min_p": (0,),
    "min_tokens": (0,),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "skip_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "store": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
}
"""Fields that the engine cannot honour, and the values at which there is nothing to honour."""
CHAT_NEUTRAL: Mapping[str, tuple[Any, ...]] = {"echo": (False,), "best_of": (1,), "add_special_tokens": (False,)}
"""The same, for chat requests alone."""
NEUTRAL_IN_MESSAGE: Mapping[str, tuple[Any, ...]] = {"tool_calls": ([],), "type": ("text",)}

Text = str
Ids = list[int]


def _utf8(text: str) -> str:
    if not is_text(text):
        raise ValueError("holds half of a surrogate pair, which is no text")
    return text


class _Request(BaseModel):
    """What both kinds of request share."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = None
    """Any name: one model is served."""
    n: int = Field(default=1, ge=1, le=MAX_CHOICES)
    temperature: float = Field(default=1.0, ge=0.0, le=2.0)
    """1 where the request names none, as the API has it; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    stop: list[str] = []
    seed: int = Field(default=0, ge=0, lt=2**63)
    """0 where the request names none: the same request twice gives the same text."""
    prompt_logprobs: int | None = Field(default=None, ge=0, le=TOP)
    """vLLM: likelihoods of the prompt's tokens, each with so many of the likeliest."""
    return_token_ids: bool = False
    """vLLM: `prompt_token_ids` and `token_ids` in the response."""

    @field_validator("stop", mode="before")
    @classmethod
    def _stops(cls, value: Any) -> Any:
        stops = [value] if isinstance(value, str) else value
        if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
            raise ValueError("make it a text or a list of texts, none of them empty")
        return [_utf8(stop) for stop in stops]


class CompletionRequest(_Request):
    """`POST /v1/completions`."""

    prompt: list[Text | Ids]
    """One or many, each a text or token ids."""
    max_tokens: int = Field(default=DEFAULT_MAX_TOKENS, ge=0)
    best_of: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    logprobs: int | None = Field(default=None, ge=0, le=TOP)
    echo: bool = False
    add_special_tokens: bool = True
    """vLLM: whether a text prompt gets the BOS token that the tokenizer adds."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _prompts(cls, value: Any) -> list[Text | Ids]:
        if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
            value = [value]
        if not isinstance(value, list) or not value:
            raise ValueError("make it a text, a list of texts, a list of token ids or a list of such lists")
        for prompt in value:
            if isinstance(prompt, str):
                _utf8(prompt)
            elif not isinstance(prompt, list) or not all(type(token) is int and token >= 0 for token in prompt):
                raise ValueError("make every prompt a text or a list of token ids")
        return value

    @model_validator(mode="after")
    def _enough_choices(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of is {self.best_of} and n is {self.n}: make best_of at least n")
        return self


class Message(BaseModel):
    """One turn of a chat."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["system", "user", "assistant"]
    content: str
    """Text parts are joined by a line break, as vLLM does."""

    @field_validator("content", mode="before")
    @classmethod
    def _join_parts(cls, value: Any) -> Any:
        if isinstance(value, list):
            if not all(isinstance(part, dict) and part.get("type") == "text" and len(part) == 2 for part in value):
                raise ValueError('make every part {"type": "text", "text": ...}')
            texts = [part.get("text") for part in value]
            value = "\n".join(texts) if all(isinstance(text, str) for text in texts) else None
        return _utf8(value) if isinstance(value, str) else value


class ChatRequest(_Request):
    """`POST /v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=0)
    """None, here and in `max_completion_tokens`: as many as the context has room for."""
    max_completion_tokens: int | None = Field(default=None, ge=0)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=TOP)
    add_generation_prompt: bool | None = None
    """vLLM: True, unless the final message is continued."""
    continue_final_message: bool = False
    """vLLM: leave the last message open and go on from there."""

    @model_validator(mode="after")
    def _consistent(self) -> ChatRequest:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: set it to true")
        if self.add_generation_prompt and self.continue_final_message:
            raise ValueError("continue_final_message leaves no room for add_generation_prompt: set one to false")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ: send one of them")
        return self

    def limit(self) -> int | None:
        """The number of tokens to generate at most; None for as many as fit."""
        return self.max_tokens if self.max_tokens is not None else self.max_completion_tokens


def parse_json(raw: bytes) -> dict[str, Any]:
    """The request's body.

    Raises:
        Refusal: 400, no JSON object, or numbers in it that JSON does not have.
    """
    try:
        body = json.loads(raw, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is no JSON ({str(error)[:200]}).", code="invalid_json") from None
    if not isinstance(body, dict):
        raise Refusal(400, f"The body is {_shown(body)}: make it a JSON object.", code="invalid_json")
    return body


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is out of range")
    return number


R = TypeVar("R", CompletionRequest, ChatRequest)


def parse(kind: type[R], body: Mapping[str, Any]) -> R:
    """A checked request; null means the same as leaving a field out.

    Raises:
        Refusal: 400, naming the field, what was found and what would be right.
    """
    fields = dict(body)
    neutral = NEUTRAL
    if kind is ChatRequest:
        neutral = {**NEUTRAL, **CHAT_NEUTRAL}
        if isinstance(fields.get("messages"), list):
            fields["messages"] = [
                _without_neutral(turn, NEUTRAL_IN_MESSAGE, f"messages.{number}.") if isinstance(turn, dict) else turn
                for number, turn in enumerate(fields["messages"])
            ]
    fields = _without_neutral(fields, neutral, "")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        raise Refusal(400, f"{where} is not a field that this server can honour: leave it out.", param=where)
    if first["type"] == "missing":
        raise Refusal(400, f"{where} is missing.", param=where)
    reason = first["msg"].removeprefix("Value error, ")
    if not where:
        raise Refusal(400, f"{reason}.")
    raise Refusal(400, f"{where} is {_shown(first['input'])}: {reason[0].lower()}{reason[1:]}.", param=where)


def _without_neutral(fields: dict[str, Any], neutral: Mapping[str, tuple[Any, ...]], prefix: str) -> dict[str, Any]:
    kept = {}
    for name, value in fields.items():
        if value is None or name in UNUSED:
            continue
        if name not in neutral:
            kept[name] = value
        elif not any(value == at and isinstance(value, bool) == isinstance(at, bool) for at in neutral[name]):
            right = " or ".join(json.dumps(at) for at in neutral[name])
            raise Refusal(
                400,
                f"{prefix}{name} is {_shown(value)}, which this server cannot honour: leave it out or send {right}.",
                param=f"{prefix}{name}",
                code="unsupported_value",
            )
    return kept


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
