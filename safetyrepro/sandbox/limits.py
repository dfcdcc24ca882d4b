"""What code may use before it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Of one box; the code and its tests have one each."""

    cpu_seconds: int = 5
    """Processor time: what a busy machine does not change."""
    wall_seconds: float = 30.0
    """Time in all, for code that waits."""
    memory: int = 512 * MEGABYTE
    """Address space, bytes."""
    disk: int = 16 * MEGABYTE
    """The box's own folder, and its largest file, bytes."""
    files: int = 64
    """Open files."""
    processes: int = 64
    """Threads: other processes cannot be started at all."""
    output: int = 1 * MEGABYTE
    """What may be printed, bytes."""


LIMITS = Limits()
