"""What a grid's file spans, and what it refuses."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from safetyrepro.config import config_id
from safetyrepro.envelope.grid import GridCell, cells, load_envelope, narrowed
from safetyrepro.envelope.plan import cell_tiers, grouped
from safetyrepro.errors import InputError
from tests.envelope.grids import BBQ, DECODING, OWN, SCORING, SHOTS, TEMPLATE, axis, body, envelope

FREE_FORM = ("truthfulqa", "bbq", "toxigen", "xstest")


def own(name: str) -> tuple[GridCell, ...]:
    return cells(load_envelope(OWN / f"{name}.yaml"))


@pytest.mark.parametrize("name", ["reference", "scale-probe", "embedded"])
def test_612_cells(name: str) -> None:
    found = own(name)
    assert len(found) == 612 == 3 * (4 * 36 + 5 * 12)
    assert len({cell.cell_id for cell in found}) == 612
    per = Counter((cell.model.name, cell.config.benchmark.name, cell.config.scoring.path) for cell in found)
    names = {cell.model.name for cell in found}
    assert len(names) == 3
    for model in names:
        assert [per[model, one, "free"] for one in (*FREE_FORM, "crows_pairs")] == [36, 36, 36, 36, 0]
        assert [per[model, one, "logprob"] for one in (*FREE_FORM, "crows_pairs")] == [12] * 5
    # Every level is there as often as every other.
    for one in FREE_FORM:
        here = [cell for cell in found if cell.config.benchmark.name == one]
        assert set(Counter(cell.axes["template"] for cell in here).values()) == {36}
        assert Counter(cell.config.shots.count for cell in here) == {0: 48, 3: 48, 5: 48}
        heat = Counter(cell.config.decoding.temperature for cell in here if cell.config.scoring.path == "free")
        assert heat == {0.0: 36, 0.3: 36, 0.7: 36}


@pytest.mark.parametrize("name", ["reference", "embedded"])
def test_tiers_of_one_model(name: str) -> None:
    found = own(name)
    tiers = cell_tiers(found)
    first = found[0].model.name
    per = Counter(
        (cell.config.benchmark.name, tier) for cell in found if cell.model.name == first for tier in tiers[cell.cell_id]
    )
    for one in FREE_FORM:
        assert [per[one, tier] for tier in ("full", "core", "conservative")] == [48, 27, 4]
    assert [per["crows_pairs", tier] for tier in ("full", "core", "conservative")] == [12, 9, 2]


def test_shards_are_one_for_model_benchmark_template_and_shots() -> None:
    groups = grouped(own("embedded"))
    assert len(groups) == 3 * 5 * 4 * 3
    assert Counter(len(group) for group in groups) == {4: 3 * 4 * 12, 1: 3 * 12}


def test_two_models_share_config_ids_which_are_the_configs_own() -> None:
    found = own("reference")
    by_model: dict[str, list[str]] = {}
    for cell in found:
        by_model.setdefault(cell.model.name, []).append(cell.config_id)
        assert cell.config_id == config_id(cell.config)
    assert len({tuple(ids) for ids in by_model.values()}) == 1


def test_an_axis_of_ones_own_needs_no_code() -> None:
    system = axis("system", {"none": {}, "careful": {"chat_template": {"enabled": True, "system": "Be careful."}}})
    found = cells(envelope(["a"], axes=[TEMPLATE, system], benchmarks=[BBQ]))
    assert [cell.config.chat_template.system for cell in found] == [None, "Be careful."] * 2
    assert found[1].axes == {"template": "minimal", "system": "careful"}


def test_repeats_are_for_what_samples() -> None:
    found = cells(envelope(["a"], repeats=3, benchmarks=[BBQ]))
    for cell in found:
        sampled = cell.config.scoring.path == "free" and cell.config.decoding.temperature > 0
        assert cell.repeats == (3 if sampled else 1)


def test_narrowed() -> None:
    whole = load_envelope(OWN / "embedded.yaml")
    less = narrowed(whole, limit=4, models=["smollm2-nf4"], benchmarks=["bbq"])
    assert {cell.config.benchmark.items.count for cell in cells(less)} == {4}
    assert len(cells(less)) == 48
    with pytest.raises(InputError, match="--model names 'x'; the envelope has smollm2-nf4"):
        narrowed(whole, models=["x"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": [TEMPLATE, TEMPLATE]}, "axes: 'template' stands twice"),
        ({"axes": [DECODING]}, "axis decoding: only names axis 'scoring'; there are decoding"),
        ({"benchmarks": [BBQ, BBQ]}, "benchmarks: 'bbq' stands twice"),
        ({"benchmarks": [{**BBQ, "levels": {"template": ["long"]}}]}, "names level 'long' of template; it has minimal"),
        ({"config": {"models": []}}, "config changes 'models', which is not a level's to change"),
        ({"repeats": 0}, "repeats is 0, it should be greater than or equal to 1"),
        ({"strange": 1}, "unknown key 'strange'; known here: about, axes"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(_without_aliases(body(["a"], **changes)), encoding="utf-8")
    with pytest.raises(InputError, match=message) as refused:
        load_envelope(path)
    assert str(path) in str(refused.value)


def test_a_grid_without_axes_has_a_cell_a_benchmark() -> None:
    assert len(cells(envelope(["a"], axes=[], benchmarks=[BBQ]))) == 1


def _without_aliases(value: Any) -> str:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(value, Dumper=Plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"axes": [axis("t", {"a": {}, "b": {}})]},
            "levels t=a and t=b are the same config",
        ),
        (
            {"axes": [axis("t", {"hot": {"decoding": {"temperature": 9}}})]},
            "benchmark bbq, levels t=hot: decoding.temperature is 9: Input should be less than or equal to 2",
        ),
        ({"axes": [axis("t", {"odd": {"decoding": {"heat": 1}}})]}, "levels t=odd: decoding.heat is 1: Extra inputs"),
        ({"axes": [axis("t", {"odd": {"shots": {"count": 9}}})]}, "count is 9, the pool holds 8"),
        (
            {"axes": [axis(f"a{n}", {str(k): {} for k in range(20)}) for n in range(4)]},
            "its axes span up to 160,000 cells, the most is 100,000",
        ),
    ],
)
def test_grids_that_are_no_grids(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        cells(envelope(["a"], benchmarks=[BBQ], **changes))


def test_axis_definitions_of_the_tests_are_crossed() -> None:
    found = cells(envelope(["a", "b"], axes=[TEMPLATE, SHOTS, SCORING, DECODING]))
    assert len(found) == 2 * (2 * 2 * 3 + 2 * 2)
