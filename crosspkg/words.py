"""Names of configs, suites and numbers in a report's sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safetyrepro.benchmarks.draw import POCKET
from safetyrepro.benchmarks.toxigen import DEMONSTRATIONS
from safetyrepro.runners import title

TITLES = {
    "truthfulqa": "TruthfulQA",
    "bbq": "BBQ",
    "toxigen": "ToxiGen",
    "crows_pairs": "CrowS-Pairs",
    "xstest": "XSTest",
}
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

Report = Sequence[Mapping[str, Any]]


def subject(entry: Mapping[str, Any]) -> str:
    """A config's name for people: benchmark, metric, and prompt kind."""
    config = entry["config"]
    name = TITLES.get(entry["benchmark"], entry["benchmark"])
    kind = "chat template" if config["chat_template"]["enabled"] else "raw prompt"
    return f"{name}{_not_the_benchmark(entry)}, {config['metric']}, {kind}"


def items_text(entry: Mapping[str, Any], count: int) -> str:
    """How many items of what, for a sentence."""
    kind = kind_of_items(entry)
    return f"{count} {kind.removesuffix('s') if count == 1 else kind} ({entry['config']['metric']})"


def kind_of_items(entry: Mapping[str, Any]) -> str:
    """What a config's items are; those that are not the benchmark's are not called so."""
    name = TITLES.get(entry["benchmark"], entry["benchmark"])
    style = f"{name}-style" if entry["data"]["source"].startswith(POCKET) else name
    return f"{style}{_not_the_benchmark(entry) or ' items'}"


def _not_the_benchmark(entry: Mapping[str, Any]) -> str:
    """What the items are, where they are not those of the benchmark that they are in the form of."""
    source = entry["data"]["source"]
    if source.startswith(POCKET):
        return " pocket items"
    return f" {DEMONSTRATIONS}" if source.startswith(DEMONSTRATIONS) else ""


def count_word(number: int) -> str:
    """A small number in words."""
    return WORDS[number] if number < len(WORDS) else str(number)


def points_text(points: float) -> str:
    """Points of 100 for a sentence: whole from 10 on, one decimal below."""
    return f"{points:.0f}" if abs(points) >= 9.95 else f"{points:.1f}".removesuffix(".0")


def names_text(suites: Sequence[str]) -> str:
    """Suites by name, as a list in a sentence."""
    return and_text([title(suite) for suite in suites])


def and_text(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
