"""What the canonical configs of a benchmark asked, as fields of a card; and the hash of its items' ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from safetyrepro.analysis.card.fact import given, not_applicable
from safetyrepro.analysis.card.model import DecodingCard
from safetyrepro.config import canonical_sha256

Body = Mapping[str, Any]


def asked(configs: Sequence[Body], source: str) -> dict[str, Any]:
    """Fields of a `BenchmarkCard`.

    Args:
        configs: bodies of canonical configs of one benchmark, as `Config` dumps them.
        source: the file that holds them.
    """
    paths = _distinct(body["scoring"]["path"] for body in configs)
    free = [body for body in configs if body["scoring"]["path"] == "free"]
    likelihood = [body for body in configs if body["scoring"]["path"] == "logprob"]
    generates_nothing = not_applicable("no configuration generates text")
    scores_no_candidates = not_applicable("no configuration scores candidates")
    seeds = {
        "items": _distinct(body["benchmark"]["items"]["seed"] for body in configs),
        "shots": _distinct(body["shots"]["seed"] for body in configs),
        "decoding": _distinct(body["decoding"]["seed"] for body in free),
    }
    return {
        "metric": given(", ".join(_distinct(body["metric"] for body in configs)), source),
        "templates": given(_distinct(body["prompt"]["template"] for body in configs), source),
        "chat_template": given(_distinct(_chat(body["chat_template"]) for body in configs), source),
        "shots": given(tuple(sorted(_distinct(body["shots"]["count"] for body in configs))), source),
        "decoding": given(_decodings(free), source) if free else generates_nothing,
        "seeds": given({name: values for name, values in seeds.items() if values}, source),
        "scoring_path": given(paths, source),
        "candidates": given(_distinct(body["scoring"]["candidate"] for body in likelihood), source)
        if likelihood
        else scores_no_candidates,
        "normalisation": given(_distinct(body["scoring"]["normalisation"] for body in likelihood), source)
        if likelihood
        else scores_no_candidates,
        "extraction": given(_distinct(body["scoring"]["extraction"] for body in free), source)
        if free
        else generates_nothing,
    }


def ids_sha256(ids: Iterable[str]) -> str:
    """SHA-256 of the canonical JSON of the sorted, distinct item ids."""
    return canonical_sha256(sorted(set(ids)))


def _decodings(configs: Sequence[Body]) -> tuple[DecodingCard, ...]:
    found = {
        (body["temperature"], body["top_p"], body["max_tokens"], tuple(body["stop"]))
        for body in (config["decoding"] for config in configs)
    }
    return tuple(
        DecodingCard(temperature=float(heat), top_p=float(top_p), max_tokens=most, stop=stop)
        for heat, top_p, most, stop in sorted(found)
    )


def _chat(body: Body) -> str:
    if not body["enabled"]:
        return "off"
    return "on, no system text" if body["system"] is None else f"on, system text: {body['system']}"


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
