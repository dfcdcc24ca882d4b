"""Options that turn a command into a check for CI, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from safetyrepro.cli.outputs import XmlFile

if TYPE_CHECKING:
    from safetyrepro.crosspkg.gate import Verdict

EXIT_FINDING, EXIT_INCONCLUSIVE = 1, 3
F = TypeVar("F", bound=Callable[..., Any])


def gate_options(command: F) -> F:
    """`--fail-on`, `--suppress` and `--junit`."""
    for option in reversed(
        (
            click.option(
                "--fail-on",
                multiple=True,
                metavar="WHAT",
                help="Exit with 1 on spread=POINTS, class=ID, class=any, or drift=POINTS from a baseline; repeatable.",
            ),
            click.option("--suppress", type=click.Path(path_type=Path), help="YAML of accepted classes with reasons."),
            click.option("--junit", type=XmlFile(), help="Write the checks as JUnit XML."),
        )
    ):
        command = option(command)
    return command


def conclude(verdict: Verdict, junit: Path | None, *, quiet: bool) -> int:
    """Write the JUnit file, say on standard error what failed or was not measured, and give the exit code."""
    from safetyrepro.crosspkg.junit import write_junit

    if junit is not None:
        write_junit(junit, verdict)
    for check in verdict.failed:
        click.echo(f"Over the threshold: {check.suite}: {check.message}", err=True)
    accepted = [check for check in verdict.checks if check.failed and check.accepted is not None]
    if not quiet:
        for check in accepted:
            click.echo(f"Accepted: {check.message} ({check.accepted})", err=True)
    for check in verdict.unmeasured:
        click.echo(f"Not measured: {check.suite}: {check.message}", err=True)
    if verdict.failed:
        return EXIT_FINDING
    return EXIT_INCONCLUSIVE if verdict.unmeasured else 0
