from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyrepro.benchmarks import get, load_data
from safetyrepro.benchmarks.base import Data
from safetyrepro.config import BenchmarkSpec
from safetyrepro.errors import InputError
from tests.benchmarks.configs import make_config
from tests.benchmarks.test_bbq import row, write


def draw(benchmark: str = "truthfulqa", folder: Path | None = None, **fields: Any) -> Data:
    return load_data(make_config(benchmark, **fields), folder)


def ids(items: Any) -> list[str]:
    return [item.item_id for item in items]


def test_items_are_ranked_by_a_hash_that_anybody_can_compute() -> None:
    everything, _ = get("truthfulqa").load(BenchmarkSpec(name="truthfulqa"), None)
    data = draw(shots__pool=0, benchmark__items={"count": 5, "seed": 3})
    ranked = sorted(ids(everything), key=lambda name: hashlib.sha256(f"3:{name}".encode()).hexdigest())
    assert ids(data.items) == ranked[:5]


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["truthfulqa", "bbq"]),
    pool=st.integers(0, 8),
    shots=st.integers(0, 8),
    count=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    shot_seed=st.integers(0, 2**32 - 1),
)
def test_the_pool_is_disjoint_from_the_items_and_does_not_depend_on_counts(
    name: str, pool: int, shots: int, count: int, seed: int, shot_seed: int
) -> None:
    shots = min(shots, pool)
    data = draw(
        name,
        shots={"pool": pool, "count": shots, "seed": shot_seed},
        benchmark__items={"count": count, "seed": seed},
    )
    assert (len(data.items), len(data.pool), ids(data.shots)) == (count, pool, ids(data.pool[:shots]))
    assert not {item.cluster for item in data.items} & {item.cluster for item in data.pool}
    assert len({item.cluster for item in data.pool}) == pool
    other = draw(name, shots={"pool": pool, "count": 0, "seed": shot_seed}, benchmark__items={"count": 1})
    assert ids(other.pool) == ids(data.pool)


def test_a_smaller_draw_is_the_beginning_of_a_larger_one_and_none_takes_all() -> None:
    few, many, rest = (draw("bbq", benchmark__items={"count": n} if n else {}) for n in (10, 30, None))
    assert ids(few.items) == ids(many.items)[:10]
    assert ids(many.items) == ids(rest.items)[:30]
    clusters = {item.cluster for item in rest.pool}
    everything, _ = get("bbq").load(BenchmarkSpec(name="bbq"), None)
    assert set(ids(rest.items)) == {item.item_id for item in everything if item.cluster not in clusters}


def test_the_draw_is_the_same_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from tests.benchmarks.test_draw import draw, ids; import json\n"
        "print(json.dumps([ids(d.items) + ids(d.pool) for d in (draw(), draw('bbq'))]))"
    )
    here = json.loads(json.dumps([ids(d.items) + ids(d.pool) for d in (draw(), draw("bbq"))]))
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == here


def test_too_few_items_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "Age", [row(i) for i in range(60)])
    with pytest.raises(InputError) as caught:
        draw("bbq", tmp_path, benchmark__source="file", benchmark__items={"count": 100})
    for part in ("100 items", "pool of 8", "60 items", "keeps 32 of them back", "28 are left"):
        assert part in str(caught.value)
    with pytest.raises(InputError, match=r"shots\.pool is 16, .* the data hold 15 clusters"):
        draw("bbq", tmp_path, benchmark__source="file", shots__pool=16)
    with pytest.raises(InputError, match=r"all items beside a shot pool of 15: .* 0 are left"):
        draw("bbq", tmp_path, benchmark__source="file", shots__pool=15)


def test_named_items_and_shots() -> None:
    everything, _ = get("bbq").load(BenchmarkSpec(name="bbq"), None)
    wanted = ids([everything[9], everything[0]])
    far = [item for item in everything if item.cluster not in {everything[9].cluster, everything[0].cluster}]
    data = draw("bbq", benchmark__items={"ids": wanted}, shots={"count": 2, "ids": ids([far[7], far[0]])})
    assert ids(data.items) == wanted
    assert ids(data.shots) == ids([far[7], far[0]]) == ids(data.pool[:2])
    assert len(data.pool) == 8
    assert not {item.cluster for item in data.items} & {item.cluster for item in data.pool}
    with pytest.raises(InputError, match=r"benchmark\.items\.ids names 'bbq-Age-99999', .* ids look like 'bbq-Age-0'"):
        draw("bbq", benchmark__items={"ids": ["bbq-Age-99999"]})
    with pytest.raises(InputError, match=r"shots\.ids names 'nope'"):
        draw("bbq", shots={"count": 1, "ids": ["nope"]})
    near = everything[1].item_id
    assert everything[1].cluster == everything[0].cluster
    with pytest.raises(InputError, match=f"names '{near}', which is or is a near copy of .* '{wanted[1]}'"):
        draw("bbq", benchmark__items={"ids": wanted}, shots={"count": 1, "ids": [near]})


def test_hashes_are_computed_checked_and_reported() -> None:
    plain = draw()
    assert (len(plain.sha256), plain.verified) == (64, False)
    assert draw(benchmark__sha256=plain.sha256).verified
    unverified = draw(benchmark__sha256="unverified")
    assert (unverified.sha256, unverified.verified) == (plain.sha256, False)
    wrong = "0" * 64
    with pytest.raises(InputError) as caught:
        draw(benchmark__sha256=wrong)
    assert wrong in str(caught.value)
    assert plain.sha256 in str(caught.value)


def test_shot_pool_of_zero_and_provenance(tmp_path: Path) -> None:
    write(tmp_path, "Age", [row(i) for i in range(4)])
    data = draw("bbq", tmp_path, benchmark__source="file", shots__pool=0)
    assert (len(data.items), data.pool, data.shots) == (4, (), ())
    assert (data.source, data.licence, data.revision) == ("official file bbq", "CC-BY-4.0", None)
    moved = draw("bbq", benchmark__source="file", benchmark__path=str(tmp_path / "bbq"), shots__pool=0)
    assert (ids(moved.items), moved.sha256) == (ids(data.items), data.sha256)
    assert str(tmp_path) not in moved.source
