"""The gateway's routes: who may ask, what is read from the request, what is logged."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from safetyrepro.engine.api import GivenUp, given_up
from safetyrepro.gateway.answer import CHAT, COMPLETIONS, Answer, Backend, Call
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.requests import parse_json
from safetyrepro.gateway.run import Run
from safetyrepro.gateway.wire import WireRow
from safetyrepro.unicode import encoded

LOG = logging.getLogger(__name__)
MODELS = "/v1/models"
MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request's body."""
JOIN_KEYS = ("x-irid", "x-run", "x-item", "x-request-id")
"""The only headers that reach the wire log."""
MAX_JOIN_KEY = 256
AT_ONCE = 128
"""Requests that are answered at once; the others wait until a thread is free."""
CLOSED = 503
GONE = 499


def make_app(backend: Backend, find_run: Callable[[str], Run | None], served_name: str) -> Starlette:
    """The ASGI application.

    Args:
        backend: Answers the requests.
        find_run: The open run of that id, if there is one.
        served_name: What `/v1/models` lists.
    """
    threads = anyio.CapacityLimiter(AT_ONCE)

    async def endpoint(request: Request) -> Response:
        run = find_run(request.path_params["run_id"])
        if run is None or not run.admits(request.headers.get("authorization", "")):
            return _json(401, Refusal(401, "No open run at this URL takes this token.").body())
        path = f"/{request.path_params['path']}"
        if request.method == "GET":
            if path == MODELS:
                listed = {"id": served_name, "object": "model", "created": 0, "owned_by": "safetyrepro"}
                return _json(200, {"object": "list", "data": [listed]})
            return _json(404, _not_found(path).body())
        number = run.begin()
        if number is None:
            return _json(CLOSED, Refusal(CLOSED, "The run is closed.").body())
        return await _logged(request, run, path, number)

    async def _logged(request: Request, run: Run, path: str, number: int) -> Response:
        started, clock = time.time(), time.perf_counter()
        call = Call(f"{run.run_id}-{number:06d}", int(started), run.memo and run.repeat == 0, run.repeat)
        body: dict[str, Any] = {}
        answer = Answer(CLOSED, Refusal(CLOSED, "The gateway is shutting down.").body(), ())
        try:
            try:
                body = parse_json(await _read(request))
                gone = threading.Event()
                asked = partial(_answer, backend, run, path, body, call, gone)
                watch = asyncio.create_task(_watch(request, gone))
                try:
                    answer = await anyio.to_thread.run_sync(asked, limiter=threads)
                finally:
                    watch.cancel()
            except Refusal as refusal:
                answer = Answer(refusal.status, refusal.body(), ())
            except ClientDisconnect:
                answer = Answer(GONE, Refusal(GONE, "The client went away before its request was whole.").body(), ())
            return _json(answer.status, answer.response)
        finally:
            row = WireRow(
                wire_id=call.wire_id,
                run=run.run_id,
                path=path,
                request=body,
                seen=answer.seen,
                response=answer.response,
                status=answer.status,
                headers=_join_keys(request.headers),
                started=started,
                seconds=time.perf_counter() - clock,
                memo=answer.memo,
            )
            run.finish(number, row)

    return Starlette(
        routes=[Route("/r/{run_id}/{path:path}", endpoint, methods=["GET", "POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)],
        exception_handlers={HTTPException: _http_error},
    )


async def _watch(request: Request, gone: threading.Event) -> None:
    """Tell when the client of a request that has been read goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _answer(
    backend: Backend, run: Run, path: str, body: Mapping[str, Any], call: Call, gone: threading.Event
) -> Answer:
    if run.closing:
        raise Refusal(CLOSED, "The run is closed.")
    if path not in (COMPLETIONS, CHAT):
        raise _not_found(path)
    if body.get("stream"):
        raise Refusal(400, "stream is not served: leave it out or send false.", param="stream")
    given_up.set(lambda: run.closing or gone.is_set())
    try:
        return backend.answer(path, body, call)
    except Refusal:
        raise
    except GivenUp:
        if not run.closing:
            raise Refusal(GONE, "The client went away while this was computed.") from None
        raise Refusal(CLOSED, "The run was closed while this was computed.") from None
    except Exception as error:
        LOG.exception("request %s failed", call.wire_id)
        raise Refusal(500, f"The request failed in the gateway ({type(error).__name__}).") from error


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise Refusal(413, f"The body is over {MAX_BODY} bytes: send fewer prompts at a time.")
    return bytes(body)


def _not_found(path: str) -> Refusal:
    return Refusal(404, f"{path} is not served: there are {COMPLETIONS}, {CHAT} and {MODELS}.", code="not_found")


def _join_keys(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name][:MAX_JOIN_KEY] for name in JOIN_KEYS if name in headers}


def _json(status: int, body: Mapping[str, Any]) -> Response:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(encoded(text), status, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "The request failed."
    return _json(status, Refusal(status, f"{request.method} {request.url.path}: {detail}.").body())
