"""The one way in which all pages are rendered: from our own templates, escaped, with every name known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2


def environment(finalize: Callable[[Any], Any], *, autoescape: bool = True) -> jinja2.Environment:
    """An environment over the package's templates.

    Args:
        finalize: what every printed value goes through.
        autoescape: off for a format with an escaping of its own, which is then `finalize`'s to do.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=autoescape,  # noqa: S701 - see the argument
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
