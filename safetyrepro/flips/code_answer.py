"""Where the code is in what a model wrote.

1. A text that begins with an indented line goes on where the prompt ended, up to the first stop.
2. Otherwise, of fenced blocks the first that defines the function asked for, else the first; one that is never closed
   goes to the end. Without a fence, the whole text.
3. If that defines the function (or the problem names none), it is taken from its first line of code on, behind the
   prompt's own imports and functions. Otherwise it goes on where the prompt ended, as in 1.
"""

from __future__ import annotations

import re

STOPS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint", "\n```")
"""Where the continuation of a function ends: HumanEval's own stops, and a closing fence."""
_FENCE = re.compile(r"^[ ]{0,3}```[^\n`]*(?:\n|\Z)", re.MULTILINE)
_FIRST_LINE = re.compile(r"^(?:def|async def|class|import|from|@|[A-Za-z_]\w*\s*=)", re.MULTILINE)


def read_function(text: str, prompt: str, entry: str) -> str | None:
    """A module that defines `entry`, from what was written behind `prompt`; None where nothing was.

    Args:
        text: what the model wrote.
        prompt: the beginning of a module, up to the function's docstring.
        entry: the function's name.
    """
    define = re.compile(rf"^(?:async )?def {re.escape(entry)}\b", re.MULTILINE)
    blocks = [] if _goes_on(text) else _blocks(text)
    written = next((block for block in blocks if define.search(block)), blocks[0] if blocks else text)
    if not written.strip():
        return None
    if define.search(written):
        return f"{prompt.rstrip()}\n\n\n{_from_first_line(written)}"
    ends = [place for stop in STOPS if (place := written.find(stop)) >= 0]
    return prompt + written[: min(ends, default=len(written))]


def read_module(text: str) -> str | None:
    """The code that a model wrote on its own; None where there is none."""
    blocks = _blocks(text)
    written = next((block for block in blocks if _FIRST_LINE.search(block)), blocks[0] if blocks else text)
    return _from_first_line(written) if _FIRST_LINE.search(written) else None


def _goes_on(text: str) -> bool:
    """Whether the first line is a function body's: by two spaces, since many tokenizers begin any text with one."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first.startswith(("  ", "\t")) and not first.lstrip().startswith("```")


def _blocks(text: str) -> list[str]:
    """The contents of fenced blocks, in order."""
    fences = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    closes = [start for start, _ in fences[1::2]] + [len(text)] * (len(fences) % 2)
    return [text[end:close] for (_, end), close in zip(fences[::2], closes, strict=True)]


def _from_first_line(text: str) -> str:
    first = _FIRST_LINE.search(text)
    return text if first is None else text[first.start() :]
