"""What a sample's transcript holds of the last model call before scoring, its pooled parts put back.

Releases from 0.3.200 on keep messages and call bodies once, in `events_data`, and refer to them by ranges; long texts
are `attachment://` references, and were `tc://` ones at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from safetyrepro.crosspkg.importers.chat import as_chat
from safetyrepro.crosspkg.importers.values import clean, mapping, sequence, text_of, whole

ATTACHED = ("attachment://", "tc://")
_MESSAGE_KEYS = ("messages", "contents", "input", "inputs")
"""Under which key a provider's request holds its messages; the pooled ones are put back there."""
_SCORING = frozenset({"scorer", "scorers"})


@dataclass(frozen=True)
class Called:
    """One model call."""

    request: Mapping[str, Any]
    """The body as it was sent; empty where the log keeps none."""
    response: Mapping[str, Any]
    messages: tuple[Any, ...]
    """What Inspect gave its provider."""
    config: Mapping[str, Any]
    """The generation options of this call."""

    @property
    def prompt(self) -> str | None:
        """What was sent: a completion's prompt, or a chat's messages as JSON; None where it is neither."""
        sent = self.request.get("prompt")
        if isinstance(sent, str):
            return clean(sent)
        if sent is not None:
            return None
        messages = sequence(self.request.get("messages")) or list(self.messages)
        return as_chat(messages) if messages else None

    @property
    def only_scores(self) -> bool:
        """Whether the prompt's own logprobs were asked for and no token, so that the reply is the prompt."""
        echo = self.request.get("echo") or mapping(self.request.get("extra_body")).get("echo")
        return bool(echo) and whole(self.request.get("max_tokens")) == 0

    @property
    def finish_reason(self) -> str | None:
        """Why the server stopped, in its own words."""
        return text_of(mapping(next(iter(sequence(self.response.get("choices"))), None)).get("finish_reason"))


def attached(value: Any, attachments: Mapping[str, Any]) -> Any:
    """`value` with the texts put back that it refers to."""
    if isinstance(value, str) and value.startswith(ATTACHED):
        return attachments.get(value.partition("://")[2], value)
    if isinstance(value, list):
        return [attached(one, attachments) for one in value]
    if isinstance(value, dict):
        return {key: attached(one, attachments) for key, one in value.items()}
    return value


def last_call(sample: Mapping[str, Any]) -> Called | None:
    """The last model call before scoring, so that a grader's calls are none; None where the log has no such event."""
    transcript = mapping(sample.get("transcript"))
    events = sequence(sample.get("events")) or sequence(transcript.get("events"))
    found = None
    for event in _before_scoring(events):
        if event.get("event") == "model":
            found = event
    if found is None:
        return None
    attachments = attachments_of(sample)
    pools = mapping(sample.get("events_data"))
    messages = found.get("input") or _pooled(found.get("input_refs"), sequence(pools.get("messages")))
    call = mapping(found.get("call"))
    request = dict(mapping(call.get("request")))
    if call.get("call_refs"):
        key = next((key for key in _MESSAGE_KEYS if key == call.get("call_key")), "messages")
        request[key] = _pooled(call["call_refs"], sequence(pools.get("calls")))
    return Called(
        attached(request, attachments),
        mapping(attached(call.get("response"), attachments)),
        tuple(attached(sequence(messages), attachments)),
        mapping(found.get("config")),
    )


def attachments_of(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The texts that a sample's references stand for."""
    return mapping(sample.get("attachments")) or mapping(mapping(sample.get("transcript")).get("content"))


def _before_scoring(events: list[Any]) -> Iterator[Mapping[str, Any]]:
    for event in events:
        held = mapping(event)
        if held.get("event") == "score" or (
            held.get("event") in ("span_begin", "step") and held.get("type") in _SCORING
        ):
            return
        yield held


def _pooled(references: Any, pool: list[Any]) -> list[Any]:
    found: list[Any] = []
    for one in sequence(references):
        ends = [whole(end) for end in sequence(one)]
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            found += pool[max(ends[0], 0) : max(ends[1], 0)]
    return found
