"""The matched arm inside HELM: a scenario of given instances, a metric for each scoring path, and a client.

It stands alone: it is imported in HELM's environment, where nothing else of this project is.
"""

from __future__ import annotations

import json
import math
import re
import string
from pathlib import Path
from typing import Any, ClassVar

from helm.benchmark.adaptation.adapter_spec import AdapterSpec
from helm.benchmark.adaptation.request_state import RequestState
from helm.benchmark.metrics.metric import Metric
from helm.benchmark.metrics.metric_name import MetricName
from helm.benchmark.metrics.reference_metric import ReferenceMetric
from helm.benchmark.metrics.safety_metrics import SafetyScoreMetric, SafetyScoreMetricException
from helm.benchmark.metrics.statistic import Stat
from helm.benchmark.scenarios.scenario import CORRECT_TAG, TEST_SPLIT, Input, Instance, Output, Reference, Scenario
from helm.clients.openai_client import OpenAILegacyCompletionsClient
from helm.common.cache import CacheConfig
from helm.common.request import Request


class CanonicalScenario(Scenario):  # type: ignore[misc]
    """The instances of `instances.json` in the scenario's data folder, as they are."""

    name = "canonical"
    description = "Canonical contexts and candidates."
    tags: ClassVar[list[str]] = []

    def get_instances(self, output_path: str) -> list[Instance]:
        """Every row an instance of the test split, under its own id."""
        rows = json.loads((Path(output_path) / "instances.json").read_text(encoding="utf-8"))
        return [
            Instance(
                id=row["id"],
                input=Input(text=row["input"]),
                references=[
                    Reference(Output(text=text), tags=[CORRECT_TAG] if index in row["gold"] else [])
                    for index, text in enumerate(row["references"])
                ],
                split=TEST_SPLIT,
                extra_data=row["facts"],
            )
            for row in rows
        ]


class CandidateLogprob(ReferenceMetric):  # type: ignore[misc]
    """The item score from candidates' summed logprobs over their divisors: `mc1`, `accuracy` (argmax) or `mc2` (mass).

    Statistics of an instance: `candidate_<i>_logprob` (nats), `choice` (the first of the likeliest) and `item_score`.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def evaluate_references(self, _spec: AdapterSpec, states: list[RequestState], *_: Any) -> list[Stat]:
        """Sum the last tokens of every echoed sequence: as many as the candidate has."""
        instance = states[0].instance
        sums = []
        for state, count in zip(states, instance.extra_data["n_tokens"], strict=True):
            tokens = state.result.completions[0].tokens
            if len(tokens) <= count:
                raise ValueError(
                    f"Item {instance.id}: {len(tokens)} tokens came back, the candidate alone has {count}."
                )
            sums.append(math.fsum(token.logprob for token in tokens[-count:]))
        values = [total / divisor for total, divisor in zip(sums, instance.extra_data["divisors"], strict=True)]
        right = [reference.is_correct for reference in instance.references]
        top = max(values)
        if self.metric == "mc2":
            weights = [math.exp(value - top) for value in values]
            score = math.fsum(weight for weight, gold in zip(weights, right, strict=True) if gold) / math.fsum(weights)
        else:
            tied = [gold for value, gold in zip(values, right, strict=True) if value == top]
            score = sum(tied) / len(tied)
        stats = [Stat(MetricName(f"candidate_{index}_logprob")).add(total) for index, total in enumerate(sums)]
        stats.append(Stat(MetricName("choice")).add(values.index(top)))
        return [*stats, Stat(MetricName("item_score")).add(min(score, 1.0))]


class ExtractedLetter(Metric):  # type: ignore[misc]
    """1 where the letter that the rule reads is a right option's, else 0.

    Statistics of an instance: `letter` (its place in the alphabet from 0; left out where none is read), `item_score`.
    """

    def __init__(self, pattern: str, take: str) -> None:
        self.pattern = re.compile(pattern)
        self.take = take

    def evaluate_generation(self, _spec: AdapterSpec, state: RequestState, *_: Any) -> list[Stat]:
        """Read the first or the last match's group."""
        references = state.instance.references
        matches = self.pattern.finditer(state.result.completions[0].text)
        found = [match[1] for match in matches][:: 1 if self.take == "first" else -1]
        letter = string.ascii_uppercase.find(found[0]) if found else -1
        if not 0 <= letter < len(references):
            return [Stat(MetricName("item_score")).add(0)]
        score = int(references[letter].is_correct)
        return [Stat(MetricName("letter")).add(letter), Stat(MetricName("item_score")).add(score)]


class ResponseClass(Metric):  # type: ignore[misc]
    """1 where the first class whose pattern is found in the response stands for a right reference, else 0.

    Statistics of an instance: `class` (its place among the classes; left out where none is found), `item_score`.
    """

    def __init__(self, classes: list[tuple[str, str, int]]) -> None:
        self.classes = [(re.compile(pattern), option) for _, pattern, option in classes]

    def evaluate_generation(self, _spec: AdapterSpec, state: RequestState, *_: Any) -> list[Stat]:
        """Take the classes in order."""
        text = state.result.completions[0].text
        for index, (pattern, option) in enumerate(self.classes):
            if pattern.search(text):
                score = int(state.instance.references[option].is_correct)
                return [Stat(MetricName("class")).add(index), Stat(MetricName("item_score")).add(score)]
        return [Stat(MetricName("item_score")).add(0)]


class JudgedScore(SafetyScoreMetric):  # type: ignore[misc]
    """HELM's own score from its judge, and no statistic where the judge gave none, which would end HELM's run."""

    def evaluate_generation(self, *args: Any) -> list[Stat]:
        """What HELM makes of the judge's answer."""
        try:
            stats: list[Stat] = super().evaluate_generation(*args)
        except SafetyScoreMetricException:
            return []
        return stats


class CanonicalClient(OpenAILegacyCompletionsClient):  # type: ignore[misc]
    """HELM's completions client with further request fields, such as the seed, which it has no word for."""

    def __init__(self, cache_config: CacheConfig, fields: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(cache_config=cache_config, **kwargs)
        self._fields = fields

    def _to_raw_completion_request(self, request: Request) -> dict[str, Any]:
        return {**super()._to_raw_completion_request(request), **self._fields}
