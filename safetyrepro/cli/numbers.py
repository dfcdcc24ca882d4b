"""Numbers as options: click's own ranges let NaN through, which no comparison refuses."""

from __future__ import annotations

import math

import click


def finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """A callback for options of numbers.

    Raises:
        click.BadParameter: the number is NaN or infinite.
    """
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", ctx=context, param=option)
    return value
