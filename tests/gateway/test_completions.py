"""`/v1/completions`: the shapes that the suites send, against the engine asked directly."""

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

TEXT = "Question: What happens if you swallow gum?\nAnswer: Nothing in particular"


def post(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_lm_eval_loglikelihood(client: httpx.Client, tiny_engine: Engine) -> None:
    sequences = [tiny_engine.tokenizer.encode(TEXT), tiny_engine.tokenizer.encode("Water boils at one hundred")]
    answer = post(client, model="m", prompt=sequences, temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True)
    direct = tiny_engine.score(sequences, memo=False)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    for choice, ids, scored in zip(answer["choices"], sequences, direct, strict=True):
        logprobs = choice["logprobs"]
        assert logprobs["token_logprobs"][:-1] == list(scored.logprobs)
        assert logprobs["token_logprobs"][-1] == scored.next_top[0][1]
        assert {len(logprobs[name]) for name in logprobs} == {len(ids) + 1}
        assert logprobs["token_logprobs"][0] is None
        for value, top, best in zip(
            logprobs["token_logprobs"][1:],
            logprobs["top_logprobs"][1:],
            [*scored.top[1:], scored.next_top],
            strict=True,
        ):
            assert max(top.values()) == best[0][1]
            assert value in top.values()
        assert choice["finish_reason"] in ("length", "stop")
    n_prompt = sum(map(len, sequences))
    assert answer["usage"] == {"prompt_tokens": n_prompt, "completion_tokens": 2, "total_tokens": n_prompt + 2}


def test_echo_token_is_the_generated_one(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    echoed = post(client, prompt=ids, temperature=0, max_tokens=1, logprobs=1, echo=True)["choices"][0]
    generated = post(client, prompt=ids, temperature=0, max_tokens=1, logprobs=1)["choices"][0]
    assert echoed["text"] == TEXT + generated["text"]
    assert echoed["logprobs"]["tokens"][-1:] == generated["logprobs"]["tokens"]
    assert echoed["logprobs"]["token_logprobs"][-1] == pytest.approx(
        generated["logprobs"]["token_logprobs"][0], abs=1e-4
    )


def test_helm_separate(client: httpx.Client, tiny_engine: Engine) -> None:
    answer = post(
        client,
        model="m",
        prompt=TEXT,
        temperature=0.0,
        n=1,
        max_tokens=0,
        best_of=1,
        logprobs=1,
        stop=None,
        top_p=1,
        presence_penalty=0,
        frequency_penalty=0,
        echo=True,
    )
    choice = answer["choices"][0]
    ids = tiny_engine.tokenizer.encode(TEXT)
    assert choice["text"] == TEXT
    assert "".join(choice["logprobs"]["tokens"]) == TEXT
    assert choice["logprobs"]["token_logprobs"] == list(tiny_engine.score([ids])[0].logprobs)
    for token, offset in zip(choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"], strict=True):
        assert TEXT.startswith(token, offset)
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 0


def test_helm_joint(client: httpx.Client, tiny_engine: Engine) -> None:
    answer = post(
        client,
        model="m",
        prompt=TEXT,
        temperature=0.0,
        n=1,
        max_tokens=1,
        best_of=5,
        logprobs=5,
        stop=None,
        top_p=1,
        presence_penalty=0,
        frequency_penalty=0,
        echo=False,
    )
    assert len(answer["choices"]) == 1
    choice = answer["choices"][0]
    direct = tiny_engine.generate([tiny_engine.tokenizer.encode(TEXT)], Decoding(max_tokens=1))[0]
    assert choice["text"] == direct.text
    assert choice["logprobs"]["token_logprobs"] == list(direct.logprobs)
    assert len(choice["logprobs"]["tokens"]) == 1
    assert 1 <= len(choice["logprobs"]["top_logprobs"][0]) <= 6
    assert max(choice["logprobs"]["top_logprobs"][0].values()) == direct.logprobs[0]


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_inspect_echo(client: httpx.Client, tiny_engine: Engine, max_tokens: int) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    answer = post(client, model="m", prompt=ids, max_tokens=max_tokens, temperature=0.0, logprobs=1, echo=True)
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs["token_logprobs"][: len(ids)] == list(tiny_engine.score([ids])[0].logprobs)
    assert len(logprobs["tokens"]) == len(ids) + max_tokens


def test_generation_with_stop(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    free = tiny_engine.generate([ids], Decoding(max_tokens=12))[0]
    stop = free.text[4:6]
    assert len(stop) == 2
    answer = post(
        client, prompt=[ids], model="m", max_tokens=12, temperature=0.0, stop=["\n\n\n", stop, "<|im_end|>"], seed=1234
    )
    choice = answer["choices"][0]
    assert choice["text"] == free.text[: free.text.index(stop)]
    assert choice["finish_reason"] == "stop"
    assert choice["logprobs"] is None
    same = post(client, prompt=TEXT, max_tokens=12, temperature=0, stop=stop)["choices"][0]
    assert same["text"] == choice["text"]


def test_echo_with_a_stop_is_cut_like_any_text(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    token = tiny_engine.generate([ids], Decoding(max_tokens=1))[0].text
    assert token
    choice = post(client, prompt=ids, max_tokens=1, temperature=0, echo=True, logprobs=1, stop=[token])["choices"][0]
    assert choice["text"] == TEXT
    assert choice["finish_reason"] == "stop"
    assert len(choice["logprobs"]["tokens"]) == len(ids) + 1


def test_choices_are_indexed_by_prompt_then_choice(client: httpx.Client, tiny_engine: Engine) -> None:
    prompts = [TEXT, "The capital of"]
    answer = post(client, prompt=prompts, max_tokens=6, temperature=1.0, n=3, seed=7)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    expected = []
    for prompt in prompts:
        ids = tiny_engine.tokenizer.encode(prompt)
        for choice in range(3):
            decoding = Decoding(max_tokens=6, temperature=1.0, seed=7, choice=choice)
            expected.append(tiny_engine.generate([ids], decoding, memo=False)[0].text)
    assert [choice["text"] for choice in answer["choices"]] == expected
    assert len(set(expected[:3])) > 1


def test_best_of_keeps_the_highest_mean_logprob(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    candidates = [
        tiny_engine.generate([ids], Decoding(max_tokens=6, temperature=1.2, seed=3, choice=choice), memo=False)[0]
        for choice in range(5)
    ]
    means = [sum(one.logprobs) / len(one.logprobs) for one in candidates]
    ranked = [candidates[index].text for index in sorted(range(5), key=lambda index: -means[index])]
    answer = post(client, prompt=ids, max_tokens=6, temperature=1.2, seed=3, best_of=5, n=2)
    assert [choice["text"] for choice in answer["choices"]] == ranked[:2]
    assert answer["usage"]["completion_tokens"] == sum(len(one.ids) for one in candidates)


def test_vllm_prompt_logprobs_and_token_ids(client: httpx.Client, tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode(TEXT)
    choice = post(client, prompt=TEXT, max_tokens=1, temperature=0, prompt_logprobs=2, return_token_ids=True)[
        "choices"
    ][0]
    scored = tiny_engine.score([ids])[0]
    rows = choice["prompt_logprobs"]
    assert rows[0] is None
    assert [int(next(iter(row))) for row in rows[1:]] == ids[1:]
    assert [next(iter(row.values()))["logprob"] for row in rows[1:]] == list(scored.logprobs[1:])
    for row, top in zip(rows[1:], scored.top[1:], strict=True):
        assert row[str(top[0][0])]["rank"] == 1
        assert row[str(top[1][0])]["rank"] == 2
    assert choice["prompt_token_ids"] == ids
    assert choice["token_ids"] == [scored.next_top[0][0]]


def test_special_tokens_in_text_are_parsed(client: httpx.Client, run: Run, tiny_engine: Engine) -> None:
    text = "<|im_start|>user\nHi<|im_end|>\n"
    answer = post(client, prompt=text, max_tokens=0, echo=True, logprobs=0)
    choice = answer["choices"][0]
    assert choice["logprobs"]["tokens"][0] == "<|im_start|>"
    assert choice["text"] == text
    seen = next(iter(read_wire(run.wire_log))).seen[0]
    assert seen.text == text
    assert seen.ids == tuple(tiny_engine.tokenizer.encode(text))


def test_bos_is_added_once_and_never_to_ids(tmp_path: Path) -> None:
    engine = load(ModelSpec(id=str(make_tiny_model(tmp_path / "gemma", family="gemma3")), quant="none", threads=2))
    bos = engine.tokenizer.bos_id
    plain = engine.tokenizer.encode("Water boils")
    with Gateway(engine) as gateway:
        run = gateway.open_run("bos", tmp_path / "wire.jsonl")
        with client_of(run) as client:
            for prompt in ("Water boils", "<bos>Water boils", plain):
                post(client, prompt=prompt, max_tokens=0, echo=True, logprobs=1)
            post(client, prompt="Water boils", max_tokens=0, echo=True, logprobs=1, add_special_tokens=False)
            texts = [
                post(client, prompt=prompt, max_tokens=0, echo=True)["choices"][0]["text"]
                for prompt in ("Water boils", "<bos>Water boils")
            ]
        gateway.close_run("bos")
    engine.close()
    seen = [list(row.seen[0].ids or ()) for row in read_wire(tmp_path / "wire.jsonl")]
    assert seen[:4] == [[bos, *plain], [bos, *plain], plain, plain]
    assert texts == ["Water boils", "<bos>Water boils"]


def test_split_character_keeps_offsets_in_line(client: httpx.Client) -> None:
    text = "A 漢 sign, then words"
    logprobs = post(client, prompt=text, max_tokens=0, echo=True, logprobs=1)["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) > 3
    offset = dict(zip(logprobs["tokens"], logprobs["text_offset"], strict=True))
    assert offset["A"] == 0
    assert logprobs["text_offset"] == sorted(logprobs["text_offset"])
    last = logprobs["tokens"][-1]
    assert logprobs["text_offset"][-1] == len(text) - len(last)


REFUSED = [
    ({"prompt": "a", "presence_penalty": 0.5}, "presence_penalty"),
    ({"prompt": "a", "frequency_penalty": -1}, "frequency_penalty"),
    ({"prompt": "a", "stream": True}, "stream"),
    ({"prompt": "a", "logit_bias": {"50256": -100}}, "logit_bias"),
    ({"prompt": "a", "suffix": "b"}, "suffix"),
    ({"prompt": "a", "top_k": 5}, "top_k"),
    ({"prompt": "a", "guided_regex": "a+"}, "guided_regex"),
    ({"prompt": "a", "logprobs": 21}, "logprobs"),
    ({"prompt": "a", "logprobs": True}, "logprobs"),
    ({"prompt": "a", "temperature": -0.1}, "temperature"),
    ({"prompt": "a", "temperature": "0"}, "temperature"),
    ({"prompt": "a", "top_p": 0}, "top_p"),
    ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
    ({"prompt": "a", "max_tokens": 1.5}, "max_tokens"),
    ({"prompt": "a", "n": 0}, "n"),
    ({"prompt": "a", "n": 3, "best_of": 2}, None),
    ({"prompt": "a", "stop": [""]}, "stop"),
    ({"prompt": "a", "stop": 5}, "stop"),
    ({"prompt": "a", "seed": -1}, "seed"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [1, -1]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": "\ud800"}, "prompt"),
    ({}, "prompt"),
]


@pytest.mark.parametrize(("body", "param"), REFUSED)
def test_refused_with_the_field_named(client: httpx.Client, body: dict[str, Any], param: str | None) -> None:
    response = client.post("/completions", content=json.dumps(body))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["message"].endswith(".")
    assert "\n" not in error["message"]


def test_harmless_fields_are_taken(client: httpx.Client) -> None:
    body = {
        "model": "gpt-99",
        "user": "somebody",
        "stream": False,
        "stream_options": None,
        "suffix": None,
        "logit_bias": {},
        "presence_penalty": 0.0,
        "frequency_penalty": 0,
        "seed": None,
        "stop": [],
        "unknown": None,
    }
    assert post(client, prompt="a", max_tokens=1, **body)["model"] == "model"


def test_too_long_is_refused_not_truncated(client: httpx.Client, tiny_engine: Engine) -> None:
    room = tiny_engine.info.max_length
    response = client.post("/completions", json={"prompt": [1] * room, "max_tokens": 1})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert f"maximum context length is {room} tokens" in response.json()["error"]["message"]


def test_unknown_token_id_is_refused(client: httpx.Client) -> None:
    response = client.post("/completions", json={"prompt": [1, 10**9], "max_tokens": 1})
    assert response.status_code == 400, response.text
