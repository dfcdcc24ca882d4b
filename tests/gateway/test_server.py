"""The server itself: who may ask, what is logged, what is refused before a model is asked."""

from __future__ import annotations

import json
import logging
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from safetyrepro.engine.api import Decoding
from safetyrepro.errors import InputError
from safetyrepro.gateway import Gateway, Run, read_wire
from safetyrepro.gateway.app import MAX_BODY
from tests.gateway.conftest import client_of

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine

WORDS = ["Water boils", "The capital of France", "A nurse and", "Question: Who", "one hundred", "(A) yes (B) no", "met"]


def test_models_are_listed_and_not_logged(client: httpx.Client, run: Run) -> None:
    listed = client.get("/models").json()
    assert [model["id"] for model in listed["data"]] == ["model"]
    assert client.get("/tokenizer_info").status_code == 404
    assert run.requests == 0
    assert list(read_wire(run.wire_log)) == []


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "", "Basic {token}", "{token}", "Bearer {token}x"])
def test_only_the_runs_own_token_is_taken(run: Run, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.format(token=run.token)}
    with httpx.Client(base_url=run.base_url, headers=headers) as client:
        assert client.get("/models").status_code == 401
        response = client.post("/completions", json={"prompt": "a"})
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert run.requests == 0


def test_runs_do_not_share_tokens_and_close_their_url(gateway: Gateway, run: Run, tmp_path: Path) -> None:
    other = gateway.open_run("run-2", tmp_path / "other.jsonl")
    assert other.token != run.token
    crossed = httpx.get(f"{other.base_url}/models", headers={"Authorization": f"Bearer {run.token}"})
    assert crossed.status_code == 401
    gateway.close_run("run-2")
    with client_of(other) as client:
        assert client.get("/models").status_code == 401
    with pytest.raises(InputError, match="not open"):
        gateway.close_run("run-2")


def test_only_loopback_names_are_answered(run: Run, client: httpx.Client) -> None:
    assert client.get("/models", headers={"Host": "evil.example"}).status_code == 400
    assert run.base_url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b", "x" * 200])
def test_run_id_is_a_plain_name(gateway: Gateway, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="plain name"):
        gateway.open_run(name, tmp_path / "wire.jsonl")


def test_run_cannot_be_opened_twice(gateway: Gateway, run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="open already"):
        gateway.open_run(run.run_id, tmp_path / "other.jsonl")


def test_wire_log_that_cannot_be_written(gateway: Gateway, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        gateway.open_run("dir", tmp_path)


def test_port_taken(gateway: Gateway, tiny_engine: Engine) -> None:
    with pytest.raises(InputError, match=f"Port {gateway.port} on 127.0.0.1 cannot be used") as raised:
        Gateway(tiny_engine, port=gateway.port).__enter__()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"a"',
        b'{"prompt": NaN}',
        b'{"prompt": "a", "temperature": 1e999}',
        b"\xff\xfe",
        b"[" * 100000,
    ],
)
def test_malformed_json(client: httpx.Client, run: Run, raw: bytes) -> None:
    response = client.post("/completions", content=raw)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"
    row = next(iter(read_wire(run.wire_log)))
    assert (row.status, row.request, row.seen) == (400, {}, ())


def test_body_over_the_limit(client: httpx.Client, run: Run) -> None:
    response = client.post("/completions", content=b" " * (MAX_BODY + 1))
    assert response.status_code == 413
    assert client.get("/models").status_code == 200
    assert [row.status for row in read_wire(run.wire_log)] == [413]


def test_failed_and_unknown_requests_are_logged(client: httpx.Client, run: Run) -> None:
    assert client.post("/completions", json={"prompt": "a", "top_k": 3}).status_code == 400
    assert client.post("/responses", json={"input": "a"}).status_code == 404
    assert client.put("/completions", json={"prompt": "a"}).status_code == 405
    rows = list(read_wire(run.wire_log))
    assert [(row.path, row.status) for row in rows] == [("/v1/completions", 400), ("/v1/responses", 404)]
    assert rows[0].request == {"prompt": "a", "top_k": 3}
    assert rows[0].response is not None
    assert rows[0].response["error"]["param"] == "top_k"


def test_row_holds_request_and_response_as_they_were(client: httpx.Client, run: Run) -> None:
    body = {"prompt": "Water \u2028 boils <script>", "max_tokens": 2, "temperature": 0, "logprobs": 3, "user": "u"}
    headers = {"x-irid": "abc", "X-Run": "r" * 1000, "x-secret": "s"}
    answer = client.post("/completions", json=body, headers=headers).json()
    row = next(iter(read_wire(run.wire_log)))
    assert row.request == body
    assert row.response == answer
    assert answer["id"] == f"cmpl-{row.wire_id}"
    assert (row.wire_id, row.run, row.status) == ("run-1-000001", "run-1", 200)
    assert row.headers == {"x-irid": "abc", "x-run": "r" * 256}
    assert run.token not in run.wire_log.read_text()
    assert row.seconds > 0


def test_token_is_never_logged(client: httpx.Client, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client.post("/completions", json={"prompt": "a", "max_tokens": 1})
    client.post("/completions", content=b"{")
    ours = [record for record in caplog.records if not record.name.startswith(("httpcore", "httpx"))]
    assert run.token not in "".join(record.getMessage() for record in ours)


def test_half_a_surrogate_is_refused_and_still_logged(client: httpx.Client, run: Run) -> None:
    assert client.post("/completions", content=b'{"prompt": "\\ud800"}').status_code == 400
    assert next(iter(read_wire(run.wire_log))).request == {"prompt": "\ud800"}


def test_memo_and_repeat(gateway: Gateway, tmp_path: Path) -> None:
    body = {"prompt": "Never asked before", "max_tokens": 0, "echo": True, "logprobs": 1}
    answers, told = [], []
    for name, memo, repeat in (("a", True, 0), ("b", True, 0), ("c", False, 0), ("d", True, 1)):
        run = gateway.open_run(name, tmp_path / f"{name}.jsonl", memo=memo, repeat=repeat)
        with client_of(run) as client:
            answers.append(client.post("/completions", json=body).json()["choices"])
        gateway.close_run(name)
        told += [row.memo for row in read_wire(run.wire_log)]
    assert told == [False, True, False, False]
    assert answers[1:] == answers[:1] * 3


def test_shuffled_concurrent_load_is_bit_equal(gateway: Gateway, tiny_engine: Engine, tmp_path: Path) -> None:
    tokenizer = tiny_engine.tokenizer
    draw = random.Random(1)
    prompts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) + f" {number}" for number in range(30)]
    jobs: list[tuple[str, dict[str, Any]]] = []
    for prompt in prompts:
        jobs.append((prompt, {"prompt": prompt, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}))
        jobs.append((prompt, {"prompt": tokenizer.encode(prompt), "max_tokens": 4, "temperature": 0.8, "logprobs": 1}))
    draw.shuffle(jobs)
    run = gateway.open_run("load", tmp_path / "wire.jsonl", memo=False)
    with client_of(run) as client, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda job: client.post("/completions", json=job[1]).json(), jobs))
    gateway.close_run("load")
    for (prompt, body), answer in zip(jobs, answers, strict=True):
        ids = tokenizer.encode(prompt)
        if body.get("echo"):
            scored = tiny_engine.score([ids], memo=False)[0]
            expected = [*scored.logprobs, scored.next_top[0][1]]
        else:
            decoding = Decoding(max_tokens=4, temperature=0.8)
            expected = list(tiny_engine.generate([ids], decoding, memo=False)[0].logprobs)
        assert answer["choices"][0]["logprobs"]["token_logprobs"] == expected
    rows = list(read_wire(run.wire_log))
    assert [row.wire_id for row in rows] == [f"load-{number:06d}" for number in range(1, len(jobs) + 1)]
    assert run.requests == len(jobs)
    assert sorted(json.dumps(row.request) for row in rows) == sorted(json.dumps(body) for _, body in jobs)
    by_id = {row.response["id"]: row for row in rows if row.response}
    for (_, body), answer in zip(jobs, answers, strict=True):
        assert by_id[answer["id"]].request == body
        assert by_id[answer["id"]].response == answer


def test_response_is_written_at_once(run: Run) -> None:
    host, port = "127.0.0.1", int(run.base_url.split(":")[2].split("/")[0])
    with socket.create_connection((host, port)) as connection:
        for _ in range(20):
            connection.sendall(
                f"GET /r/run-1/v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {run.token}\r\n\r\n".encode()
            )
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert json.loads(body)["object"] == "list"
