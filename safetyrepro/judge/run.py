"""Runs a judge over its calls: what is finished is kept, what fails is named, what it may cost is bounded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from safetyrepro.judge.budget import Budget, Limits, Usage, told_usage
from safetyrepro.judge.endpoint import NO_ANSWER, Attempt, Endpoint
from safetyrepro.judge.ledger import CALL_HEADER, Ledger
from safetyrepro.judge.plan import Call, prompt_bytes
from safetyrepro.judge.reply import read_reply, toward_a
from safetyrepro.progress import Progress

FAILURES_IN_A_ROW = 5
"""So many calls in a row without an answer end the run: the endpoint is not there."""
REJECTED_AT_FIRST = 20
"""So many calls rejected before any is answered end it too; single ones, such as one too long, do not."""


class CapReached(Exception):
    """Another attempt could go over the cap."""


@dataclass
class Outcome:
    """What became of the run."""

    planned: int
    kept: int
    """Finished by earlier starts."""
    recovered: int
    """Verdicts read again from the wire log, since a kill took them."""
    asked: int
    statuses: dict[str, int]
    """Of all planned calls: ok, unparsed, refused, truncated, error (rejected by the endpoint), open (no reply yet)."""
    requests: int
    """Of this start; with retries."""
    tokens: Usage
    unknown_usage: int
    cost: float
    stopped: str | None
    """Why calls are left, where a reason ended the run early."""
    failures: dict[str, int]
    """Calls without an answer in this start, by reason."""

    @property
    def complete(self) -> bool:
        """Whether every planned call has a reply or was rejected."""
        return self.statuses.get("open", 0) == 0


def run_calls(
    calls: Sequence[Call],
    ledger: Ledger,
    endpoint: Endpoint,
    limits: Limits,
    *,
    concurrency: int,
    stopping: threading.Event,
    watch: Progress,
) -> Outcome:
    """Ask the judge for every call that has no reply yet.

    Args:
        calls: all planned calls.
        ledger: the folder's logs.
        endpoint: the judge.
        limits: prices and caps; what earlier starts spent counts.
        concurrency: calls under way at once.
        stopping: set to end the run; calls under way are finished and kept.
        watch: where progress goes.
    """
    return _Run(calls, ledger, endpoint, limits, concurrency, stopping, watch).go()


class _Run:
    def __init__(
        self,
        calls: Sequence[Call],
        ledger: Ledger,
        endpoint: Endpoint,
        limits: Limits,
        concurrency: int,
        stopping: threading.Event,
        watch: Progress,
    ) -> None:
        self.calls, self.ledger, self.endpoint = calls, ledger, endpoint
        self.concurrency, self.stopping, self.watch = concurrency, stopping, watch
        self.budget = Budget(limits)
        self.requests = 0
        self.failures: Counter[str] = Counter()
        self.stopped: str | None = None
        self._unanswered = 0
        self._rejected = 0
        self._replies = 0
        self._mutex = threading.Lock()

    def go(self) -> Outcome:
        recovered = self._recover()
        left = [call for call in self.calls if not _final(self.ledger.rows.get(call.call_id))]
        kept = len(self.calls) - len(left) - recovered
        task = self.watch.task("judging", len(left))
        done = 0
        waiting: set[Future[None]] = set()
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            for call in left:
                if self.stopping.is_set():
                    break
                waiting.add(pool.submit(self._one, call))
                if len(waiting) >= self.concurrency:
                    ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    done += _results(ended)
                    task.update(done)
            done += _results(waiting)
        finally:
            self.stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)
        statuses = self._statuses()
        task.finish(f"{len(self.calls) - statuses.get('open', 0)} of {len(self.calls)} calls have a reply")
        return Outcome(
            planned=len(self.calls),
            kept=kept,
            recovered=recovered,
            asked=done,
            statuses=statuses,
            requests=self.requests,
            tokens=self.budget.spent,
            unknown_usage=self.budget.unknown,
            cost=self.budget.cost,
            stopped=self.stopped,
            failures=dict(self.failures),
        )

    def _recover(self) -> int:
        """Count what earlier starts paid, and write verdicts that a kill took between the two logs."""
        by_id = {call.call_id: call for call in self.calls}
        recovered = 0
        for row in self.ledger.wire:
            call_id = row.headers.get(CALL_HEADER, "")
            if row.status == 200 or _maybe_billed(row.response):
                size = prompt_bytes(row.request)
                most = self.budget.most(size, int(row.request.get("max_tokens", 0)))
                self.budget.paid(told_usage(row.response), most, size)
            call = by_id.get(call_id)
            if call is not None and row.status == 200 and not _final(self.ledger.rows.get(call_id)):
                self.ledger.log_verdict(_verdict_row(call, row.response or {}, row.wire_id))
                recovered += 1
        return recovered

    def _one(self, call: Call) -> None:
        most = self.budget.most(prompt_bytes(call.request), int(call.request["max_tokens"]))
        if not self.budget.reserve(most, self.stopping):
            self._stop("the cap on spending leaves no room for another call")
            return
        wire_id = ""

        def on_attempt(attempt: Attempt) -> None:
            nonlocal wire_id
            wire_id = self.ledger.log_attempt(call.call_id, call.request, attempt)
            with self._mutex:
                self.requests += 1
            if attempt.kind == "answered" or attempt.maybe_billed:
                told = told_usage(attempt.response) if attempt.kind == "answered" else None
                self.budget.paid(told, most, prompt_bytes(call.request))
            if attempt.kind == "passing" and not self.budget.within():
                raise CapReached

        try:
            if self.stopping.is_set():
                return
            last = self.endpoint.ask(call.request, call.call_id, on_attempt)
        except CapReached:
            self._stop("the cap on spending leaves no room for another attempt")
            return
        finally:
            self.budget.release(most)
        if last.kind == "answered":
            self.ledger.log_verdict(_verdict_row(call, last.response or {}, wire_id))
            with self._mutex:
                self._replies += 1
                self._unanswered = 0
            return
        if last.kind == "rejected":
            self.ledger.log_verdict(_rejected_row(call, last, wire_id))
        self._failed(last)

    def _failed(self, last: Attempt) -> None:
        """Count a call without an answer, and end the run where others would fare no better."""
        status = "no answer" if last.status == NO_ANSWER else str(last.status)
        reason = f"{status}: {last.message}"
        with self._mutex:
            self.failures[reason] += 1
            self._rejected += last.kind == "rejected"
            self._unanswered = 0 if last.kind == "rejected" else self._unanswered + 1
            unanswered, rejected = self._unanswered, 0 if self._replies else self._rejected
        if last.kind == "fatal":
            self._stop(_advice(last))
        elif unanswered >= FAILURES_IN_A_ROW:
            self._stop(f"{unanswered} calls in a row have no answer ({reason})")
        elif rejected >= REJECTED_AT_FIRST:
            self._stop(f"the first {rejected} calls were all rejected ({reason})")

    def _stop(self, reason: str) -> None:
        with self._mutex:
            self.stopped = self.stopped or reason
        self.stopping.set()

    def _statuses(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for call in self.calls:
            row = self.ledger.rows.get(call.call_id)
            found[str(row["status"]) if row is not None else "open"] += 1
        return dict(found)


def _results(ended: set[Future[None]]) -> int:
    for future in ended:
        future.result()
    return len(ended)


def _final(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["status"] != "error"


def _maybe_billed(response: Mapping[str, Any] | None) -> bool:
    error = (response or {}).get("error")
    return isinstance(error, dict) and error.get("code") == "maybe_billed"


def _verdict_row(call: Call, response: Mapping[str, Any], wire_id: str) -> dict[str, Any]:
    reply = read_reply(response)
    usage = told_usage(response)
    return {
        "call_id": call.call_id,
        **call.key,
        "verdict": reply.verdict,
        **toward_a(reply.marks, str(call.key["order"])),
        **call.features,
        "status": reply.status,
        "reason": reply.reason,
        "prompt_tokens": None if usage is None else usage.prompt,
        "completion_tokens": None if usage is None else usage.completion,
        "wire_id": wire_id,
    }


def _rejected_row(call: Call, last: Attempt, wire_id: str) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        **call.key,
        "verdict": "",
        **call.features,
        "status": "error",
        "reason": f"{last.status}: {last.message}",
        "wire_id": wire_id,
    }


def _advice(last: Attempt) -> str:
    if last.status in (401, 403):
        return f"the endpoint refuses the key ({last.status}: {last.message}); set SAFETYREPRO_UPSTREAM_KEY"
    if last.status == 402:
        return f"the endpoint wants to be paid first ({last.message})"
    if 300 <= last.status < 400:
        return f"the endpoint redirects ({last.status}); give its final URL"
    return f"there is no chat endpoint at this URL ({last.status}: {last.message}); check --endpoint and --model"
