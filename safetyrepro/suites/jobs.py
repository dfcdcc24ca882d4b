"""One runner's process: started in a folder of its own, watched, ended with us, its failure told in one message."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from safetyrepro.atomic import write_bytes
from safetyrepro.errors import SuiteFailure
from safetyrepro.suites.variables import lay_out, variables

TICK_SECONDS = 0.25
LAST_LINES = 15
_LINE_CHARS = 400
_TAIL_BYTES = 64 * 1024
_GUARD = Path(__file__).with_name("guard.py")
_SECRET_NAME = re.compile(r"TOKEN$|KEY$|SECRET|PASSWORD")
_UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def run(
    python: Path,
    runner: Path,
    job: Path,
    out_dir: Path,
    *,
    log: Path,
    env: Mapping[str, str],
    timeout: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> None:
    """Run `python -P runner job out_dir` to its end.

    It starts in an empty folder of its own, sees only what `suites.variables` lets through, and leads no life after
    ours: its process group is killed when it ends, when this call is interrupted, and when our process is killed.

    Args:
        python: Interpreter of the suite's environment, or our own.
        runner: Script of the suite's adapter; its folder's name stands for the suite in messages.
        job: JSON file handed to it.
        out_dir: Folder for the suite's own output; made if missing.
        log: File for all that it prints, written anew; secrets in it are blotted out at the end.
        env: The run's own variables; values of those named `..._TOKEN` or `..._KEY` are the secrets.
        timeout: Seconds after which it is killed; None waits.
        on_tick: Called about four times a second, and once at the end.

    Raises:
        SuiteFailure: it ended with another code than 0, by a signal, or was stopped at the timeout; the message
            quotes the log's last lines.
    """
    suite = runner.parent.name
    secrets = [value for name, value in env.items() if _SECRET_NAME.search(name) and value]
    out_dir.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-P", str(runner.resolve()), str(job.resolve()), str(out_dir.resolve())]
    with tempfile.TemporaryDirectory(prefix="safetyrepro-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder).resolve()
        start = lay_out(scratch)
        own = python == Path(sys.executable)
        try:
            code = _watched(command, start, variables(scratch, env, own_packages=own), log, timeout, on_tick)
        finally:
            _blot(log, secrets)
    if code == 0:
        return
    raise SuiteFailure(f"{suite} {_ending(code, timeout)}; its log {log} ends:\n{_last_lines(log)}")


def _watched(
    command: Sequence[str],
    start: Path,
    environment: Mapping[str, str],
    log: Path,
    timeout: float | None,
    on_tick: Callable[[], None] | None,
) -> int | None:
    """Exit code, negative for a signal; None where the timeout ended it."""
    until = None if timeout is None else time.monotonic() + timeout
    with ExitStack() as stack:
        life, our_life = os.pipe()
        stack.callback(os.close, our_life)
        result, their_result = os.pipe()
        stack.callback(os.close, result)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(life), str(their_result), *command],
                cwd=start,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(life, their_result),
                start_new_session=True,
            )
        stack.callback(_end, process)
        os.close(life)
        os.close(their_result)
        selector = stack.enter_context(selectors.DefaultSelector())
        selector.register(result, selectors.EVENT_READ)
        while not selector.select(TICK_SECONDS):
            if on_tick is not None:
                on_tick()
            if until is not None and time.monotonic() >= until:
                return None
        told = os.read(result, 16)
        _end(process)
        if on_tick is not None:
            on_tick()
        return int(told) if told else process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the group; the guard has done so already where the runner ended by itself."""
    # Only while the leader is not waited for: until then its number cannot be given to another group.
    if process.returncode is None:
        # macOS says "not permitted" of a group that is all zombies.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ending(code: int | None, timeout: float | None) -> str:
    if code is None:
        return f"was stopped after {timeout:g} s"
    if code < 0:
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"ended with exit code {code}"


def _blot(log: Path, secrets: Sequence[str]) -> None:
    """Take the run's secrets out of its log: folders of results are handed around."""
    if not log.exists():
        return
    data = log.read_bytes()
    clean = data
    for secret in secrets:
        clean = clean.replace(secret.encode(), b"[token]")
    if clean != data:
        write_bytes(log, clean)


def _last_lines(log: Path) -> str:
    data = log.read_bytes()[-_TAIL_BYTES:] if log.exists() else b""
    text = _UNPRINTABLE.sub("", data.decode("utf-8", errors="replace").replace("\r", "\n"))
    lines = [line.rstrip()[:_LINE_CHARS] for line in text.splitlines() if line.strip()][-LAST_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (it printed nothing)"
