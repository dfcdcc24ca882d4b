"""`safetyrepro flips`: which items an update makes worse, which signal would have told, and what to do about it."""

from __future__ import annotations

import click

from safetyrepro.cli.flips.analyze import analyze
from safetyrepro.cli.flips.routing import policy, route
from safetyrepro.cli.flips.run import run
from safetyrepro.cli.flips.signals import signals


@click.group()
def flips() -> None:
    """Which items an update makes worse, and which signal would have told."""


for command in (analyze, policy, route, run, signals):
    flips.add_command(command)
