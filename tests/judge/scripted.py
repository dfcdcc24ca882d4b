"""A judge of known behaviour behind a real loopback server, and the material it judges."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

FACTORS = ("correctness", "completeness", "safety", "conciseness", "style")
SHOWN = re.compile(
    r"\[first answer (?P<mark>\w+)\]\n(?P<first>.*?)\n\[end of first answer (?P=mark)\]\n\n"
    r"\[second answer (?P=mark)\]\n(?P<second>.*?)\n\[end of second answer (?P=mark)\]",
    re.DOTALL,
)


@dataclass(frozen=True)
class Reply:
    """What the server sends back; `cut` breaks the body off, `hang` seconds pass before it."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    hang: float = 0.0
    drip: float = 0.0


def completion(text: str, *, finish: str = "stop", usage: tuple[int, int] | None = (100, 20), **message: Any) -> Reply:
    body: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Reply(body=json.dumps(body).encode())


def marks(**values: int) -> str:
    return json.dumps(dict.fromkeys(FACTORS, 3) | {"overall": 3} | values)


Behaviour = Callable[[str, str, int], Reply]
"""From the answers in the order shown and the number of the request to a reply."""


class Judge(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour
        self.requests: list[dict[str, Any]] = []
        self.items: list[str] = []
        self.keys: list[str | None] = []
        self.mutex = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def answered(self) -> list[str]:
        """The call ids, one per request."""
        return self.items


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Judge)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.mutex:
            server.requests.append(body)
            server.items.append(self.headers["x-item"])
            server.keys.append(self.headers["Authorization"])
            number = len(server.requests)
        shown = SHOWN.search(body["messages"][-1]["content"])
        reply = server.behaviour(shown["first"] if shown else "", shown["second"] if shown else "", number)
        time.sleep(reply.hang)
        try:
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers:
                self.send_header(name, value)
            self.end_headers()
            if reply.drip:
                for byte in reply.body:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(reply.drip)
            else:
                self.wfile.write(reply.body[: len(reply.body) // 2] if reply.cut else reply.body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.close_connection = self.close_connection or reply.cut

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Judge]:
    server = Judge(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Planted:
    """A judge that marks five factors by the answer under judgement, and overall by planted weights of them."""

    weights: tuple[float, ...] = (0.5, 0.2, 0.0, 0.1, 0.8)
    noise: float = 0.5
    subject: str = "candidate"
    cache: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __call__(self, first: str, second: str, number: int) -> Reply:
        text, forward = (first, True) if first.startswith(self.subject) else (second, False)
        toward_a = self.marks(text, "ab" if forward else "ba")
        shown = {name: mark if forward else 6 - mark for name, mark in toward_a.items()}
        return completion(json.dumps(shown))

    def marks(self, text: str, order: str) -> dict[str, int]:
        """Marks toward answer a: what both orders share comes from the text alone, the rest from text and order."""
        item = _generator(text)
        here = _generator(f"{order}:{text}")
        halo = 0.5 * item.normal()
        latent = halo + item.normal(size=5) + 0.5 * here.normal(size=5)
        own = np.clip(np.rint(3 + latent), 1, 5)
        overall = 3 + float((own - 3) @ np.array(self.weights)) + self.noise * here.normal()
        return {**{n: int(m) for n, m in zip(FACTORS, own, strict=True)}, "overall": int(np.clip(round(overall), 1, 5))}


def _generator(text: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def material(folder: Path, items: int, answer: Callable[[int], str] = lambda k: f"candidate {k}") -> list[str]:
    """Questions, answers and reference; the options of `judge run` that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {
        "questions": [{"item_id": f"q{k:04}", "question": f"What is {k}?"} for k in range(items)],
        "answers": [{"item_id": f"q{k:04}", "model": "m", "answer": answer(k)} for k in range(items)],
        "reference": [{"item_id": f"q{k:04}", "model": "ref", "answer": f"reference {k}"} for k in range(items)],
    }
    options = []
    for name, listed in rows.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in listed), encoding="utf-8")
        options += [f"--{name}", str(path)]
    return options
