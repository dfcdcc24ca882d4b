"""A run that closes while a text is written: nobody waits for it, so it is no longer computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from safetyrepro.config import ModelSpec
from safetyrepro.engine import Decoding, Engine, load
from safetyrepro.gateway import Gateway, read_wire
from tests.tiny import SENTENCES

MANY = 300
SHORT = {"prompt": "Water boils", "max_tokens": 3, "temperature": 0}


@pytest.fixture(params=["exact", "shared"])
def engine(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[Engine]:
    made = load(ModelSpec.model_validate({"id": str(tiny_model), "quant": "none", "mode": request.param, "threads": 1}))
    yield made
    made.close()


@pytest.fixture
def long(engine: Engine) -> dict[str, Any]:
    """A request whose text goes on and on."""
    return {"prompt": _endless(engine), "max_tokens": 2000, "temperature": 0}


def test_texts_of_a_closed_run_are_given_up_and_others_go_on(
    engine: Engine, long: dict[str, Any], tmp_path: Path
) -> None:
    with Gateway(engine) as gateway:
        left = gateway.open_run("left", tmp_path / "left.jsonl", memo=False)
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(_post(left.base_url, left.token, long))

        clients = [threading.Thread(target=ask) for _ in range(2)]
        before, asked = engine.tokens_forwarded, engine.tokens_asked
        for client in clients:
            client.start()
        while engine.tokens_asked < asked + 2 * len(long["prompt"]) or engine.tokens_forwarded < before + 20:
            time.sleep(0.001)
        gateway.close_run("left")
        done = engine.tokens_forwarded
        for client in clients:
            client.join()
        assert [answer.status_code for answer in answers] == [503, 503], [answer.text for answer in answers]
        assert "closed" in answers[0].json()["error"]["message"]
        assert [row.status for row in read_wire(left.wire_log)] == [503, 503]
        time.sleep(0.1)
        assert engine.tokens_forwarded <= done + 2 < before + 2000
        other = gateway.open_run("other", tmp_path / "other.jsonl")
        answer = _post(other.base_url, other.token, SHORT)
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 3


def test_the_text_of_a_client_that_went_away_is_given_up(engine: Engine, long: dict[str, Any], tmp_path: Path) -> None:
    with Gateway(engine) as gateway:
        run = gateway.open_run("run", tmp_path / "wire.jsonl", memo=False)
        before = engine.tokens_forwarded
        with pytest.raises(httpx.TimeoutException):
            _post(run.base_url, run.token, long, timeout=0.5)
        until = time.monotonic() + 60
        while run.wire_log.stat().st_size == 0 and time.monotonic() < until:
            time.sleep(0.01)
        (row,) = read_wire(run.wire_log)
        assert row.status == 499
        assert "went away" in row.response["error"]["message"]
        assert engine.tokens_forwarded < before + 2000
        answer = _post(run.base_url, run.token, SHORT)
        assert answer.json()["usage"]["completion_tokens"] == 3


def _endless(engine: Engine) -> list[int]:
    """A prompt after which this model goes on and on."""
    for sentence in SENTENCES:
        ids = engine.tokenizer.encode(sentence)
        for end in range(1, len(ids)):
            (text,) = engine.generate([ids[:end]], Decoding(max_tokens=MANY), memo=False)
            if text.finish_reason == "length":
                return list(ids[:end])
    raise AssertionError("every text ends")


def _post(url: str, token: str, body: dict[str, Any], timeout: float = 120) -> httpx.Response:
    return httpx.post(f"{url}/completions", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=timeout)
