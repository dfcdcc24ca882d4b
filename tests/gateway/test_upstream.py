"""Before an upstream server: another gateway, so that every answer can be compared with the direct one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from safetyrepro.errors import InputError
from safetyrepro.gateway import Gateway, Run, Upstream, read_wire
from tests.gateway.conftest import client_of

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine

MESSAGES = [{"role": "user", "content": "What happens to gum?"}]
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/completions", {"prompt": "Water boils", "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}),
    ("/completions", {"prompt": [[40, 41], [42]], "max_tokens": 0, "temperature": 0, "logprobs": 1, "echo": True}),
    ("/completions", {"prompt": ["Water", "boils"], "max_tokens": 3, "temperature": 0.7, "n": 2, "seed": 3}),
    ("/chat/completions", {"messages": MESSAGES, "max_tokens": 3, "temperature": 0, "logprobs": True}),
    ("/completions", {"prompt": "Water boils", "presence_penalty": 1}),
]


def less_ids(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_answers_are_the_upstreams(
    run: Run, tiny_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_tokenizer: bool
) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", run.token)
    upstream = Upstream(run.base_url, tokenizer=tiny_engine.tokenizer if with_tokenizer else None)
    with Gateway(upstream) as second:
        outer = second.open_run("outer", tmp_path / "outer.jsonl")
        with client_of(run) as direct, client_of(outer) as forwarded:
            for path, body in BODIES:
                one, two = direct.post(path, json=body), forwarded.post(path, json=body)
                assert two.status_code == one.status_code
                assert less_ids(two.json()) == less_ids(one.json())
            assert forwarded.get("/models").json() == direct.get("/models").json()
    inner = [row for number, row in enumerate(read_wire(run.wire_log)) if number % 2]
    rows = list(read_wire(outer.wire_log))
    assert [row.request for row in rows] == [body for _, body in BODIES] == [row.request for row in inner]
    if with_tokenizer:
        assert [row.seen for row in rows] == [row.seen for row in inner]
    else:
        assert [[seen.ids for seen in row.seen] for row in rows] == [
            [None],
            [(40, 41), (42,)],
            [None, None],
            [None],
            [],
        ]
        assert [seen.text for seen in rows[2].seen] == ["Water", "boils"]
    assert run.token not in outer.wire_log.read_text()


def test_token_ids_that_the_upstream_tells(
    run: Run, tiny_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", run.token)
    with Gateway(Upstream(run.base_url)) as second:
        outer = second.open_run("outer", tmp_path / "outer.jsonl")
        with client_of(outer) as client:
            extra = {"max_tokens": 2, "return_token_ids": True, "n": 2}
            client.post("/completions", json={"prompt": ["Water", "boils"], **extra})
            client.post("/chat/completions", json={"messages": MESSAGES, **extra})
    encode = tiny_engine.tokenizer.encode
    rows = [[seen.ids for seen in row.seen] for row in read_wire(outer.wire_log)]
    assert rows[0] == [tuple(encode("Water")), tuple(encode("boils"))]
    assert rows[1] == [tuple(encode(tiny_engine.tokenizer.chat(MESSAGES)))]


def test_model_is_named_as_the_upstream_knows_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", run.token)
    with Gateway(Upstream(run.base_url, model="org/name")) as second:
        outer = second.open_run("outer", tmp_path / "outer.jsonl")
        with client_of(outer) as client:
            client.post("/completions", json={"model": "model", "prompt": "a", "max_tokens": 1})
    assert [row.request["model"] for row in read_wire(run.wire_log)] == ["org/name"]
    assert [row.request["model"] for row in read_wire(outer.wire_log)] == ["model"]


def test_a_sampled_repeat_has_a_seed_of_its_own_and_a_greedy_one_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", run.token)
    bodies: list[dict[str, Any]] = [
        {"temperature": 0.7, "seed": 3},
        {"temperature": 0, "seed": 3},
        {"temperature": 0.7},
    ]
    with Gateway(Upstream(run.base_url)) as second:
        for repeat in (0, 1, 2):
            outer = second.open_run(f"outer-{repeat}", tmp_path / f"outer-{repeat}.jsonl", repeat=repeat)
            with client_of(outer) as client:
                for body in bodies:
                    client.post("/completions", json={"prompt": "a", "max_tokens": 1, **body})
            assert [row.request.get("seed") for row in read_wire(outer.wire_log)] == [3, 3, None]
    seeds = [row.request.get("seed") for row in read_wire(run.wire_log)]
    assert seeds[1::3] == [3, 3, 3]
    assert seeds[2::3] == [None, None, None]
    assert seeds[0] == 3
    assert len(set(seeds[0::3])) == 3


class Moody(ThreadingHTTPServer):
    """Answers with the statuses it is given, then with 200."""

    def __init__(self, replies: list[tuple[int, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = replies
        self.keys: list[str | None] = []
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Moody)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.append(self.headers["Authorization"])
        self.server.asked.set()
        assert self.server.may_answer.wait(30)
        status, body = self.server.replies.pop(0) if self.server.replies else (200, b'{"choices": []}')
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""


@pytest.fixture
def moody() -> Iterator[Moody]:
    server = Moody([])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(upstream: Upstream, tmp_path: Path) -> httpx.Response:
    with Gateway(upstream) as gateway, client_of(gateway.open_run("r", tmp_path / "wire.jsonl")) as client:
        return client.post("/completions", json={"prompt": "a"})


def test_passing_failures_are_tried_again(moody: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", "sesame")
    moody.replies = [(429, b"{}"), (503, b"busy")]
    response = ask(Upstream(f"http://127.0.0.1:{moody.server_port}/v1", first_wait=0.01), tmp_path)
    assert response.json() == {"choices": []}
    assert moody.keys == ["Bearer sesame"] * 3


def test_lasting_failure_is_passed_on(moody: Moody, tmp_path: Path) -> None:
    moody.replies = [(500, json.dumps({"error": {"message": str(number)}}).encode()) for number in range(9)]
    response = ask(Upstream(f"http://127.0.0.1:{moody.server_port}/v1", first_wait=0.01), tmp_path)
    assert (response.status_code, response.json()) == (500, {"error": {"message": "3"}})
    assert moody.keys == [None] * 4


@pytest.mark.parametrize("reply", [(200, b"<html>"), (200, b'{"a": NaN}'), (302, b""), (200, b"[1]")])
def test_no_json_object_is_a_bad_gateway(moody: Moody, tmp_path: Path, reply: tuple[int, bytes]) -> None:
    moody.replies = [reply]
    response = ask(Upstream(f"http://127.0.0.1:{moody.server_port}/v1", first_wait=0.01), tmp_path)
    assert response.status_code == 502
    assert "no JSON object" in response.json()["error"]["message"]


def test_closing_a_run_waits_for_its_requests(moody: Moody, tmp_path: Path) -> None:
    moody.may_answer.clear()
    with Gateway(Upstream(f"http://127.0.0.1:{moody.server_port}/v1")) as gateway:
        run = gateway.open_run("r", tmp_path / "wire.jsonl")
        with client_of(run) as client, ThreadPoolExecutor(2) as pool:
            response = pool.submit(client.post, "/completions", json={"prompt": "a"})
            assert moody.asked.wait(30)
            closed = pool.submit(gateway.close_run, "r")
            assert run.requests == 0
            assert not closed.done()
            moody.may_answer.set()
            closed.result(30)
            assert response.result(30).status_code == 200
            assert client.get("/models").status_code == 401
    assert [row.status for row in read_wire(tmp_path / "wire.jsonl")] == [200]


def test_unreachable(moody: Moody, tmp_path: Path) -> None:
    moody.shutdown()
    moody.server_close()
    response = ask(Upstream(f"http://127.0.0.1:{moody.server_port}/v1", first_wait=0.01), tmp_path)
    assert response.status_code == 502
    said = response.json()["error"]["message"]
    assert "http://127.0.0.1:" in said
    assert "could not be reached in 4 attempts" in said
    assert [row.status for row in read_wire(tmp_path / "wire.jsonl")] == [502]


@pytest.mark.parametrize(
    "url", ["", "localhost:80/v1", "ftp://h/v1", "http:///v1", "http://me:secret@h/v1", "http://h/v1?key=secret"]
)
def test_url_is_checked_and_shows_no_secret(url: str) -> None:
    with pytest.raises(InputError) as raised:
        Upstream(url)
    assert "SAFETYREPRO_UPSTREAM_KEY" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("key", ["schlüssel", "one\ntwo"], ids=["not ascii", "two lines"])
def test_a_key_that_no_header_takes_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", key)
    with pytest.raises(InputError, match="SAFETYREPRO_UPSTREAM_KEY holds characters") as raised:
        Upstream("http://127.0.0.1:9/v1")
    assert key not in str(raised.value)
