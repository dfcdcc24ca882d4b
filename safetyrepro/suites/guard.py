"""Starts a runner and ends its whole process group with it, or as soon as whoever asked for it is gone.

Run as a script: `guard.py LIFE RESULT COMMAND...`, leader of a process group of its own. LIFE is the reading end of a
pipe that nobody writes to: it ends when the asking process does, even by SIGKILL. The command's exit code (negative
for a signal) goes to the pipe RESULT. Standard library only; started for every job, so it imports little.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def _end_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _watch(life: int) -> None:
    os.read(life, 1)
    _end_group()


def main(arguments: list[str]) -> None:
    """Run the command and report how it ended; does not return."""
    life, result, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    threading.Thread(target=_watch, args=(life,), daemon=True).start()
    try:
        code = subprocess.call(command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr, flush=True)
        code = 127
    os.write(result, str(code).encode())
    _end_group()


if __name__ == "__main__":
    main(sys.argv[1:])
