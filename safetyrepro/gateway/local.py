"""Answers requests from an engine in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetyrepro.engine.api import Engine
from safetyrepro.errors import InputError
from safetyrepro.gateway.answer import CHAT, Answer, Call
from safetyrepro.gateway.chat import chat
from safetyrepro.gateway.completions import complete
from safetyrepro.gateway.refusal import Refusal
from safetyrepro.gateway.requests import ChatRequest, CompletionRequest, parse


class Local:
    """A backend before an engine."""

    def __init__(self, engine: Engine, served_name: str) -> None:
        self._engine: Engine | None = engine
        self._served_name = served_name

    def answer(self, path: str, body: Mapping[str, Any], call: Call) -> Answer:
        """Check the request and compute its answer.

        Raises:
            Refusal: the request cannot be honoured.
        """
        engine = self._engine
        if engine is None:
            raise Refusal(503, "The gateway is closed.")
        try:
            if path == CHAT:
                return chat(engine, parse(ChatRequest, body), call, self._served_name)
            return complete(engine, parse(CompletionRequest, body), call, self._served_name)
        except InputError as error:
            raise Refusal(400, str(error)) from None

    def close(self) -> None:
        """Let go of the engine, which belongs to whoever loaded it and is to be the last to hold it."""
        self._engine = None
