"""The gateway: every request of every suite passes here, is answered by one model, and is logged with what it saw.

Reading a wire log must not load a web server, so the server's names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.gateway.wire import Seen, WireRow, read_wire

if TYPE_CHECKING:
    from safetyrepro.gateway.run import Run
    from safetyrepro.gateway.served import Served, serve_model, tokenizer_of
    from safetyrepro.gateway.server import Gateway
    from safetyrepro.gateway.upstream import Upstream

__all__ = ["Gateway", "Run", "Seen", "Served", "Upstream", "WireRow", "read_wire", "serve_model", "tokenizer_of"]

_LATER = {
    "Gateway": "server",
    "Run": "run",
    "Served": "served",
    "Upstream": "upstream",
    "serve_model": "served",
    "tokenizer_of": "served",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
