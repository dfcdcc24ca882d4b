"""A request that is not answered, in the error shape of the OpenAI API."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """The request is refused or failed; suites get status and body as the API gives them."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """The response's JSON."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}
