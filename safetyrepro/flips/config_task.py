"""A canonical config as a task: the same prompts, options and scores that its comparison has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetyrepro import benchmarks
from safetyrepro.adapters.record import by_item, candidate_of, divisors
from safetyrepro.benchmarks.base import Item, Score
from safetyrepro.canonical import render
from safetyrepro.config import Config, config_id, load_config
from safetyrepro.crosspkg.experiment import narrowed
from safetyrepro.engine.api import Decoding, Tokenizer
from safetyrepro.errors import InputError
from safetyrepro.flips.task import Option, Question


class ConfigTask:
    """`safetyrepro.flips.task.Task` from a canonical config."""

    def __init__(self, config: Config, data_dir: Path | None) -> None:
        """Load the config's items.

        Raises:
            InputError: its data are missing or others, or it samples, so that a flip could be the draw's.
        """
        if config.scoring.path == "free" and config.decoding.temperature > 0:
            raise InputError(
                f"{config.name}: decoding.temperature is {config.decoding.temperature}; versions are compared "
                "greedily, so that a flip is not a draw's: set it to 0."
            )
        self._config = config
        self._benchmark = benchmarks.get(config.benchmark.name)
        self._data = benchmarks.load_data(config, data_dir)
        self._items: dict[str, Item] = {item.item_id: item for item in self._data.items}
        self.name = config.name
        self.config_id = config_id(config)
        chosen = config.decoding
        free = Decoding(max_tokens=chosen.max_tokens, stop=chosen.stop, seed=chosen.seed)
        self.decoding = free if config.scoring.path == "free" else None

    def questions(self, tokenizer: Tokenizer) -> list[Question]:
        """As `Task.questions`.

        Raises:
            InputError: an item cannot be put to this tokenizer, as `safetyrepro.canonical.render` says.
        """
        rendered = render(self._config, self._benchmark, self._data, tokenizer)
        sequences = by_item(rendered.sequences)
        found = []
        for prompt in rendered.prompts:
            item = self._items[prompt.item_id]
            own = sequences.get(prompt.item_id, [])
            candidates = [candidate_of(sequence, None, None) for sequence in own]
            options = tuple(
                Option(candidate.text, sequence.ids[sequence.n_context :], divisor)
                for candidate, sequence, divisor in zip(
                    candidates, own, divisors(self._config, candidates), strict=True
                )
            )
            found.append(
                Question(item.item_id, item.cluster, item.category, self._gold(item), prompt.text, prompt.ids, options)
            )
        return found

    def score_options(self, question: Question, sums: Sequence[float]) -> Score:
        """As `Task.score_options`, by the benchmark's own rule."""
        item = self._items[question.item_id]
        return self._benchmark.score_logprobs(
            item, self._config, list(sums), [option.divisor for option in question.options]
        )

    def score_text(self, question: Question, text: str, finish_reason: str) -> tuple[Score, str | None]:
        """As `Task.score_text`, by the config's extraction rule."""
        return self._benchmark.score_text(self._items[question.item_id], self._config, text, finish_reason)

    def _gold(self, item: Item) -> str:
        if self.decoding is not None:
            return "\n".join(self._benchmark.readings(item))
        options, gold = item.scored(self._config.metric)
        return "\n".join(options[place] for place in gold)


def config_task(path: Path, data_dir: Path | None, limit: int | None) -> ConfigTask:
    """The task of a config file, of its first `limit` items where a limit is given.

    Raises:
        InputError: as `load_config` and `ConfigTask` say.
    """
    return ConfigTask(narrowed(load_config(path), (), (), (), limit), data_dir)
