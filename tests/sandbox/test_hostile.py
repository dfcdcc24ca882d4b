"""Code that means harm is stopped, and fails with the reason. Nowhere is it run unguarded.

Every case gives the right answers otherwise, so that it fails for what it did alone. Where boxes cannot be built, what
holds is that nothing runs at all.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from safetyrepro.sandbox.box import NoIsolation
from safetyrepro.sandbox.isolation import missing_isolation
from safetyrepro.sandbox.judge import UnitTests, Verdict, judge
from safetyrepro.sandbox.limits import LIMITS, Limits
from tests.sandbox.programs import RIGHT, SHORT, SQUARE, doing


@pytest.fixture(scope="module")
def boxed() -> bool:
    """Whether boxes can be built on this machine."""
    return missing_isolation(SHORT) is None


def judged(code: str, *, boxed: bool, tests: UnitTests = SQUARE, limits: Limits = SHORT) -> Verdict | None:
    """The verdict, or None where boxes cannot be built and so nothing was run."""
    if boxed:
        return judge(code, tests, limits)
    with pytest.raises(NoIsolation):
        judge(code, tests, limits)
    return None


def test_right_code_passes_and_wrong_code_fails_with_its_assertion(boxed: bool) -> None:
    assert judged(RIGHT, boxed=boxed) in (Verdict(True, None), None)
    wrong = Verdict(False, "failed `assert candidate(3) == 9`; it gave 5")
    assert judged("def square(x):\n    return x + 2\n", boxed=boxed) in (wrong, None)


LOOPS = "while True: pass"
CAUGHT = "try:\n    {}\nexcept BaseException:\n    pass"
CASES = {
    "loops": (doing(LOOPS), "used more than 2 s of processor time"),
    "loops-and-catches-the-signal": (
        doing(f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{LOOPS}"),
        "used more than 2 s of processor time",
    ),
    "forks": (doing("import os\nwhile True: os.fork()"), "it started a process"),
    "forks-and-catches": (doing(CAUGHT.format("import os; os.fork()")), "it started a process"),
    "starts-a-program": (doing("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'ls'])"), "it started a process"),
    "leaves-a-daemon": (
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\n" + RIGHT,
        "it started a process",
    ),
    "fills-memory": (doing("held = 'x' * (1 << 30)"), "ran out of memory"),
    "fills-memory-slowly": (doing("held = []\nwhile True: held.append(bytes(1 << 20))"), "ran out of memory"),
    "fills-the-disk": (
        doing("with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))"),
        "it filled its disk",
    ),
    "fills-the-disk-with-many-files": (
        doing("for n in range(100):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(1 << 20))"),
        "it filled its disk",
    ),
    "reads-the-home": (doing("open(HOME + '/.ssh/id_rsa').read()"), "it read {home}/.ssh/id_rsa"),
    "reads-the-home-and-catches": (doing(CAUGHT.format("open(HOME + '/.netrc')")), "it read {home}/.netrc"),
    "lists-the-home": (doing("import os\nos.listdir(HOME)"), "it read {home}"),
    "writes-outside": (doing("open('/etc/passwd', 'a')"), "it wrote to /etc/passwd"),
    "writes-beside-itself": (doing("open('../harness/tests.txt', 'w')"), "it wrote to ../harness/tests.txt"),
    "opens-a-socket": (doing("import socket\nsocket.create_connection(('127.0.0.1', PORT))"), "it used the network"),
    "opens-a-socket-and-catches": (
        doing(CAUGHT.format("import socket; socket.socket()")),
        "it used the network",
    ),
    "kills-its-parent": (doing("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"), "it sent a signal"),
    "kills-everything": (doing("import os\nos.kill(-1, 9)"), "it sent a signal"),
    "prints-gigabytes": (doing("while True: print('x' * 100000)"), "it printed more than 1 MB"),
    "waits": (doing("import time\ntime.sleep(1000)"), "it took longer than 3 s"),
    "exits-at-once": ("import os\nos._exit(0)\n" + RIGHT, "ended itself with exit code 0, before the tests"),
    "exits-by-name": ("import sys\nsys.exit(0)\n" + RIGHT, "the code does not load: it called sys.exit(0)"),
    "exits-when-called": (doing("import os\nos._exit(0)"), "ended itself with exit code 0, before the tests"),
    "raises-exit-when-called": (doing("raise SystemExit(0)"), "it called sys.exit(0)"),
    "crashes": (doing("import ctypes\nctypes.string_at(0)"), "it was ended by SIGSEGV"),
    "recurses": (doing("return square(x)"), "RecursionError"),
}


@pytest.mark.parametrize("name", CASES)
def test_stopped_with_the_reason(name: str, boxed: bool) -> None:
    home = str(Path("~").expanduser())
    with socket.create_server(("127.0.0.1", 0)) as server:
        code, reason = CASES[name]
        code = code.replace("PORT", str(server.getsockname()[1])).replace("HOME", repr(home))
        limits = Limits(**{**vars(SHORT), "wall_seconds": 3.0}) if name == "waits" else SHORT
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        verdict = judged(code, boxed=boxed, limits=limits)
        assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    if verdict is not None:
        assert not verdict.passed
        assert reason.replace("{home}", home) in (verdict.reason or "").replace("'", "")


class Walls:
    """The same against the kernel alone: the code calls the C library, of which the interpreter knows nothing."""

    C = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"

    FORK = C + "done = libc.fork()\nassert done == -1, done"
    OLD_FORK = (
        C + "import os\nif os.uname().machine == 'x86_64':\n    assert libc.syscall(57) == libc.syscall(58) == -1"
    )
    SOCKET = C + "libc.socket(2, 1, 0)"
    READ = C + "done = libc.open(PATH.encode(), 0)\nassert done == -1, done"
    WRITE = C + "done = libc.open(b'/usr/lib/x', 65)\nassert done == -1, done"
    KILL = C + "libc.kill(1, 9)\nlibc.kill(-1, 9)\nassert libc.kill(OUTER, 0) == -1"
    TRACE = C + "assert libc.ptrace(16, 1, 0, 0) == -1"
    REMOUNT = C + "assert libc.mount(None, b'/', None, 32, None) == -1"
    ROOT = C + "assert libc.setuid(0) == -1\nassert libc.unshare(0x10000000) == -1"
    OPEN = C + "assert [n for n in range(3, 300) if libc.fcntl(n, 1) != -1] == [3, 4]"


@pytest.mark.parametrize("name", ["FORK", "OLD_FORK", "READ", "WRITE", "KILL", "TRACE", "REMOUNT", "ROOT", "OPEN"])
def test_the_kernel_stops_what_the_interpreter_does_not_see(name: str, boxed: bool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    body = getattr(Walls, name).replace("PATH", repr(str(secret))).replace("OUTER", str(os.getpid()))
    assert judged(doing(body), boxed=boxed) in (Verdict(True, None), None)


def test_the_kernel_ends_what_opens_a_network_socket(boxed: bool) -> None:
    verdict = judged(doing(Walls.SOCKET), boxed=boxed)
    assert verdict is None or verdict.reason == (
        "stopped: it opened a network socket, and may not, before the tests were through"
    )


SEARCHES = """
import gc, sys
SIGN = chr(61) * 2 + ' 4'
def square(x):
    frame, seen = sys._getframe(1), []
    while frame:
        seen += [v for v in frame.f_locals.values() if isinstance(v, str)]
        frame = frame.f_back
    held = [o for o in gc.get_objects() if isinstance(o, dict)]
    seen += [v for o in held for v in o.values() if isinstance(v, str)]
    return [text for text in seen if SIGN in text and text != SIGN]
"""
FAKES = {
    "equals-everything": (
        "class Yes:\n    def __eq__(self, other):\n        return True\ndef square(x):\n    return Yes()\n",
        "it gave a Yes of its own",
    ),
    "a-number-that-equals-everything": (
        "class Yes(int):\n    def __eq__(self, other):\n        return True\ndef square(x):\n    return Yes(7)\n",
        "failed `assert candidate(2) == 4`; it gave 7",
    ),
    "prints-a-pass": (
        "import os, sys\nprint('{\"reason\": null}')\nfor n in (1, 3, 4, 5):\n    try:\n"
        "        os.write(n, b'{\"reason\": null}\\n')\n    except OSError:\n        pass\n"
        "def square(x):\n    return 0\n",
        "the code does not load",
    ),
    "rewrites-the-builtins": (
        "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})\n"
        "builtins.isinstance = lambda *_: 1\n"
        "def square(x):\n    return 0\n",
        "",
    ),
    "looks-up-the-stack": (SEARCHES, "failed `assert candidate(2) == 4`; it gave []"),
    "reads-the-tests": (
        "def square(x):\n    return eval(open('/harness/tests.txt').read().split('==')[1].split()[0])\n",
        "FileNotFoundError",
    ),
}


@pytest.mark.parametrize("name", FAKES)
def test_a_pass_cannot_be_made_up(name: str, boxed: bool) -> None:
    code, reason = FAKES[name]
    verdict = judged(code, boxed=boxed)
    assert verdict is None or (not verdict.passed and reason in (verdict.reason or ""))


def test_the_environment_is_empty(boxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    empty = UnitTests("assert variables() == []\nassert typed() == ''\n")
    code = (
        "import os, sys\ndef variables():\n    return sorted(os.environ)\ndef typed():\n    return sys.stdin.read()\n"
    )
    assert judged(code, boxed=boxed, tests=empty) in (Verdict(True, None), None)


ASKING = """
import sys
from safetyrepro.sandbox.judge import judge
from tests.sandbox.programs import SQUARE, doing
print(judge(doing("import time; time.sleep(1000)"), SQUARE).reason)
"""


def test_a_box_ends_with_whoever_asked(boxed: bool, tmp_path: Path) -> None:
    """A run that is killed, and so can clean nothing up, leaves no process behind."""
    command, root = [sys.executable, "-c", ASKING], Path(__file__).parents[2]
    asker = psutil.Popen(command, cwd=root, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL)
    # The asker, and for each of two boxes a keeper, its fork, the first process and the program.
    started: list[psutil.Process] = []
    while boxed and len(started) < 8 and asker.poll() is None:
        started = asker.children(recursive=True)
        time.sleep(0.02)
    asker.kill() if boxed else asker.wait()
    _, left = psutil.wait_procs([asker, *started], timeout=20)
    assert not left
    assert boxed == (len(started) == 8)


ORDINARY = """
import asyncio, collections, datetime, hashlib, io, json, math, os, random, re, statistics, string, sys, tempfile, uuid
from concurrent.futures import ThreadPoolExecutor
from zoneinfo import ZoneInfo

async def slowly(x):
    await asyncio.sleep(0.01)
    return x

def square(x):
    print('working')
    with open('note.txt', 'w') as out, tempfile.NamedTemporaryFile('w+') as other:
        out.write('note')
        other.write(str(uuid.uuid4()))
    assert os.listdir('.') and os.path.exists('note.txt') and os.path.expanduser('~')
    os.remove('note.txt')
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(abs, range(10))) == 45
    return asyncio.run(slowly(x)) * x
"""


def test_ordinary_code_is_let_alone(boxed: bool) -> None:
    assert judged(ORDINARY, boxed=boxed) in (Verdict(True, None), None)


def test_tests_that_never_end_are_no_pass(boxed: bool) -> None:
    for tests, reason in (
        ("while True: pass", "the tests did not run to their end: it used more than 2 s of processor time"),
        ("import os\nos._exit(0)", "the tests did not run to their end: it ended itself with exit code 0"),
        ("raise SystemExit", "the tests ended themselves (SystemExit)"),
    ):
        assert judged(RIGHT, boxed=boxed, tests=UnitTests(tests)) in (Verdict(False, reason), None)


def test_limits_are_wide_enough_for_real_work() -> None:
    assert LIMITS.cpu_seconds >= 5
    assert LIMITS.wall_seconds > 3 * LIMITS.cpu_seconds
