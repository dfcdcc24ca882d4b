"""What benchmarks with options have in common: prompts, candidates and scores of an item with listed options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from safetyrepro.benchmarks import prompts, scoring
from safetyrepro.benchmarks.base import Item, Rule, Score
from safetyrepro.benchmarks.extraction import RULES, letters

if TYPE_CHECKING:
    from safetyrepro.config import Config


class MultipleChoice:
    """Members of `Benchmark` for items that have options; a benchmark replaces those in which it differs."""

    name: str
    rules: Mapping[str, Rule] = RULES
    lettered = True
    """Whether a prompt may list the options with letters."""

    def templates(self) -> tuple[str, ...]:
        """Names of the prompt templates."""
        return prompts.names(self.name)

    def prompt(self, item: Item, shots: Sequence[Item], config: Config) -> str:
        """The user text up to the answer, worked examples in front."""
        return prompts.render(self.name, item, [(shot, self.answer(shot, config)) for shot in shots], config)

    def answer(self, item: Item, config: Config) -> str:
        """The first right option, or its letter where the prompt lists the options."""
        lists = self.lettered and prompts.lists_options(config)
        return letters(len(item.options))[item.gold[0]] if lists else item.options[item.gold[0]]

    def candidates(self, item: Item, config: Config) -> tuple[str, ...]:
        """The metric's options, or their letters."""
        options, _ = item.scored(config.metric)
        return letters(len(options)) if self.lettered and config.scoring.candidate == "letter" else options

    def readings(self, item: Item) -> tuple[str, ...]:
        """The right options' letters."""
        return tuple(letters(len(item.options))[index] for index in item.gold)

    def chance(self, item: Item, config: Config) -> float:
        """The share of right ones among what is scored."""
        options, gold = item.scored(config.metric)
        return len(gold) / len(options)

    def score_logprobs(
        self, item: Item, config: Config, logprobs: Sequence[float | None], divisors: Sequence[float]
    ) -> Score:
        """Whether the likeliest candidate is right; a tie shares the score."""
        values = scoring.normalised(logprobs, divisors)
        return values if isinstance(values, Score) else scoring.best_candidate(values, item.scored(config.metric)[1])

    def score_text(self, item: Item, config: Config, text: str, finish_reason: str | None) -> tuple[Score, str | None]:
        """Whether what the config's rule reads in `text` is right."""
        rule = self.rules[config.scoring.extraction]
        return scoring.read_text(rule, text, len(item.options), item.gold, finish_reason)
