"""How text was generated: values sent by both sides, a key that one side leaves out, settings that reach nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.finding import Detector, Finding
from safetyrepro.crosspkg.divergence.pair import Pair

SPECIFIC = {
    "temperature": "decoding.temperature",
    "top_p": "decoding.top_p",
    "max_tokens": "decoding.max_tokens",
    "stop": "decoding.stop",
    "seed": "decoding.seed",
}
ALIASES = {"max_completion_tokens": "max_tokens", "max_gen_toks": "max_tokens", "max_new_tokens": "max_tokens"}
ALIASES |= {"until": "stop", "stop_sequences": "stop", "stop_seqs": "stop"}
NOT_DECODING = frozenset(
    {
        "echo",
        "logprobs",
        "top_logprobs",
        "prompt_logprobs",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "add_special_tokens",
        "add_generation_prompt",
        "continue_final_message",
        "truncate_prompt_tokens",
        "store",
        "service_tier",
        "skip_special_tokens",
        "parallel_tool_calls",
        "tool_choice",
        "tools",
        "extra_headers",
    }
)
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "n": (1,),
    "best_of": (1,),
    "stop": ((),),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "top_k": (-1, 0),
    "min_p": (0,),
    "response_format": ({"type": "text"},),
}
"""Values that mean the same as leaving the key out, as the API documents them."""
_CUTS = ("stop", "max_tokens")


def _detect(comparison: Comparison) -> Iterator[Finding]:
    found: dict[str, dict[str, None]] = {}
    values: dict[str, dict[str, dict[str, Any]]] = {}
    for pair in comparison.pairs:
        for name, key, a, b in _differences(pair):
            found.setdefault(name, {})[pair.item_id] = None
            values.setdefault(name, {}).setdefault(key, {"a": a, "b": b})
    for name, items in found.items():
        evidence: dict[str, Any] = {"sent": values[name]}
        if name in ("decoding.top_p", "decoding.seed") and _greedy(comparison, items):
            evidence["note"] = "temperature is 0 on both sides: no output should depend on it"
        if name in ("decoding.max_tokens", "decoding.stop", "decoding.default"):
            evidence["cut"] = _cut_rates(comparison, items)
        cuts = name in ("decoding.max_tokens", "decoding.stop") or set(values[name]) & set(_CUTS)
        yield Finding(name, tuple(items), evidence, undone=_vanishes_when_cut if cuts else None)


def _differences(pair: Pair) -> Iterator[tuple[str, str, Any, Any]]:
    """Class, key and both values."""
    if pair.a.path != "free" or pair.b.path != "free" or not (pair.a.settings_known and pair.b.settings_known):
        return
    a, b = sent(pair.a.settings), sent(pair.b.settings)
    for key in {**a, **b}:
        one, other = a.get(key), b.get(key)
        if _same(one, other):
            continue
        if one is None or other is None:
            neutral = NEUTRAL.get(key, ())
            if not any(_same(other if one is None else one, value) for value in neutral):
                yield "decoding.default", key, one, other
        elif key in SPECIFIC:
            yield SPECIFIC[key], key, one, other


def sent(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Decoding values of a request under one name each; a stop text is a list of one."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        name = ALIASES.get(key, key)
        if name in NOT_DECODING or value is None:
            continue
        if name == "stop":
            value = tuple(sorted([value] if isinstance(value, str) else [str(entry) for entry in value or ()]))
        found[name] = value
    return found


def other_settings(pair: Pair) -> list[str]:
    """Keys that both sent with other values and that no class is for."""
    a, b = sent(pair.a.settings), sent(pair.b.settings)
    return sorted(key for key in a.keys() & b.keys() if key not in SPECIFIC and not _same(a[key], b[key]))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return bool(a == b)


def _greedy(comparison: Comparison, items: Mapping[str, None]) -> bool:
    pairs = [pair for pair in comparison.pairs if pair.item_id in items]
    return all(sent(side.settings).get("temperature") == 0 for pair in pairs for side in (pair.a, pair.b))


def _cut_rates(comparison: Comparison, items: Mapping[str, None]) -> dict[str, str]:
    pairs = [pair for pair in comparison.pairs if pair.item_id in items]
    rates = {}
    for name in ("a", "b"):
        cut = sum(getattr(pair, name).finish_reason == "length" for pair in pairs)
        rates[name] = f"{cut} of {len(pairs)} outputs ended at the limit"
    return rates


def _vanishes_when_cut(pair: Pair) -> bool | None:
    """One output is the other's beginning: cut there, both are read alike."""
    a, b = pair.a.output, pair.b.output
    if a is None or b is None:
        return None
    return a.startswith(b) or b.startswith(a)


_STATED_ELSEWHERE = frozenset(
    [
        "benchmark",
        "suite",
        "suite_version",
        "model",
        "dataset_revision",
        "batch_size",
        "compute_dtype",
        "cached",
        "filter",
    ]
)
_READ = re.compile(
    r"metric|norm|extract|parser|filter|regex|strip|aggregat|weight|average|score|scorer|task|subtask|subject|group"
    r"|category|report|candidate|choices|continuation|options|gold|prompt|tokens?$|timestamp|date$|run|id$|name$|version"
)
"""Names of facts that say how an answer was read or scored, or what was asked: nothing of them is sent."""


def _no_effect(comparison: Comparison) -> Iterator[Finding]:
    names = {name for pair in comparison.pairs for name in pair.a.meta.keys() & pair.b.meta.keys()}
    shown: dict[str, dict[str, Any]] = {}
    items: dict[str, None] = {}
    for name in sorted(names - _STATED_ELSEWHERE):
        key = ALIASES.get(name, name)
        if key not in SPECIFIC and key not in NEUTRAL and name != "fewshot_seed" and _READ.search(name):
            continue
        for pair in comparison.pairs:
            if "metric.weighting" in comparison.found and key not in SPECIFIC:
                break
            a, b = pair.a.meta.get(name), pair.b.meta.get(name)
            if a is None or b is None or _same(a, b) or not _reaches_nobody(pair, name, key):
                continue
            shown.setdefault(name, {"a": a, "b": b})
            items[pair.item_id] = None
    if items:
        yield Finding("decoding.no_effect", tuple(items), {"declared": shown})


def _reaches_nobody(pair: Pair, name: str, key: str) -> bool:
    if not (pair.a.settings_known and pair.b.settings_known):
        return False
    if name == "fewshot_seed":
        return bool(pair.a.anatomy.shots) and pair.a.anatomy.shots == pair.b.anatomy.shots
    a, b = sent(pair.a.settings), sent(pair.b.settings)
    if key in SPECIFIC or key in NEUTRAL or key in a or key in b:
        return _same(a.get(key), b.get(key))
    return pair.bodies_agree and a == b


DETECTOR = Detector(
    "decoding",
    (*SPECIFIC.values(), "decoding.default"),
    "sampling values, limits and stop texts in the requests that generate; keys that one side leaves out",
    _detect,
)
NO_EFFECT = Detector(
    "no_effect",
    ("decoding.no_effect",),
    "declared settings that differ while what was sent does not",
    _no_effect,
)
