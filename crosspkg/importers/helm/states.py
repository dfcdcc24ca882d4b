"""From HELM's request states to records: the requests of one instance and trial make one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from safetyrepro.crosspkg.importers.base import decoding_label
from safetyrepro.crosspkg.importers.chat import as_chat
from safetyrepro.crosspkg.importers.helm.statistics import InstanceKey, group_of, perturbation_of
from safetyrepro.crosspkg.importers.values import clean, finite, mapping, sequence, text_of, whole
from safetyrepro.records import Candidate

State = Mapping[str, Any]
_CALIBRATION = "calibration"
_BLOCKED = "content blocked"


def key_of(state: State) -> InstanceKey:
    """Which instance and trial a request belongs to."""
    instance = mapping(state.get("instance"))
    trial = whole(state.get("train_trial_index")) or 0
    name = text_of(instance.get("id"))
    if name is None:
        # Without an id an instance is known by its text alone.
        name = f"text-{hashlib.sha256((text_of(instance.get('input')) or '').encode()).hexdigest()[:16]}"
    return name, perturbation_of(instance), trial


def by_instance(states: Iterator[State]) -> Iterator[tuple[InstanceKey, list[State]]]:
    """The requests of an instance together; HELM writes them one after the other."""
    key: InstanceKey | None = None
    together: list[State] = []
    for state in states:
        found = key_of(state)
        if key is not None and found != key:
            yield key, together
            together = []
        key = found
        together.append(state)
    if key is not None:
        yield key, together


def group(state: State) -> str:
    """The split of a request's instance."""
    instance = mapping(state.get("instance"))
    return group_of(instance.get("split"), instance.get("sub_split"), perturbation_of(instance))


def facts(states: Sequence[State], statistics: Mapping[str, float | None]) -> tuple[dict[str, Any], str | None]:
    """What the requests of one instance say of its record, and the error of a request that failed."""
    asked = [state for state in states if state.get("request_mode") != _CALIBRATION] or list(states)
    instance = mapping(asked[0].get("instance"))
    references = [mapping(one) for one in sequence(instance.get("references"))]
    texts = [text_of(mapping(one.get("output")).get("text", one.get("output"))) or "" for one in references]
    right = [index for index, one in enumerate(references) if "correct" in sequence(one.get("tags"))]
    request = mapping(asked[0].get("request"))
    known: dict[str, Any] = {
        "decoding": decoding_label(finite(request.get("temperature"))),
        "shots": whole(asked[0].get("num_train_instances")),
        "gold": tuple(texts[index] for index in right),
        "extra": {"split": text_of(instance.get("split")) or "", "requests": str(len(states))},
    }
    if asked[0].get("prompt_truncated"):
        known["extra"]["prompt_truncated"] = "true"
    separate = any(state.get("reference_index") is not None for state in asked)
    if separate:
        known |= _likelihood(asked, texts, statistics)
    else:
        known |= _generated(asked[0], right)
    failure = next((error for state in asked if (error := _error(state)) is not None), None)
    if failure is not None:
        blocked = failure.lower().startswith(_BLOCKED)
        known |= {"status": "refused" if blocked else "error", "reason": failure}
    elif not any(_completions(state) for state in asked):
        known |= {"status": "missing", "reason": "the log holds no completion for this instance"}
    return known, failure


def _generated(state: State, right: Sequence[int]) -> dict[str, Any]:
    completion = mapping(next(iter(_completions(state)), None))
    response = text_of(completion.get("text"))
    known: dict[str, Any] = {
        "prompt": _prompt(state),
        "response": response,
        "scoring": None if response is None else "free",
        "finish_reason": _finish_reason(completion),
    }
    mapped = mapping(state.get("output_mapping"))
    if mapped:
        letters = list(mapped)
        read = (response or "").strip()
        known["extracted"] = read if read in mapped else None
        known["gold"] = tuple(letters[index] for index in right if index < len(letters))
        if read not in mapped:
            known |= {"status": "unparsed", "reason": f"HELM wants the whole output to be one of {', '.join(letters)}"}
    return known


def _likelihood(
    states: Sequence[State], texts: Sequence[str], statistics: Mapping[str, float | None]
) -> dict[str, Any]:
    prompts = [_prompt(state) for state in states]
    indices = [whole(state.get("reference_index")) for state in states]
    chosen = whole(statistics.get("predicted_index"))
    known: dict[str, Any] = {"scoring": "logprob"}
    if indices != list(range(len(texts))):
        return known
    pieces = [_piece(prompt, text) for prompt, text in zip(prompts, texts, strict=True)]
    if all(piece is not None for piece in pieces):
        known["prompt"] = (prompts[0] or "")[: len(prompts[0] or "") - len(pieces[0] or "")]
        known["candidates"] = tuple(
            Candidate(piece or "", _tail_sum(state, piece or ""), None, len(text), len(text.encode()), None, None)
            for state, piece, text in zip(states, pieces, texts, strict=True)
        )
        if chosen is not None and 0 <= chosen < len(texts):
            known |= {"choice": chosen, "extracted": texts[chosen]}
    return known


def _piece(prompt: str | None, text: str) -> str | None:
    """A reference as it ends its prompt, with the space that HELM puts before it."""
    if prompt is None or not prompt.endswith(text):
        return None
    return f" {text}" if prompt.endswith(f" {text}") else text


def _tail_sum(state: State, piece: str) -> float | None:
    """Summed logprob of the tokens that make up the prompt's end, where their texts say which those are."""
    completion = mapping(next(iter(_completions(state)), None))
    left, total = piece, 0.0
    for token in reversed(sequence(completion.get("tokens"))):
        text, logprob = text_of(mapping(token).get("text")), finite(mapping(token).get("logprob"))
        if not text or logprob is None or not left.endswith(text):
            return None
        left, total = left[: len(left) - len(text)], total + logprob
        if not left:
            return total if math.isfinite(total) else None
    return None


def _prompt(state: State) -> str | None:
    request = mapping(state.get("request"))
    messages = sequence(request.get("messages"))
    if messages:
        return as_chat(messages)
    parts = sequence(mapping(request.get("multimodal_prompt")).get("media_objects"))
    if parts:
        return clean("\n".join(str(one["text"]) for one in map(mapping, parts) if one.get("text")))
    return text_of(request.get("prompt"))


def _completions(state: State) -> list[Any]:
    return sequence(mapping(state.get("result")).get("completions"))


def _error(state: State) -> str | None:
    result = mapping(state.get("result"))
    return None if result.get("success") is not False else text_of(result.get("error")) or "the request failed"


def _finish_reason(completion: Mapping[str, Any]) -> str | None:
    held = completion.get("finish_reason")
    reason = text_of(held.get("reason") if isinstance(held, dict) else held)
    return None if reason == "unknown" else reason
