"""What passes between the HTTP side of the gateway and whatever answers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from safetyrepro.gateway.wire import Seen

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Call:
    """One request's place in its run."""

    wire_id: str
    created: int
    """Unix time in whole seconds."""
    memo: bool
    repeat: int


@dataclass(frozen=True)
class Answer:
    """A response, and what the model saw for it."""

    status: int
    response: dict[str, Any]
    seen: tuple[Seen, ...]
    memo: bool = False
    """Whether every result came from the memo."""


class Backend(Protocol):
    """Answers requests; called from many threads at once."""

    def answer(self, path: str, body: Mapping[str, Any], call: Call) -> Answer:
        """Answer a request to `COMPLETIONS` or `CHAT`.

        Raises:
            Refusal: the request is refused or failed.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
