"""Surface features of an answer: what a judge may count instead of reading."""

from __future__ import annotations

import re

FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s", re.MULTILINE)
LIST = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")


def surface(text: str) -> dict[str, int]:
    """Length in characters; headings, list entries and bold stretches outside code; code blocks."""
    prose = FENCE.sub(" ", text)
    return {
        "length": len(text),
        "headings": len(HEADING.findall(prose)),
        "lists": len(LIST.findall(prose)),
        "bold": len(BOLD.findall(prose)),
        "code": len(FENCE.findall(text)),
    }
