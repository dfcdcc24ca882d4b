"""A chat template on one path only, a system turn that one side alone has, text of the template that moves."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.hunks import visible
from safetyrepro.crosspkg.divergence.pair import Pair, mask

SHORTEST_TURN = 4
"""Token ids in one block that are taken for a turn which the server's template put in."""
_LONGEST_SHOWN = 600


def _detect(comparison: Comparison) -> Iterator[Finding]:
    applied = comparison.touched(lambda pair: pair.template_differs)
    if applied:
        yield Finding("chat_template.applied", applied, {"examples": comparison.examples(applied, _paths)})
    system = comparison.touched(lambda pair: _system_differs(pair) or _inserted(pair) is not None)
    if system:
        yield Finding("chat_template.system_prompt", system, {"examples": comparison.examples(system, _system_shown)})
    dynamic = comparison.touched(lambda pair: pair.masked or _system_moves(pair) or _replaced(pair) is not None)
    if dynamic:
        yield Finding("chat_template.dynamic", dynamic, {"examples": comparison.examples(dynamic, _moving)})


def _paths(pair: Pair) -> dict[str, str]:
    sides = {}
    for name, exchange in (("a", pair.a), ("b", pair.b)):
        if exchange.messages is not None:
            sides[name] = "messages: " + ", ".join(turn.role for turn in exchange.messages)
        else:
            kind = "prompt in a chat template" if exchange.anatomy.templated else "raw prompt"
            sides[name] = f"{kind}: {visible(exchange.prompt or '', 60)}"
    return sides


def _system_differs(pair: Pair) -> bool:
    a, b = pair.a.anatomy.system, pair.b.anatomy.system
    if a == b or not pair.texts_known or pair.system_in_prompt:
        return False
    if not pair.a.anatomy.templated or not pair.b.anatomy.templated:
        return True
    return " ".join(mask(a or "").split()) != " ".join(mask(b or "").split())


def _system_moves(pair: Pair) -> bool:
    a, b = pair.a.anatomy.system, pair.b.anatomy.system
    return bool(a and b and a != b and mask(a) == mask(b))


def _system_shown(pair: Pair) -> dict[str, Any] | None:
    if _system_differs(pair):
        texts = {"a": pair.a.anatomy.system, "b": pair.b.anatomy.system}
        return {side: None if text is None else text[:_LONGEST_SHOWN] for side, text in texts.items()}
    block = _inserted(pair)
    return None if block is None else {block[0]: f"{len(block[1])} more tokens in the template", "ids": list(block[1])}


def _moving(pair: Pair) -> dict[str, Any] | None:
    if pair.moving:
        return {"a": pair.moving[0][0], "b": pair.moving[0][1]}
    changed = _replaced(pair)
    return None if changed is None else {"a": list(changed[0]), "b": list(changed[1])}


def _codes(pair: Pair) -> list[tuple[str, int, int, int, int]] | None:
    """How the ids of the same turns differ, beyond one leading token; None where there is nothing to compare."""
    if pair.seen is None or pair.a.messages is None or pair.a.messages != pair.b.messages:
        return None
    a, b = pair.seen
    if a == b or a[1:] == b or b[1:] == a:
        return None
    codes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [code for code in codes if code[0] != "equal"]


def _inserted(pair: Pair) -> tuple[str, tuple[int, ...]] | None:
    """The side and the ids of a turn that one server's template put in."""
    codes = _codes(pair)
    if codes is None or pair.seen is None:
        return None
    a, b = pair.seen
    for side, longer, shorter in (("a", a, b), ("b", b, a)):
        more = len(longer) - len(shorter)
        if more < SHORTEST_TURN or longer[0] != shorter[0]:
            continue
        if longer[more:] == shorter:
            return side, longer[:more]
        if len(codes) == 1 and codes[0][0] in ("insert", "delete"):
            _, a1, a2, b1, b2 = codes[0]
            return side, (a[a1:a2] if side == "a" else b[b1:b2])
    return None


def _replaced(pair: Pair) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Ids inside the template that are others on the other side, as a date's would be."""
    codes = _codes(pair)
    if not codes or pair.seen is None:
        return None
    a, b = pair.seen
    if any(name != "replace" or a1 < 1 or a2 >= len(a) for name, a1, a2, _, _ in codes):
        return None
    _, a1, a2, b1, b2 = codes[0]
    return a[a1:a2], b[b1:b2]


DETECTOR = Detector(
    "chat_template",
    ("chat_template.applied", "chat_template.system_prompt", "chat_template.dynamic"),
    "turns or a template's markers on one side only; system turns; dates and run ids in otherwise equal text",
    _detect,
)
