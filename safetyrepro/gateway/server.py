"""The gateway: an OpenAI-compatible server on loopback before one model, which logs what every run asks of it."""

from __future__ import annotations

import re
import secrets
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from safetyrepro.engine.api import Engine
from safetyrepro.errors import InputError
from safetyrepro.gateway.answer import Backend
from safetyrepro.gateway.app import make_app
from safetyrepro.gateway.local import Local
from safetyrepro.gateway.onewrite import OneWriteProtocol
from safetyrepro.gateway.run import Run
from safetyrepro.gateway.upstream import Upstream

HOST = "127.0.0.1"
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
KEEP_ALIVE = 3600
"""Seconds that an idle connection is kept: a suite that thinks for minutes must not find it cut."""


def bound(port: int) -> socket.socket:
    """A socket bound to the port on loopback.

    Raises:
        InputError: the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "no port number"
        raise InputError(f"Port {port} on {HOST} cannot be used ({reason}): name another, or 0.") from None
    return listener


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class Gateway:
    """Serves one model to any number of runs; a context manager.

    Example:
        >>> with Gateway(engine) as gateway:  # doctest: +SKIP
        ...     run = gateway.open_run("lm_eval-1", Path("wire.jsonl"))
        ...     print(run.base_url, run.token)
    """

    def __init__(self, backend: Engine | Upstream, *, port: int = 0, served_name: str = "model") -> None:
        """Prepare the server; it listens from `__enter__` to `__exit__`.

        Args:
            backend: A loaded engine, or an upstream server.
            port: TCP port on 127.0.0.1; 0 takes a free one.
            served_name: The model's name as suites see it. Neutral on purpose: some clients send other fields when
                a name looks like one they know.
        """
        self.port = port
        self._backend: Backend = backend if isinstance(backend, Upstream) else Local(backend, served_name)
        self._runs: dict[str, Run] = {}
        config = uvicorn.Config(
            make_app(self._backend, self._runs.get, served_name),
            http=OneWriteProtocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._server = _Server(config)
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Listen.

        Raises:
            InputError: the port is taken.
        """
        listener = bound(self.port)
        self.port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="gateway", daemon=True)
        self._thread.start()
        while not self._server.ready.wait(timeout=1):
            if not self._thread.is_alive():
                raise RuntimeError("the gateway's server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every run, give up what is being computed, and stop listening."""
        for run_id in list(self._runs):
            self.close_run(run_id)
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self._backend.close()

    def open_run(
        self, run_id: str, wire_log: Path, *, memo: bool = True, repeat: int = 0, token: str | None = None
    ) -> Run:
        """Open a run at `http://127.0.0.1:PORT/r/RUN_ID/v1`.

        Args:
            run_id: Part of the URL and of every wire id; names no file.
            wire_log: The log to write; replaced where it exists.
            memo: Whether results may come from the engine's memo.
            repeat: Which repetition this is; one over 0 never takes results from the memo.
            token: The bearer token; None draws one.

        Raises:
            InputError: the id is open already or is no plain name, or the log cannot be written.
        """
        if self._thread is None:
            raise RuntimeError("a run is opened inside the gateway's context")
        if not RUN_ID.fullmatch(run_id):
            raise InputError(f"Run id {run_id!r} is no plain name: use letters, digits, dots, dashes and underscores.")
        if run_id in self._runs:
            raise InputError(f"Run {run_id} is open already: close it first or name another.")
        url = f"http://{HOST}:{self.port}/r/{run_id}/v1"
        run = Run(run_id, url, wire_log, memo=memo, repeat=repeat, token=token or secrets.token_urlsafe(32))
        self._runs[run_id] = run
        return run

    def close_run(self, run_id: str) -> None:
        """Close a run: its URL answers 401, texts under way are given up, and its wire log is complete on return.

        Raises:
            InputError: no such run is open.
        """
        run = self._runs.pop(run_id, None)
        if run is None:
            raise InputError(f"Run {run_id} is not open.")
        run.close()
