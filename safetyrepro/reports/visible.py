"""Hostile text made harmless and readable: escaped, cut, what is invisible in it made visible."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

LONGEST = 600
"""Characters of a model's output that the page shows."""
SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>|\[/?(?:INST|SYS)\]|<</?SYS>>"
)
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
MARKED = re.compile(r"[^\x21-\x7e]")


def is_hidden(character: str) -> bool:
    """Whether a character shows nothing itself, or moves what stands around it (bidi controls and the like)."""
    if character in "\n\t ":
        return False
    category = unicodedata.category(character)
    return category in HIDDEN_CATEGORIES or (category == "Zs")


def plain(text: str, longest: int = 120) -> str:
    """Text for a figure's label or an attribute: one line, hidden characters named, cut."""
    shown = "".join(
        f"[U+{ord(character):04X}]" if is_hidden(character) else " " if character in "\n\t" else character
        for character in text[:longest]
    )
    return shown + ("…" if len(text) > longest else "")


def cleaned(text: object) -> Markup:
    """Text in a sentence or a cell, escaped, with hidden characters named."""
    return Markup("").join(_chip(character) if is_hidden(character) else escape(character) for character in str(text))


def shown(text: str) -> Markup:
    """A prompt or an output, escaped, with spaces, line ends, tabs, special tokens and hidden characters visible."""
    parts: list[Markup] = []
    start = 0
    for match in SPECIAL_TOKEN.finditer(text):
        parts += [_marks(text[start : match.start()]), Markup('<b class="tok">{}</b>').format(match.group())]
        start = match.end()
    return Markup("").join([*parts, _marks(text[start:])])


def cut(text: str, chars: int, *, keep: str = "start", longest: int = LONGEST) -> Markup:
    """A long text's start or end, made visible, with a note of how long the whole is."""
    part = text[:longest] if keep == "start" else text[-longest:]
    body = shown(part)
    if chars <= len(part):
        return body
    where = "first" if keep == "start" else "last"
    note = Markup('<span class="cut">{}</span>').format(f"{where} {len(part):,} of {chars:,} characters")
    return Markup("{} {}").format(body, note) if keep == "start" else Markup("{} {}").format(note, body)


def _marks(text: str) -> Markup:
    return Markup("").join(escape(run) if plain_run else _mark(run) for plain_run, run in _runs(text))


def _runs(text: str) -> list[tuple[bool, str]]:
    runs: list[tuple[bool, str]] = []
    start = 0
    for match in MARKED.finditer(text):
        if match.start() > start:
            runs.append((True, text[start : match.start()]))
        runs.append((False, match.group()))
        start = match.end()
    if start < len(text):
        runs.append((True, text[start:]))
    return runs


def _mark(character: str) -> Markup:
    if character == " ":
        return Markup("<i>·</i><wbr>")
    if character == "\n":
        return Markup("<i>⏎</i>\n")
    if character == "\t":
        return Markup("<i>⇥</i>\t")
    return _chip(character) if is_hidden(character) else escape(character)


def _chip(character: str) -> Markup:
    name = unicodedata.name(character, "control character")
    return Markup('<b class="hid" title="{}">U+{}</b>').format(name, f"{ord(character):04X}")
