"""`/v1/chat/completions`: the shapes that the suites send, against the engine asked directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.engine import load
from safetyrepro.engine.api import Decoding, Engine
from safetyrepro.gateway import Gateway, Run, read_wire
from tests.gateway.conftest import client_of
from tests.tiny import make_tiny_model

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What happens to gum?"}]
TEMPLATED = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat happens to gum?<|im_end|>\n<|im_start|>assistant\n"
)


def post(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/chat/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_lm_eval_chat(client: httpx.Client, run: Run, tiny_engine: Engine) -> None:
    answer = post(client, messages=MESSAGES, model="m", max_tokens=8, temperature=0, stop=["\n\n", "</s>"], seed=1234)
    ids = tiny_engine.tokenizer.encode(TEMPLATED)
    direct = tiny_engine.generate([ids], Decoding(max_tokens=8, stop=("\n\n", "</s>"), seed=1234), memo=False)[0]
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": direct.text, "refusal": None}
    assert choice["finish_reason"] == direct.finish_reason
    assert choice["logprobs"] is None
    assert answer["usage"]["prompt_tokens"] == len(ids)
    seen = next(iter(read_wire(run.wire_log))).seen
    assert [(one.ids, one.text) for one in seen] == [(tuple(ids), TEMPLATED)]


def test_helm_chat(client: httpx.Client) -> None:
    answer = post(
        client,
        model="m",
        messages=[{"role": "user", "content": "Question: a\nA. b\nB. c\nAnswer:"}],
        temperature=0.0,
        top_p=1,
        n=1,
        stop=None,
        max_tokens=1,
        presence_penalty=0,
        frequency_penalty=0,
    )
    assert answer["choices"][0]["logprobs"] is None
    assert answer["usage"]["completion_tokens"] == 1


def test_inspect_chat_with_logprobs(client: httpx.Client, tiny_engine: Engine) -> None:
    answer = post(
        client, messages=MESSAGES, model="m", max_tokens=4, temperature=0.0, seed=7, logprobs=True, top_logprobs=20
    )
    direct = tiny_engine.generate([tiny_engine.tokenizer.encode(TEMPLATED)], Decoding(max_tokens=4, seed=7))[0]
    content = answer["choices"][0]["logprobs"]["content"]
    assert [one["logprob"] for one in content] == list(direct.logprobs)
    for one, top in zip(content, direct.top, strict=True):
        assert [listed["logprob"] for listed in one["top_logprobs"]] == [value for _, value in top]
        assert one["token"].startswith("bytes:") or bytes(one["bytes"]).decode() == one["token"]


def test_content_parts(client: httpx.Client, run: Run) -> None:
    parts = [{"type": "text", "text": "What happens"}, {"type": "text", "text": "to gum?"}]
    post(client, messages=[{"role": "user", "content": parts}], max_tokens=1, temperature=0)
    seen = next(iter(read_wire(run.wire_log))).seen[0]
    assert seen.text == "<|im_start|>user\nWhat happens\nto gum?<|im_end|>\n<|im_start|>assistant\n"


def test_candidate_as_final_message(client: httpx.Client, tiny_engine: Engine) -> None:
    answer = post(
        client,
        messages=[*MESSAGES, {"role": "assistant", "content": "Nothing in particular"}],
        max_tokens=1,
        temperature=0,
        add_generation_prompt=False,
        continue_final_message=True,
        prompt_logprobs=1,
        return_token_ids=True,
    )
    ids = tiny_engine.tokenizer.encode(TEMPLATED + "Nothing in particular")
    assert answer["prompt_token_ids"] == ids
    rows = answer["prompt_logprobs"]
    assert rows[0] is None
    values = [row[str(token)]["logprob"] for row, token in zip(rows[1:], ids[1:], strict=True)]
    assert values == list(tiny_engine.score([ids])[0].logprobs[1:])


def test_choices_differ_by_index(client: httpx.Client, tiny_engine: Engine) -> None:
    answer = post(client, messages=MESSAGES, max_completion_tokens=6, temperature=1.0, top_p=0.9, n=3, seed=5)
    ids = tiny_engine.tokenizer.encode(TEMPLATED)
    expected = [
        tiny_engine.generate([ids], Decoding(6, temperature=1.0, top_p=0.9, seed=5, choice=choice), memo=False)[0].text
        for choice in range(3)
    ]
    assert [choice["message"]["content"] for choice in answer["choices"]] == expected


def test_without_a_limit_the_context_is_the_limit(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEMPLATED)
    stop = tiny_engine.generate([ids], Decoding(max_tokens=6))[0].text[-2:]
    answer = post(client, messages=MESSAGES, temperature=0, stop=stop)
    assert answer["choices"][0]["finish_reason"] == "stop"


REFUSED = [
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": 1}]}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": "a", "name": "b"}]}, "messages.0.name"),
    ({"messages": ["a"]}, "messages.0"),
    ({"messages": MESSAGES, "top_logprobs": 5}, None),
    ({"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"messages": MESSAGES, "logprobs": 1}, "logprobs"),
    ({"messages": MESSAGES, "add_generation_prompt": True, "continue_final_message": True}, None),
    ({"messages": MESSAGES, "max_tokens": 1, "max_completion_tokens": 2}, None),
    ({"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
    ({"messages": MESSAGES, "response_format": {"type": "json_object"}}, "response_format"),
    ({"messages": MESSAGES, "echo": True}, "echo"),
    ({"messages": MESSAGES, "best_of": 5}, "best_of"),
    ({"messages": MESSAGES, "reasoning_effort": "low"}, "reasoning_effort"),
    ({"messages": MESSAGES, "prompt": "a"}, "prompt"),
]


@pytest.mark.parametrize(("body", "param"), REFUSED)
def test_refused_with_the_field_named(client: httpx.Client, body: dict[str, Any], param: str | None) -> None:
    response = client.post("/chat/completions", content=json.dumps(body))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]


def test_model_without_template(tmp_path: Path) -> None:
    engine = load(ModelSpec(id=str(make_tiny_model(tmp_path / "base", chat=False)), quant="none", threads=2))
    with Gateway(engine) as gateway, client_of(gateway.open_run("base", tmp_path / "wire.jsonl")) as client:
        response = client.post("/chat/completions", json={"messages": MESSAGES, "max_tokens": 1})
    engine.close()
    assert response.status_code == 400
    assert "no chat template" in response.json()["error"]["message"]
