"""HTTP responses written to the socket at once.

A server that sends head and body apart meets clients that acknowledge late, which costs about 40 ms a request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class JoiningTransport(asyncio.Transport):
    """Passes everything on to `inner`, but joins what is written in one step of the event loop."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._pending: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep `data` until this step of the event loop is over."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(bytes(data))

    def _flush(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            self._inner.write(data)

    def close(self) -> None:
        """Write what is kept, then close."""
        self._flush()
        self._inner.close()

    def abort(self) -> None:
        """Close without writing."""
        self._pending.clear()
        self._inner.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the inner transport."""
        return self._inner.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Of the inner transport."""
        return self._inner.is_closing()

    def is_reading(self) -> bool:
        """Of the inner transport."""
        return self._inner.is_reading()

    def pause_reading(self) -> None:
        """Of the inner transport."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Of the inner transport."""
        self._inner.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Of the inner transport."""
        self._inner.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Of the inner transport."""
        return self._inner.get_protocol()


class OneWriteProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 over a joining transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport between."""
        super().connection_made(JoiningTransport(transport, self.loop))
