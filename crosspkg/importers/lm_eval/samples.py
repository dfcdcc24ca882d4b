"""From a row of a samples file to a record: what was sent, what came back, what counted as right."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from safetyrepro.crosspkg.importers.base import Identity, Notes, Row, config_id, decoding_label, unscored
from safetyrepro.crosspkg.importers.lm_eval.requests import Asked, Request, is_metric_key, read_asked
from safetyrepro.crosspkg.importers.values import clean, finite, number, text_of, whole
from safetyrepro.records import Candidate

INVALID = "[invalid]"
"""What the harness's filters leave where they find no answer."""


@dataclass(frozen=True)
class Context:
    """What is known of all rows of a file."""

    run_id: str
    identity: Identity
    version: str | None
    shots: int | None
    delimiter: str | None
    """What the task puts before a candidate; None where the log does not hold it."""
    configuration: Mapping[str, Any]
    metrics: frozenset[str] | None
    """Names of the recorded metrics; None where there is no results file."""


class RowReader:
    """Reads the rows of one samples file."""

    def __init__(self, context: Context, notes: Notes) -> None:
        self._context, self._notes = context, notes
        self._identities: dict[str, Identity] = {}

    def read(self, row: Mapping[str, Any], number_in_file: int) -> Row:
        """One row.

        Args:
            row: The row as the file holds it.
            number_in_file: From 0; the item's id where the row holds none.
        """
        asked = read_asked(row)
        name = text_of(row.get("filter")) or ""
        doc_id = text_of(row.get("doc_id"))
        if doc_id is None:
            self._notes.say(f"{self._context.identity.task}: rows without a doc_id are numbered as they stand.")
            doc_id = str(number_in_file)
        values = self._values(row)
        if asked.logprobs is not None:
            facts = self._scored(asked, row, finite(row.get("acc")))
        else:
            facts = self._generated(asked, row)
        hashes = {key: str(row[key]) for key in ("doc_hash", "prompt_hash", "target_hash") if row.get(key)}
        if name:
            hashes["filter"] = name
        facts["extra"] = {**facts.get("extra", {}), **hashes}
        return Row(self._facts(name, doc_id, facts), values, name)

    def _facts(self, name: str, doc_id: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        context = self._context
        identity = self._identities.get(name)
        if identity is None:
            with_filter = config_id("lm_eval", {"task": context.identity.task, **context.configuration, "filter": name})
            identity = self._identities[name] = replace(context.identity, config_id=with_filter)
        return unscored(context.run_id, "lm_eval", context.version, identity, doc_id, shots=context.shots, **facts)

    def _values(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """Scores by metric: those that the row names, else those that were recorded, else what looks like one."""
        named = row.get("metrics")
        keys = [key for key in row if is_metric_key(key)]
        if isinstance(named, list):
            chosen = [key for key in keys if key in named]
        elif self._context.metrics is not None:
            chosen = [key for key in keys if key in self._context.metrics]
        else:
            chosen = keys
        for key in keys:
            if key not in chosen:
                self._notes.say(f"{self._context.identity.task}: rows hold {key!r}, which is no metric of the task.")
        values: dict[str, float | None] = {}
        for key in chosen:
            if isinstance(row[key], dict):
                values |= {clean(f"{key}.{part}"): number(one) for part, one in row[key].items()}
                continue
            values[clean(key)] = number(row[key])
            if isinstance(row[key], list):
                self._notes.say(
                    f"{self._context.identity.task}: {key} is a list in every row, which the suite aggregates over the "
                    "whole set (as F1 and perplexity are); no row has a score of its own."
                )
        return values

    def _scored(self, asked: Asked, row: Mapping[str, Any], accuracy: float | None) -> dict[str, Any]:
        sums = asked.logprobs or ()
        facts: dict[str, Any] = {"scoring": "logprob"}
        requests = asked.requests
        held = asked.complete and len(requests) == len(sums) and all(one.continuation is not None for one in requests)
        if not held:
            facts["extra"] = {"logprobs": json.dumps([_or_none(one) for one in sums])}
            if len(requests) == 1 == len(sums):
                facts["prompt"] = requests[0].context
            return {**facts, "gold": self._targets(row)}
        start = _shared_context(requests)
        candidates = tuple(
            self._candidate((request.context or "")[len(start) :], request.continuation or "", one)
            for request, one in zip(requests, sums, strict=True)
        )
        facts |= {"prompt": start, "candidates": candidates}
        known = [one for one in sums if one is not None]
        chosen = None
        if len(candidates) > 1 and len(known) == len(sums) and accuracy is not None:
            chosen = known.index(max(known))
            facts |= {"choice": chosen, "extracted": self._stripped(candidates[chosen].text)}
        right = _right_ones(row.get("target"), len(candidates))
        if right is None:
            facts["gold"] = self._targets(row)
        elif chosen is not None and accuracy in (0.0, 1.0) and (chosen in right) == (accuracy == 1.0):
            facts["gold"] = tuple(self._stripped(candidates[index].text) for index in right)
        else:
            self._notes.say(
                f"{self._context.identity.task}: in some rows the target's number and acc do not go together, so "
                "the log does not tell which candidates count as right there; their gold is null."
            )
        return facts

    def _candidate(self, before: str, continuation: str, logprob: float | None) -> Candidate:
        text = clean(before + continuation)
        bare = self._stripped(text)
        return Candidate(text, _or_none(logprob), None, len(bare), len(bare.encode()), None, None)

    def _stripped(self, text: str) -> str:
        return text.removeprefix(self._context.delimiter or "")

    def _generated(self, asked: Asked, row: Mapping[str, Any]) -> dict[str, Any]:
        response = asked.responses[0] if asked.responses else None
        request = asked.requests[0] if asked.requests else Request(None, None, {})
        extracted = _single(row.get("filtered_resps"))
        facts: dict[str, Any] = {
            "scoring": None if response is None and extracted is None else "free",
            "prompt": request.context,
            "response": response,
            "decoding": decoding_label(_temperature(request.options)),
            "gold": self._targets(row),
            "extracted": None if extracted in (None, INVALID) else clean(extracted or ""),
        }
        if extracted == INVALID:
            facts |= {"status": "unparsed", "reason": "the harness's filter found no answer"}
        if response is None and extracted is None:
            facts |= {"status": "missing", "reason": "the log holds no response for this item"}
        if len(asked.responses) > 1:
            facts["extra"] = {"responses": str(len(asked.responses))}
        return facts

    def _targets(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        target = row.get("target", row.get("truth"))
        held = target if isinstance(target, list) else [target]
        # A blank stands for no target: the answers are in the doc, where each task has them elsewhere.
        return tuple(found for one in held if (found := text_of(one)) is not None and found.strip())


def _single(filtered: Any) -> str | None:
    """The one text that the filters left, in as many lists as they put it; None where there are several or none."""
    while isinstance(filtered, list) and len(filtered) == 1:
        filtered = filtered[0]
    return filtered if isinstance(filtered, str) else None


def _shared_context(requests: Sequence[Request]) -> str:
    """What all contexts begin with: the one context, or the part before the option that each continues."""
    contexts = [request.context or "" for request in requests]
    first, last = min(contexts), max(contexts)
    length = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _right_ones(target: Any, candidates: int) -> tuple[int, ...] | None:
    """The target as numbers of candidates; None where it is something else."""
    found = target
    if isinstance(target, str) and target.strip()[:1] == "[":
        try:
            found = json.loads(target)
        except (ValueError, RecursionError):
            return None
    numbers = [whole(one) for one in (found if isinstance(found, list) else [found])]
    right = tuple(one for one in numbers if one is not None and 0 <= one < candidates)
    return right if right and len(right) == len(numbers) else None


def _temperature(options: Mapping[str, Any]) -> float | None:
    temperature, sampled = finite(options.get("temperature")), options.get("do_sample")
    if temperature is None:
        return 0.0 if sampled is False else None
    # Whether a temperature counts where sampling is off depends on the model class.
    return None if sampled is False and temperature > 0 else temperature


def _or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
