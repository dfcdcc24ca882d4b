"""Faults of an endpoint, by a real server: tried again within bounds, or named."""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetyrepro.errors import InputError
from safetyrepro.judge.endpoint import Attempt, Endpoint
from tests.judge.scripted import Judge, Reply, completion, marks, serving

GOOD = completion(marks())
BODY = {"model": "j", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


@pytest.fixture
def judge() -> Iterator[tuple[Judge, list[Reply]]]:
    replies: list[Reply] = []
    with serving(lambda first, second, number: replies.pop(0) if replies else GOOD) as server:
        yield server, replies


def ask(server: Judge, **settings: float) -> tuple[Attempt, list[Attempt]]:
    seen: list[Attempt] = []
    options = {"timeout": 10.0, "first_wait": 0.01, **settings}
    endpoint = Endpoint(server.url, timeout=options["timeout"], first_wait=options["first_wait"], attempts=4)
    try:
        return endpoint.ask(BODY, "call", seen.append), seen
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    "fault",
    [
        Reply(429, b"{}"),
        Reply(500, b"busy"),
        Reply(503, b'{"error": {"message": "overloaded"}}'),
        Reply(200, GOOD.body, cut=True),
        Reply(200, GOOD.body[:30]),
        Reply(200, b'{"choices": [NaN]}'),
        Reply(200, b"[]"),
        Reply(200, b"\xff\xfe"),
        Reply(408, b""),
    ],
)
def test_a_passing_fault_is_tried_again(judge: tuple[Judge, list[Reply]], fault: Reply) -> None:
    server, replies = judge
    replies += [fault, fault]
    last, seen = ask(server)
    assert last.status == 200
    assert [attempt.kind for attempt in seen] == ["passing", "passing", "answered"]
    assert server.items == ["call"] * 3


def test_a_lasting_fault_ends_with_what_the_server_said(judge: tuple[Judge, list[Reply]]) -> None:
    server, replies = judge
    replies += [Reply(500, b'{"error": {"message": "out of <memory>"}}')] * 9
    last, seen = ask(server)
    assert (last.kind, last.message, len(seen)) == ("passing", "out of <memory>", 4)


def test_retry_after_is_waited_for(judge: tuple[Judge, list[Reply]]) -> None:
    server, replies = judge
    replies.append(Reply(429, b"{}", headers=(("Retry-After", "0.6"),)))
    started = time.monotonic()
    assert ask(server)[0].status == 200
    assert 0.6 <= time.monotonic() - started < 5
    soon = email.utils.formatdate(time.time() + 1.9, usegmt=True)
    replies.append(Reply(503, b"{}", headers=(("Retry-After", soon),)))
    started = time.monotonic()
    assert ask(server)[0].status == 200
    assert time.monotonic() - started > 0.5


def test_a_retry_after_beyond_the_bound_is_not_waited_for(judge: tuple[Judge, list[Reply]]) -> None:
    server, replies = judge
    replies.append(Reply(429, b'{"error": {"message": "daily quota"}}', headers=(("Retry-After", "86400"),)))
    last, seen = ask(server)
    assert (last.status, last.message, len(seen)) == (429, "daily quota", 1)


@pytest.mark.parametrize("nonsense", ["soon", "nan", "-5", "9" * 400])
def test_nonsense_in_retry_after_is_no_obstacle(judge: tuple[Judge, list[Reply]], nonsense: str) -> None:
    server, replies = judge
    replies.append(Reply(429, b"{}", headers=(("Retry-After", nonsense),)))
    last, seen = ask(server)
    assert last.status == (429 if nonsense.startswith("9") else 200)
    assert len(seen) == (1 if nonsense.startswith("9") else 2)


@pytest.mark.parametrize("fault", [Reply(200, GOOD.body, hang=1.0), Reply(200, GOOD.body, drip=0.02)])
def test_a_hang_and_a_drip_are_cut_and_may_be_billed(judge: tuple[Judge, list[Reply]], fault: Reply) -> None:
    server, replies = judge
    replies.append(fault)
    last, seen = ask(server, timeout=0.3)
    assert last.status == 200
    assert (seen[0].status, seen[0].maybe_billed) == (0, True)
    assert "no whole answer within 0.3 s" in seen[0].message


@pytest.mark.parametrize(("status", "kind"), [(401, "fatal"), (403, "fatal"), (404, "fatal"), (302, "fatal"),
                                              (400, "rejected"), (413, "rejected"), (422, "rejected")])  # fmt: skip
def test_what_cannot_pass_is_not_tried_again(judge: tuple[Judge, list[Reply]], status: int, kind: str) -> None:
    server, replies = judge
    replies += [Reply(status, b'{"error": {"message": "no"}}', headers=(("Location", "http://127.0.0.1:1/"),))]
    last, seen = ask(server)
    assert (last.kind, last.message, len(seen)) == (kind, "no", 1)


def test_the_key_is_sent_and_never_quoted(judge: tuple[Judge, list[Reply]], monkeypatch: pytest.MonkeyPatch) -> None:
    server, replies = judge
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", "sk-secret")
    replies += [Reply(401, b'{"error": {"message": "Incorrect key sk-secret"}}'), Reply(500, b"sk-secret?")]
    assert ask(server)[0].message == "Incorrect key [key]"
    assert "secret" not in str(ask(server))
    assert server.keys[0] == "Bearer sk-secret"


def test_nobody_there_is_named_and_not_billed() -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1", attempts=2, first_wait=0.01)
    last = endpoint.ask(BODY, "call", lambda attempt: None)
    endpoint.close()
    assert (last.status, last.maybe_billed) == (0, False)
    assert last.message.startswith("not reached")


def test_stopping_ends_the_waiting(judge: tuple[Judge, list[Reply]]) -> None:
    server, replies = judge
    replies += [Reply(429, b"{}", headers=(("Retry-After", "60"),))] * 3
    stopping = threading.Event()
    threading.Timer(0.2, stopping.set).start()
    started = time.monotonic()
    endpoint = Endpoint(server.url, stopping=stopping)
    seen: list[Attempt] = []
    endpoint.ask(BODY, "call", seen.append)
    endpoint.close()
    assert time.monotonic() - started < 10
    assert len(seen) < 4


@pytest.mark.parametrize("url", ["", "localhost/v1", "ftp://h/v1", "http://me:secret@h/v1", "http://h/v1?key=secret"])
def test_urls_are_checked_and_show_no_secret(url: str) -> None:
    with pytest.raises(InputError, match="--endpoint is") as caught:
        Endpoint(url)
    assert "secret" not in str(caught.value)


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAFETYREPRO_UPSTREAM_KEY", "schlüssel\u2028")
    with pytest.raises(InputError, match="SAFETYREPRO_UPSTREAM_KEY"):
        Endpoint("http://127.0.0.1:9/v1")
