"""Which items a config evaluates and which it keeps for shots: by hash ranks, the same on every machine.

Items are ranked by the SHA-256 of `seed:item_id`, and the first ones are taken, so a draw of 50 is the first half of
a draw of 100 and no library's random generator is involved. The shot pool is reserved before that, from `shots.seed`
and `shots.pool` alone: one item out of each of the first clusters, ranked in the same way. The other items of those
clusters are left out altogether, since they are near copies of a shot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Benchmark, Data, Item
from safetyrepro.benchmarks.source import hub_commit
from safetyrepro.config import UNVERIFIED
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.config import BenchmarkSpec, Config, ShotSpec

POCKET = "pocket"
"""How the source of our own items begins."""
_SHOWN_IDS = 5


def load_data(config: Config, data_dir: Path | None) -> Data:
    """Load a config's benchmark, check its hash, reserve the shot pool and draw the items.

    Args:
        config: The canonical config.
        data_dir: Folder of official files (docs/data.md); needed for `source: file`.

    Raises:
        InputError: data that is missing, malformed, of another hash, or too small for items and pool; unknown ids.
    """
    from safetyrepro.benchmarks import get

    benchmark = get(config.benchmark.name)
    spec = config.benchmark
    if spec.source == "hub":
        if benchmark.hub_repository is None:
            raise InputError(
                f"benchmark.source is 'hub', and no hub data set holds {benchmark.title} as published: set it to "
                "'file' and get the official file (docs/data.md)."
            )
        spec = spec.model_copy(update={"revision": hub_commit(benchmark.hub_repository, spec.revision)})
    source = describe(benchmark, spec)
    everything, sha256 = benchmark.load(spec, data_dir)
    expected = config.benchmark.sha256
    if expected not in (None, UNVERIFIED, sha256):
        raise InputError(
            f"benchmark.sha256 is {expected}, the data read from {source} have {sha256}: take the "
            "file that the config was written for, or change the config (and with it its config_id)."
        )
    pool = _pool(everything, config)
    items = _items(everything, pool, config, source)
    by_id = {item.item_id: item for item in pool}
    shots = pool[: config.shots.count] if config.shots.ids is None else tuple(by_id[i] for i in config.shots.ids)
    return Data(
        benchmark=benchmark.name,
        source=source,
        revision=spec.revision,
        sha256=sha256,
        verified=expected == sha256,
        licence="Apache-2.0" if spec.source == "pocket" else benchmark.licence,
        items=items,
        pool=pool,
        shots=shots,
    )


def describe(benchmark: Benchmark, spec: BenchmarkSpec) -> str:
    """Where the data come from, for people; names no path of one machine."""
    if spec.source == "pocket":
        return f"{POCKET}/{benchmark.name}.jsonl (our own items, not the benchmark)"
    if spec.source == "hub":
        return f"hub data set {benchmark.hub_repository}"
    return benchmark.provenance(spec)


def rank(seed: int, name: str) -> str:
    """The sort key of `name` in the draw of `seed`."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def _named(everything: Iterable[Item], ids: tuple[str, ...], field: str) -> tuple[Item, ...]:
    by_id = {item.item_id: item for item in everything}
    unknown = [name for name in ids if name not in by_id]
    if unknown:
        more = f" and {len(unknown) - _SHOWN_IDS} more" if len(unknown) > _SHOWN_IDS else ""
        raise InputError(
            f"{field} names {', '.join(map(repr, unknown[:_SHOWN_IDS]))}{more}, not among the {len(by_id)} items of "
            f"this data; ids look like {min(by_id)!r}."
        )
    return tuple(by_id[name] for name in ids)


def _pool(everything: tuple[Item, ...], config: Config) -> tuple[Item, ...]:
    shots: ShotSpec = config.shots
    evaluated = _named(everything, config.benchmark.items.ids or (), "benchmark.items.ids")
    chosen = _named(everything, shots.ids or (), "shots.ids")
    taken = {item.cluster: item.item_id for item in evaluated}
    for item in chosen:
        if item.cluster in taken:
            raise InputError(
                f"shots.ids names {item.item_id!r}, which is or is a near copy of the evaluated item "
                f"{taken[item.cluster]!r}: choose shots from other clusters."
            )
    used = taken.keys() | {item.cluster for item in chosen}
    first: dict[str, Item] = {}
    for item in sorted(everything, key=lambda item: rank(shots.seed, item.item_id)):
        if item.cluster not in used:
            first.setdefault(item.cluster, item)
    wanted = shots.pool - len(chosen)
    if wanted > len(first):
        raise InputError(
            f"shots.pool is {shots.pool}, one item from each of as many clusters; the data hold "
            f"{len(first) + len(chosen)} clusters that no evaluated item is in: lower shots.pool."
        )
    clusters = sorted(first, key=lambda cluster: rank(shots.seed, cluster))
    return chosen + tuple(first[cluster] for cluster in clusters[:wanted])


def _items(everything: tuple[Item, ...], pool: tuple[Item, ...], config: Config, source: str) -> tuple[Item, ...]:
    subset = config.benchmark.items
    if subset.ids is not None:
        return _named(everything, subset.ids, "benchmark.items.ids")
    reserved = {item.cluster for item in pool}
    free = [item for item in everything if item.cluster not in reserved]
    if not free or (subset.count or 0) > len(free):
        kept = len(everything) - len(free)
        asked = "all items" if subset.count is None else f"{subset.count} items"
        raise InputError(
            f"benchmark.items.count asks for {asked} beside a shot pool of {len(pool)}: {source} holds "
            f"{len(everything)} items, the pool keeps {kept} of them back (whole clusters), {len(free)} are left; "
            "lower benchmark.items.count or shots.pool."
        )
    return tuple(sorted(free, key=lambda item: rank(subset.seed, item.item_id))[: subset.count])
