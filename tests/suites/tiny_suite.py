"""A suite of one small wheel, so that real environments are built in a second and without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

PACKAGE = "tinysuite"
VERSION = "1.2.3"


def make_wheel(folder: Path) -> str:
    """Write the wheel into `folder`; its SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{PACKAGE}-{VERSION}.dist-info"
    files = {
        f"{PACKAGE}.py": f"VERSION = {VERSION!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text)}\n" for name, text in files.items())
    path = folder / f"{PACKAGE}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(zipfile.ZipInfo(name), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock(folder: Path, sha256: str, *, main: str = PACKAGE) -> Path:
    """A `suite.lock` in `folder`, whose name is the suite's."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / "suite.lock"
    lock.write_text(
        f"# safetyrepro: main {main}\n{PACKAGE}=={VERSION} \\\n    --hash=sha256:{sha256}\n", encoding="utf-8"
    )
    return lock


def _digest(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
