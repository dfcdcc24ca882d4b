"""A bounded memory of results: an optimisation that changes no result in exact mode."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """A result that knows its size."""

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        ...


Result = TypeVar("Result", bound=Sized)


class Memo(Generic[Result]):
    """The latest results by key, up to `limit` bytes; the least recently used go first. Safe from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = 0
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, Result] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> Result | None:
        """The result kept under `key`, counted as a hit, or None."""
        with self._lock:
            result = self._held.get(key)
            if result is not None:
                self._held.move_to_end(key)
                self.hits += 1
            return result

    def put(self, key: Hashable, result: Result) -> None:
        """Keep `result`, unless it is larger than the limit by itself."""
        with self._lock:
            if key in self._held or result.nbytes > self.limit:
                return
            self._held[key] = result
            self._bytes += result.nbytes
            while self._bytes > self.limit:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.nbytes
