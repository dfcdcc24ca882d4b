"""`safetyrepro suites`: build and list the suites' environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.group()
def suites() -> None:
    """Build and list the suites' environments."""


@suites.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--rebuild", is_flag=True, help="Build anew even what is ready.")
def sync(names: tuple[str, ...], rebuild: bool) -> None:
    """Build the environments of the suites NAME that are not ready (by default every suite at its usual release).

    \b
    Example:
      safetyrepro suites sync
      safetyrepro suites sync helm inspect_ai@0.3.258
    """
    from safetyrepro import adapters
    from safetyrepro.progress import progress
    from safetyrepro.suites import ensure

    wanted = [(name, adapters.lock_of(name)) for name in names or adapters.NAMES]
    with progress() as watch:
        for name, lock in wanted:
            if lock is None:
                if names:
                    click.echo(f"{name}: runs in safetyrepro's own environment, nothing to build")
                continue
            environment = ensure(lock, progress=watch.say, rebuild=rebuild)
            click.echo(f"{name} {environment.version}: ready")
    click.echo("Next: safetyrepro anchor run CONFIG --out DIR")


@suites.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_suites(as_json: bool) -> None:
    """List the suites with version, lock and state.

    \b
    Example:
      safetyrepro suites list
    """
    from safetyrepro.suites.environments import find, folder_of
    from safetyrepro.suites.lockfile import read_lock

    rows: list[dict[str, Any]] = []
    for name, path in [*_locks(), *_other_releases()]:
        lock, environment = read_lock(path), find(path)
        rows.append(
            {
                "name": name,
                "version": lock.version if environment is None else environment.version,
                "lock_sha256": lock.sha256,
                "state": "missing" if environment is None else "ready",
                "bytes": None if environment is None else environment.size,
                "folder": str(folder_of(lock)),
            }
        )
    if as_json:
        click.echo(json.dumps({"suites": rows}, indent=1))
        return
    names, width = (max(len(row[column]) for row in rows) for column in ("name", "version"))
    for row in rows:
        size = "" if row["bytes"] is None else f"{row['bytes'] / 1e6:.0f} MB"
        state = f"{row['lock_sha256'][:16]}  {row['state']:<8}{size:>8}"
        click.echo(f"{row['name']:<{names}} {row['version']:<{width}}  {state}".rstrip())
    missing = [row["name"] for row in rows if row["state"] == "missing" and "@" not in row["name"]]
    if missing:
        click.echo(f"Next: safetyrepro suites sync {' '.join(missing)}")
    else:
        click.echo("Next: safetyrepro anchor run CONFIG --out DIR")


def _locks() -> Iterator[tuple[str, Path]]:
    """The lock files of all suites at their usual release; the native runner has none."""
    from safetyrepro import adapters

    for name in adapters.NAMES:
        lock = adapters.lock_of(name)
        if lock is not None:
            yield name, lock


def _other_releases() -> Iterator[tuple[str, Path]]:
    from safetyrepro import adapters

    for suite in adapters.NAMES:
        for release, lock in adapters.releases(suite).items():
            yield f"{suite}@{release}", lock
