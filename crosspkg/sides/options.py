"""A listed set of options inside a prompt: their texts in order, and the layout around them."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(
    r"(?:^|\n)[ \t]*(?:choices|options|answer choices|answers)[ \t]*:?[ \t]*\n?[ \t]*\Z", re.IGNORECASE
)
_LINE = re.compile(
    r"(?m)^(?P<open>[ \t]*[\(\[\"'*]{0,3})(?P<label>[A-Z]|\d{1,2})(?P<close>[\)\]\"'*]{0,3}[.:)]?[ \t]+)"
)
_INLINE = re.compile(
    r"(?P<open>(?:(?<=[\s,;:?.])|^)[\(\[\"']{0,2})(?P<label>[A-Z]|\d{1,2})(?P<close>[\)\]\"']{0,2}[.:)]?[ \t]+)"
)
_BULLET = re.compile(r"(?m)^(?P<open>[ \t]*)(?P<label>[-*•])(?P<close>[ \t]+)")
_END = re.compile(r"\n\s*\n|\n(?=[A-Z][\w ]{0,24}:)|\Z")
_LINE_END = re.compile(r"\n|\Z")
PLACE = "\uffff"
"""Stands in a prompt for the options that were taken out."""


@dataclass(frozen=True)
class Options:
    """Options as a prompt lists them."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    layout: str
    """Heading, markers and separators with the labels and texts left out."""
    start: int
    end: int
    """Where they stand in the prompt (characters)."""

    def text_of(self, label: str) -> str | None:
        """The option behind a label such as `B`."""
        return self.texts[self.labels.index(label)] if label in self.labels else None


def find_options(text: str) -> Options | None:
    """The last run of at least two options in `text`, labelled in order (A, B, ... or 1, 2, ...) or as bullets."""
    best: Options | None = None
    for pattern in (_LINE, _INLINE, _BULLET):
        for run in _runs([match for match in pattern.finditer(text) if _is_marker(match)]):
            found = _options(text, run)
            if found is not None and (best is None or found.start > best.end):
                best = found
        if best is not None:
            return best
    return None


def _is_marker(match: re.Match[str]) -> bool:
    marks = match["open"].strip() + match["close"].strip()
    return bool(marks) or match["label"] in "-*•"


def _runs(matches: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Stretches of markers whose labels count up from the first one."""
    run: list[re.Match[str]] = []
    for match in matches:
        if run and _follows(run[-1]["label"], match["label"], len(run)) and _marks(run[-1]) == _marks(match):
            run.append(match)
            continue
        if len(run) > 1:
            yield run
        run = [match] if match["label"] in ("A", "1", "0", "-", "*", "•") else []
    if len(run) > 1:
        yield run


def _marks(match: re.Match[str]) -> tuple[str, str]:
    return match["open"].strip(), match["close"].strip()


def _follows(before: str, label: str, count: int) -> bool:
    if label in "-*•":
        return label == before
    if label.isdigit():
        return before.isdigit() and int(label) == int(before) + 1
    return count < len(string.ascii_uppercase) and label == string.ascii_uppercase[count]


def _options(text: str, run: list[re.Match[str]]) -> Options | None:
    starts = [match.end() for match in run]
    earlier = [text[start : match.start()] for start, match in zip(starts, run[1:], strict=False)]
    last = (_LINE_END if all("\n" not in body.strip() for body in earlier) else _END).search(text, starts[-1])
    end = len(text) if last is None else last.start()
    bodies = [*earlier, text[starts[-1] : end]]
    if any(not body.strip() for body in bodies):
        return None
    texts = [
        body.strip().rstrip(",;").rstrip() if index < len(bodies) - 1 else body.strip()
        for index, body in enumerate(bodies)
    ]
    separators = {body[len(body.rstrip()) :] or _tail(body) for body in bodies[:-1]}
    heading = _HEADING.search(text[: run[0].start()])
    start = run[0].start() if heading is None else heading.start() + (text[heading.start()] == "\n")
    first = run[0]
    layout = (
        f"{text[start : first.start()]}{first['open']}{{label}}{first['close']}{{option}}{'|'.join(sorted(separators))}"
    )
    end -= len(bodies[-1]) - len(bodies[-1].rstrip())
    return Options(tuple(texts), tuple(match["label"] for match in run), layout, start, end)


def _tail(body: str) -> str:
    return body[-1] if body and body[-1] in ",;" else ""
