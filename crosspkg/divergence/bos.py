"""The token that opens a sequence: twice, missing, or put there by the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair
from safetyrepro.crosspkg.sides.exchange import Ids

Kind = Literal["bos.double", "bos.missing", "bos.server_side"]
USUAL = frozenset({0, 1, 2, 3, 11, 50_256, 100_000, 100_257, 128_000, 151_643, 199_998, 200_000})
"""Ids that open sequences in the vocabularies of common models."""
_SHOWN = 6


def _detect(comparison: Comparison) -> Iterator[Finding]:
    opening = _openings(comparison)
    kinds: dict[Kind, dict[str, None]] = {"bos.double": {}, "bos.missing": {}, "bos.server_side": {}}
    for pair in comparison.pairs:
        if pair.template_differs or comparison.has(pair.item_id, "truncation.sent"):
            continue
        for kind in _kinds(pair, opening):
            templated = comparison.has(pair.item_id, "chat_template.system_prompt", "chat_template.dynamic")
            if not (kind == "bos.server_side" and templated):
                kinds[kind][pair.item_id] = None
    for kind, items in kinds.items():
        if items:
            yield Finding(kind, tuple(items), {"examples": comparison.examples(items, _shown)})


def _openings(comparison: Comparison) -> tuple[int | None, int | None]:
    """The id that opens all sequences of a side and stands nowhere else, as no token of a text would."""
    seen = [pair.seen for pair in comparison.pairs if pair.seen is not None]
    inside = {token for both in seen for ids in both for token in ids[_run(ids) :]}
    found = []
    for side in (0, 1):
        firsts = {ids[side][0] for ids in seen}
        alone = len(firsts) == 1 and not firsts & inside
        found.append(next(iter(firsts)) if alone and (len(seen) > 1 or min(firsts) in USUAL) else None)
    return found[0], found[1]


def _kinds(pair: Pair, opening: tuple[int | None, int | None]) -> list[Kind]:
    if pair.seen is None:
        return _from_text(pair)
    a, b = pair.seen
    if a == b:
        return _from_counts(pair)
    if pair.bodies_agree and _client_decides(pair):
        return ["bos.server_side"]
    run_a, run_b = _run(a), _run(b)
    exact = a[run_a:] == b[run_b:] and a[0] == b[0]
    if run_a != run_b and a[0] == b[0] and (exact or opening[0] == opening[1] == a[0]):
        return ["bos.double"]
    for one, other, first, second in ((a, b, *opening), (b, a, *opening[::-1])):
        run = _run(one)
        alone = first == one[0] != other[0] and (
            one[run : run + 1] == other[:1] or (first in USUAL and second not in USUAL)
        )
        if one[run:] == other or alone:
            return ["bos.missing"] if run == 1 else ["bos.double", "bos.missing"]
    return ["bos.server_side"] if _server_changed(pair, a, b) else []


def _from_text(pair: Pair) -> list[Kind]:
    """Without ids: the tokens that the clients wrote as text."""
    if not pair.texts_known:
        return []
    a, b = pair.a.anatomy.n_bos, pair.b.anatomy.n_bos
    if a == b:
        return _from_counts(pair)
    return ["bos.double"] if max(a, b) > 1 else ["bos.missing"]


def _from_counts(pair: Pair) -> list[Kind]:
    """The same as far as it was logged, and one server counted one token more."""
    counts = (pair.a.prompt_tokens, pair.b.prompt_tokens)
    if pair.bodies_agree and None not in counts and abs((counts[0] or 0) - (counts[1] or 0)) == 1:
        return ["bos.server_side"]
    return []


def _client_decides(pair: Pair) -> bool:
    """Whether the body leaves no room for the server: it holds token ids, or says who adds special tokens."""
    if pair.a.sent_ids is not None:
        return True
    flags = (pair.a.settings.get("add_special_tokens"), pair.b.settings.get("add_special_tokens"))
    return flags[0] is not None and flags[0] == flags[1]


def _server_changed(pair: Pair, a: Ids, b: Ids) -> bool:
    """The same body and other tokens that no candidate's boundary explains."""
    if not pair.bodies_agree or pair.a.path != pair.b.path:
        return False
    return a[1:] == b[1:] or pair.a.path == "free"


def _run(ids: Ids) -> int:
    """How often the first id stands at the start."""
    return next((i for i, token in enumerate(ids) if token != ids[0]), len(ids))


def _shown(pair: Pair) -> dict[str, object]:
    if pair.seen is None or pair.seen[0] == pair.seen[1]:
        return {
            "a": {"written": pair.a.anatomy.n_bos, "prompt_tokens": pair.a.prompt_tokens},
            "b": {"written": pair.b.anatomy.n_bos, "prompt_tokens": pair.b.prompt_tokens},
        }
    return {"a": list(pair.seen[0][:_SHOWN]), "b": list(pair.seen[1][:_SHOWN])}


DETECTOR = Detector(
    "bos",
    ("bos.double", "bos.missing", "bos.server_side"),
    "the first token ids that the model saw; equal bodies of which the servers made other tokens",
    _detect,
)
