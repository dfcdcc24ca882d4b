from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from safetyrepro.benchmarks import get, load_data, names
from safetyrepro.config import Arm, Config, ModelSpec, cell_id, config_id, load_config, model_key
from safetyrepro.errors import InputError

ANCHORS = sorted((Path(__file__).parents[1] / "anchor_configs" / "anchors").glob("*.yaml"))
BASE = """\
# a comment
version: 1
name: base
benchmark:
  name: bbq
  items:
    count: 24
    seed: 0
shots:
  count: 0
  pool: 8
metric: accuracy
models:
  - id: m
    quant: nf4
"""


def load(folder: Path, text: str | bytes) -> Config:
    path = folder / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(path)


@pytest.mark.parametrize("path", ANCHORS, ids=lambda path: path.stem)
def test_every_anchor_loads_and_says_what_it_is_for(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 30
    assert config.prompt.template in get(config.benchmark.name).templates()
    assert all(model.quant == "nf4" for model in config.models)
    if config.benchmark.source == "pocket":
        data = load_data(config, None)
        assert data.verified
        assert len(data.items) >= 24
    if config.benchmark.source == "hub":
        assert (config.benchmark.revision, config.benchmark.sha256) == ("unverified", "unverified")
        assert {model.revision for model in config.models} == {"unverified"}
    if config.chat_template.enabled:
        assert "gemma3-270m" not in {model.id for model in config.models}


def test_anchors_are_distinct_and_complete() -> None:
    configs = [load_config(path) for path in ANCHORS]
    assert len({config_id(config) for config in configs}) == len(configs)
    assert {(config.benchmark.name, config.benchmark.source) for config in configs} == {
        (name, source)
        for name in names()
        for source in ("pocket", "file", "hub")
        if source != "hub" or get(name).hub_repository is not None
    }


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("    seed: 0", "    sed: 0", 8, "unknown key 'benchmark.items.sed'; known here: count, ids, seed"),
        ("    quant: nf4", "    quantt: nf4", 15, "unknown key 'models.0.quantt'; known here: batch_rows, "),
        ("metric: accuracy", "metrik: accuracy", 2, "key 'metric' is missing"),
        ("    count: 24", '    count: "24"', 7, 'benchmark.items.count is "24", it should be a valid integer'),
        ("    count: 24", "    count: yes", 7, "benchmark.items.count is true, it should be a valid integer"),
        ("    count: 24", "    count: 0", 7, "benchmark.items.count is 0, it should be greater than or equal to 1"),
        ("    seed: 0", "    seed: 99999999999999999999", 8, "it should be less than or equal to 4294967295"),
        ("name: bbq", "name: gsm8k", 5, "benchmark.name is \"gsm8k\", it should be 'truthfulqa', 'bbq', 'toxigen', "),
        ("quant: nf4", "quant: fp4", 15, "models.0.quant is \"fp4\", it should be 'nf4', 'int8' or 'none'"),
        ("  - id: m\n    quant: nf4", "  []", 13, "models is []: the list should have at least 1 item"),
        ("version: 1", "version: 2", 2, "version is 2, it should be 1"),
        ("name: base", "name: ../base", 3, 'name is "../base"'),
        # What cannot be together.
        (
            "  count: 0\n  pool: 8",
            "  count: 9\n  pool: 8",
            10,
            "count is 9, the pool holds 8: lower count or raise pool",
        ),
        ("metric: accuracy", "metric: mc1", 12, "metric is 'mc1': bbq has accuracy"),
        ("metric: accuracy", "decoding: {temperature: 0.7}\nmetric: accuracy", 12, "with logprob scoring"),
        ("metric: accuracy", "scoring: {path: free, normalisation: byte}\nmetric: accuracy", 12, "needs logprob"),
        ("metric: accuracy", "chat_template: {system: hello}\nmetric: accuracy", 12, "needs a chat template"),
        ("metric: accuracy", "decoding: {stop: [a, b, c, d, e]}\nmetric: accuracy", 12, "up to four stop strings"),
        ("metric: accuracy", "suites: [helm, helm]\nmetric: accuracy", 12, "names the same one twice"),
        ("metric: accuracy", "arms: [nominall]\nmetric: accuracy", 12, "'shipped', 'nominal' or 'matched'"),
        ("metric: accuracy", "decoding: {temperature: .nan}\nmetric: accuracy", 12, "decoding.temperature is NaN"),
        ("    count: 24", "    count: 24\n    ids: [a]", 6, "give either ids or count, not both"),
        ("    count: 24", "    ids: [a, a]", 7, "ids holds the same id twice"),
        ("  name: bbq", "  name: bbq\n  source: hub", 4, "a hub source needs a revision"),
        ("    quant: nf4", "    quant: nf4\n  - id: m", 13, "the same model with the same numerics twice"),
        # What is no YAML, or more than a config may hold.
        ("name: base", "name: [base", 4, "not valid YAML"),
        ("  name: bbq", "\tname: bbq", 5, "not valid YAML"),
        ("metric: accuracy", "metric: accuracy\nversion: 1", 13, "key 'version' stands twice"),
        ("    seed: 0", "    count: 24", 8, "key 'count' stands twice"),
        ("metric: accuracy", "metric: accuracy\n1: 2", 13, "key 1 is not text"),
        ("metric: accuracy", "metric: &m accuracy\nname: *m", 13, "alias *m: write the value out"),
        ("metric: accuracy", "metric: !!python/object/apply:os.getcwd []", 12, "not valid YAML"),
        ("metric: accuracy", "metric: accuracy\n---\na: 1", 13, "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert old in BASE
    with pytest.raises(InputError) as caught:
        load(tmp_path, BASE.replace(old, new, 1))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'c.yaml'}, line {line}")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "just text",
        b"\xff\xfe",
        "a: \0",
        "a: " + "[" * 400,
        'name: "\\ud800"',
        "name: !!binary aGVsbG8=",
        "name: !!set {a}",
    ],
)
def test_files_that_are_no_config(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert str(tmp_path / "c.yaml") in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path)


def test_a_small_file_cannot_expand(tmp_path: Path) -> None:
    nested = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    with pytest.raises(InputError, match="alias"):
        load(tmp_path, nested)


def test_dates_and_numbers_as_names_stay_text(tmp_path: Path) -> None:
    assert load(tmp_path, BASE.replace("name: base", "name: 2025-01-01")).name == "2025-01-01"


def body() -> dict[str, Any]:
    value = yaml.safe_load(BASE)
    assert isinstance(value, dict)
    return value


def shuffled(value: Any, draw: Any) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: shuffled(value[key], draw) for key in keys}
    return [shuffled(entry, draw) for entry in value] if isinstance(value, list) else value


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_config_id_does_not_depend_on_key_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("order")
    text = yaml.safe_dump(shuffled(body(), data.draw), sort_keys=False)
    assert config_id(load(folder, text)) == config_id(load(folder, BASE))


def config(**sections: Any) -> Config:
    return Config.model_validate_json(json.dumps({**body(), **sections}))


def test_config_id_covers_what_is_measured_and_nothing_else() -> None:
    base = config_id(config())
    assert base == config_id(config(name="other", models=[{"id": "n"}], suites=["helm"], arms=["matched"]))
    assert base == config_id(config(benchmark={**body()["benchmark"], "path": "elsewhere"}))
    assert base == config_id(config(decoding={"temperature": 0}))
    changed = [
        config(benchmark={"name": "bbq", "items": {"count": 25}}),
        config(benchmark={"name": "bbq", "items": {"count": 24, "seed": 1}}),
        config(shots={"count": 1}),
        config(prompt={"template": "role"}),
        config(chat_template={"enabled": True}),
        config(scoring={"candidate": "letter"}),
        config(scoring={"normalisation": "byte"}),
    ]
    assert len({base, *map(config_id, changed)}) == len(changed) + 1
    either = [config(benchmark={"name": "bbq", "categories": names}) for names in (["SES", "Age"], ["Age", "SES"])]
    assert config_id(either[0]) == config_id(either[1])


def test_cell_id_adds_model_numerics_suite_and_arm() -> None:
    one = config()
    model, other = one.models[0], ModelSpec(id="m", quant="none")
    cells = {
        cell_id(one, model, "helm", Arm.MATCHED),
        cell_id(one, other, "helm", Arm.MATCHED),
        cell_id(one, model, "lm_eval", Arm.MATCHED),
        cell_id(one, model, "helm", Arm.NOMINAL),
        cell_id(config(shots={"count": 1}), model, "helm", Arm.MATCHED),
    }
    assert len(cells) == 5
    assert model_key(model) != model_key(other)


def test_ids_are_the_same_on_every_machine() -> None:
    identity = {
        "version": 1,
        "benchmark": {
            "name": "bbq",
            "source": "pocket",
            "revision": None,
            "sha256": None,
            "categories": None,
            "items": {"count": 24, "seed": 0, "ids": None},
        },
        "prompt": {"template": "minimal", "bos": "auto"},
        "shots": {"count": 0, "seed": 0, "pool": 8, "ids": None},
        "chat_template": {"enabled": False, "system": None},
        "decoding": {"temperature": 0, "top_p": 1, "max_tokens": 16, "stop": ["\n"], "seed": 0},
        "scoring": {"path": "logprob", "candidate": "text", "normalisation": "none", "extraction": "strict"},
        "metric": "accuracy",
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    assert config_id(config()) == hashlib.sha256(canonical.encode()).hexdigest()
