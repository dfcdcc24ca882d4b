"""Asks a chat endpoint of the OpenAI kind, again where a failure may pass, never without bound."""

from __future__ import annotations

import email.utils
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_when_event_set,
    wait_exponential,
)

from safetyrepro.gateway.address import bearer, server_key, server_url

KEY_VARIABLE = "SAFETYREPRO_UPSTREAM_KEY"
PATH = "/chat/completions"
ATTEMPTS = 5
FIRST_WAIT = 0.5
LONGEST_WAIT = 20.0
LONGEST_RETRY_AFTER = 120.0
"""Seconds that an endpoint may ask to wait; beyond them the call is given up by name."""
CONNECT_TIMEOUT = 10.0
TIMEOUT = 300.0
LARGEST_BODY = 8 * 2**20
NO_ANSWER = 0
"""Status of an attempt to which no whole answer came."""
QUOTED = 300

Kind = Literal["answered", "passing", "rejected", "fatal"]


@dataclass(frozen=True)
class Attempt:
    """One HTTP request and what came of it."""

    status: int
    """HTTP status; `NO_ANSWER` where no whole JSON object came."""
    response: dict[str, Any] | None
    """The answer, or `{"error": {...}}`."""
    retry_after: float | None
    """Seconds that the endpoint asked to wait."""
    maybe_billed: bool
    """Whether the endpoint may have computed an answer that never arrived whole."""
    started: float
    """Unix time in seconds."""
    seconds: float

    @property
    def kind(self) -> Kind:
        """`passing` may be tried again; `rejected` is about this request; `fatal` would meet every request."""
        if self.status == httpx.codes.OK:
            return "answered"
        if self.status in (NO_ANSWER, 408, 409, 425, 429) or self.status >= 500:
            return "passing"
        return "fatal" if self.status in (401, 402, 403, 404, 405) or self.status < 400 else "rejected"

    @property
    def message(self) -> str:
        """What the endpoint said went wrong."""
        error = (self.response or {}).get("error")
        said = error.get("message") if isinstance(error, dict) else error
        return " ".join(str(said or "no reason given").split())[:QUOTED]


class Endpoint:
    """A chat endpoint; used from many threads at once."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
        first_wait: float = FIRST_WAIT,
        stopping: threading.Event | None = None,
    ) -> None:
        """Name the server; its key is read from `SAFETYREPRO_UPSTREAM_KEY`.

        Args:
            url: Its base URL, ending in `/v1` as a rule.
            timeout: Seconds for a whole answer, however slowly it comes.
            attempts: How often a call is tried in all.
            first_wait: Seconds before the second attempt; each later wait is twice as long, up to `LONGEST_WAIT`.
            stopping: Once set, nothing is tried again.

        Raises:
            InputError: no http or https URL, one with credentials or a query in it, or a key that no header takes.
        """
        parsed = server_url(url, "--endpoint", KEY_VARIABLE)
        self._key = server_key(KEY_VARIABLE)
        self._timeout, self._attempts, self._first_wait = timeout, attempts, first_wait
        self._stopping = stopping or threading.Event()
        self._client = httpx.Client(
            base_url=parsed,
            headers=bearer(self._key),
            timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
            follow_redirects=False,
        )
        self.url = str(parsed)

    def ask(self, body: Mapping[str, Any], call_id: str, on_attempt: Callable[[Attempt], None]) -> Attempt:
        """Send a request until it is answered, rejected, or out of attempts.

        Args:
            body: The request.
            call_id: Sent as `x-item`, so that a gateway's wire log can be joined.
            on_attempt: Called with every attempt, the last one included.

        Returns:
            The last attempt.
        """
        again = Retrying(
            stop=stop_after_attempt(self._attempts) | stop_when_event_set(self._stopping),
            wait=self._wait,
            retry=retry_if_result(lambda a: a.kind == "passing" and (a.retry_after or 0) <= LONGEST_RETRY_AFTER),
            retry_error_callback=_last,
            sleep=self._sleep,
        )

        def once() -> Attempt:
            attempt = self._post(body, call_id)
            on_attempt(attempt)
            return attempt

        last: Attempt = again(once)
        return last

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _wait(self, state: RetryCallState) -> float:
        assert state.outcome is not None
        asked = state.outcome.result().retry_after or 0.0
        return max(float(asked), wait_exponential(multiplier=self._first_wait, max=LONGEST_WAIT)(state))

    def _post(self, body: Mapping[str, Any], call_id: str) -> Attempt:
        started, clock = time.time(), time.monotonic()

        def nothing(reason: str, *, billed: bool) -> Attempt:
            answer = _error(self._hidden(reason), "maybe_billed" if billed else None)
            return Attempt(NO_ANSWER, answer, None, billed, started, time.monotonic() - clock)

        data = bytearray()
        headers = {"x-item": call_id, "Content-Type": "application/json"}
        # Escaped to ASCII: half a surrogate pair in an answer has no UTF-8.
        sent = json.dumps(body).encode()
        try:
            with self._client.stream("POST", PATH, content=sent, headers=headers) as response:
                for chunk in response.iter_bytes():
                    data += chunk
                    if time.monotonic() - clock > self._timeout:
                        return nothing(f"no whole answer within {self._timeout:g} s", billed=True)
                    if len(data) > LARGEST_BODY:
                        return nothing(f"an answer over {LARGEST_BODY // 2**20} MiB", billed=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return nothing(f"not reached: {error or type(error).__name__}", billed=False)
        except httpx.TimeoutException:
            return nothing(f"no whole answer within {self._timeout:g} s", billed=True)
        except httpx.HTTPError as error:
            return nothing(f"the answer broke off: {error or type(error).__name__}", billed=True)
        answer = self._object(bytes(data))
        status = response.status_code
        if answer is None and status == httpx.codes.OK:
            return nothing("answered 200 with no whole JSON object", billed=True)
        if answer is None:
            answer = _error(self._hidden(bytes(data[:QUOTED]).decode("utf-8", "replace")), None)
        wait = _retry_after(response.headers.get("retry-after"))
        return Attempt(status, answer, wait, False, started, time.monotonic() - clock)

    def _object(self, data: bytes) -> dict[str, Any] | None:
        try:
            body = json.loads(self._hidden(data.decode("utf-8")), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return None
        return body if isinstance(body, dict) else None

    def _hidden(self, text: str) -> str:
        """Some servers quote a wrong key in their answer; no log is to hold it."""
        return text.replace(self._key, "[key]") if self._key else text


def _error(message: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "transport", "code": code}}


def _retry_after(value: str | None) -> float | None:
    """Seconds from a `Retry-After` header: a number or an HTTP date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds == seconds else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _last(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()
