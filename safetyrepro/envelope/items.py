"""Items of a grid's configs, read once for each data source and shot count."""

from __future__ import annotations

from pathlib import Path

from safetyrepro import benchmarks
from safetyrepro.benchmarks.base import Data
from safetyrepro.config import Config
from safetyrepro.errors import InputError


class Items:
    """Loads and remembers the data of configs; one that failed fails again at once."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._held: dict[str, Data] = {}
        self._failed: dict[str, InputError] = {}

    def of(self, config: Config) -> Data:
        """The data of a config.

        Raises:
            InputError: as `benchmarks.load_data`.
        """
        source = config.benchmark.model_dump_json()
        if source in self._failed:
            raise self._failed[source]
        key = f"{source}{config.shots.model_dump_json()}"
        if key not in self._held:
            try:
                self._held[key] = benchmarks.load_data(config, self._data_dir)
            except InputError as error:
                self._failed[source] = error
                raise
        return self._held[key]
