"""A matplotlib figure as an `<svg>` element that can stand in any page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_svg(figure: Figure, name: str) -> str:
    """The figure without date, XML head, style that leaks into the page, or fixed size.

    Args:
        figure: the figure; matplotlib escapes its labels.
        name: prefix of the element's ids, which have to be its own in the page.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    body = buffer.getvalue()
    body = body[body.index("<svg") :]
    body = re.sub(r"<style type=\"text/css\">.*?</style>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    for before in (' id="', "url(#", 'href="#'):
        body = body.replace(before, f"{before}{name}-")
    for size in ("width", "height"):
        body = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", body, count=1)
    return body
