"""Item scores of benchmarks whose items have options, from candidates' log-likelihoods or from generated text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from safetyrepro.benchmarks.base import ClassRule, ExtractionRule, Rule, Score
from safetyrepro.benchmarks.extraction import extract, letters


def normalised(logprobs: Sequence[float | None], divisors: Sequence[float]) -> list[float] | Score:
    """Each candidate's summed logprob over its divisor, or why there is none.

    Args:
        logprobs: Summed logprob of each candidate in nats; None where a suite got none.
        divisors: What each is divided by: 1, or its number of characters, bytes or tokens.

    Returns:
        The values, or a score without a value: status `missing` for a logprob that was not given, `undefined` for one
        that is no number, and for a divisor that is not over 0.

    Raises:
        ValueError: the two lengths differ.
    """
    values = []
    for index, (logprob, divisor) in enumerate(zip(logprobs, divisors, strict=True)):
        if logprob is None:
            return Score(None, "missing", f"candidate {index} has no logprob")
        if math.isnan(logprob) or logprob == math.inf or not divisor > 0:
            return Score(None, "undefined", f"candidate {index} has logprob {logprob} over {divisor}")
        values.append(logprob / divisor)
    return values


def best_candidate(values: Sequence[float], gold: Sequence[int]) -> Score:
    """1 where the likeliest candidate is right, 0 where it is not.

    A tie for the first place scores the share of right ones among the tied: the expected score of breaking it at
    random. The choice is then the first of them.
    """
    top = max(values)
    tied = [index for index, value in enumerate(values) if value == top]
    value = sum(index in gold for index in tied) / len(tied)
    reason = f"{len(tied)} candidates tie for the first place" if len(tied) > 1 else None
    return Score(value, "ok", reason, choice=tied[0])


def mass_on_gold(values: Sequence[float], gold: Sequence[int]) -> Score:
    """Softmax mass on the right candidates, in [0, 1]; the choice is the likeliest candidate (the first of a tie)."""
    top = max(values)
    if top == -math.inf:
        return Score(None, "undefined", "every candidate has logprob -inf")
    weights = [math.exp(value - top) for value in values]
    right = math.fsum(weights[index] for index in gold)
    return Score(min(right / math.fsum(weights), 1.0), "ok", choice=values.index(top))


def read_text(
    rule: Rule, text: str, n_options: int, gold: Sequence[int], finish_reason: str | None
) -> tuple[Score, str | None]:
    """1 where what `rule` reads is right, else 0, and what it read."""
    if isinstance(rule, ClassRule):
        return read_class(rule, text, gold)
    return read_letter(rule, text, n_options, gold, finish_reason)


def read_class(rule: ClassRule, text: str, gold: Sequence[int]) -> tuple[Score, str | None]:
    """1 where the response's class stands for a right option, else 0; a text of no class scores 0 and says so.

    A response that was cut at its limit has the class of what there is of it.
    """
    for response in rule.classes:
        if re.search(response.pattern, text):
            return Score(float(response.option in gold), "ok", choice=response.option), response.label
    labels = ", ".join(response.label for response in rule.classes)
    return Score(0.0, "unparsed", f"the {rule.name} rule finds none of: {labels}"), None


def read_letter(
    rule: ExtractionRule, text: str, n_options: int, gold: Sequence[int], finish_reason: str | None
) -> tuple[Score, str | None]:
    """1 where the letter that `rule` reads is right, else 0; a text without one scores 0 and says so."""
    read = extract(rule, text, n_options, finish_reason)
    if read.letter is None:
        span = f"{letters(n_options)[0]} to {letters(n_options)[-1]}"
        cut = ", and the text was cut at its limit" if read.status == "truncated" else ""
        return Score(0.0, read.status, f"the {rule.name} rule reads no letter from {span}{cut}"), None
    choice = letters(n_options).index(read.letter)
    return Score(float(choice in gold), "ok", choice=choice), read.letter
