"""Where anybody gets a model, and what a log says of itself: no run behind them."""

from __future__ import annotations

import hashlib

import pytest

from safetyrepro.card.identity import model_identity
from safetyrepro.config import UNVERIFIED
from safetyrepro.crosspkg.importers.helm.disclosed import disclosed as of_helm
from safetyrepro.crosspkg.importers.inspect_ai.disclosed import disclosed as of_inspect
from safetyrepro.engine.catalogue import catalogue


def test_a_catalogues_model_is_found_by_its_weights_wherever_they_lay() -> None:
    entry = catalogue()["smollm2-135m-instruct"]
    for spec_id in ("smollm2-135m-instruct", "/somewhere/SmolLM2.gguf"):
        found = model_identity(spec_id, None, entry.sha256, "plan.json")
        assert found.ids["id"].value == "smollm2-135m-instruct"
        assert found.ids["revision"].value == f"{entry.packages[0].name} {entry.packages[0].version}"
        assert found.licence.value == "Apache-2.0"


def test_a_catalogues_name_on_other_weights_has_no_revision() -> None:
    found = model_identity("smollm2-135m-instruct", None, "0" * 64, "plan.json")
    assert found.ids["id"].state == "given"
    assert found.ids["revision"].state == "not disclosed"


@pytest.mark.parametrize(("revision", "state"), [("a" * 40, "given"), (UNVERIFIED, "unverified")])
def test_a_hub_id_is_given_with_its_commit(revision: str, state: str) -> None:
    found = model_identity("org/model", revision, None, "plan.json")
    assert found.ids["id"].value == "org/model"
    assert found.ids["revision"].state == state


@pytest.mark.parametrize("spec_id", ["/home/somebody/model", "models/model", "../model.gguf", "~/m"])
def test_a_folder_of_one_machine_is_not_disclosed(spec_id: str) -> None:
    found = model_identity(spec_id, None, None, "plan.json")
    assert found.ids["id"].state == "not disclosed"
    assert spec_id not in found.ids["id"].model_dump_json()


def test_what_inspect_says() -> None:
    found = of_inspect(
        {
            "eval": {
                "model_args": {"revision": "abc", "torch_dtype": "bfloat16"},
                "dataset": {"name": "math", "location": "org/math"},
                "scorers": [{"name": "match"}],
                "packages": {"inspect_ai": "0.3.1"},
                "revision": {"commit": "1234"},
                "model_generate_config": {"seed": 7, "max_tokens": 10},
            },
            "plan": {
                "steps": [{"solver": "prompt_template", "params": {"template": "Q"}}, {"solver": "generate"}],
                "config": {"max_tokens": 20, "stop_seqs": ["\n"]},
            },
        }
    )
    assert found == {
        "model_revision": "abc",
        "compute_dtype": "bfloat16",
        "model_arguments": '{"revision": "abc", "torch_dtype": "bfloat16"}',
        "dataset": "org/math",
        "template": "prompt_template, generate",
        "template_sha256": hashlib.sha256(b"Q").hexdigest(),
        "decoding": {"max_tokens": 20, "stop": ["\n"]},
        "seeds": '{"generation": 7}',
        "extraction": "match",
        "software": '{"inspect_ai": "0.3.1"}',
        "code_commit": "1234",
    }


def test_what_helm_says() -> None:
    found = of_helm(
        {"scenario_spec": {"class_name": "a.Scenario", "args": {"subject": "x"}}},
        {"method": "generation", "instructions": "Do.", "max_tokens": 5, "stop_sequences": ["\n"], "random": "1"},
    )
    assert found == {
        "dataset": 'a.Scenario {"subject": "x"}',
        "template": "generation",
        "template_sha256": hashlib.sha256(b'{"instructions": "Do."}').hexdigest(),
        "decoding": {"max_tokens": 5, "stop": ["\n"]},
    }


@pytest.mark.parametrize("header", [{}, {"eval": None, "plan": []}, {"eval": {"scorers": 3, "packages": "x"}}])
def test_a_header_that_says_nothing_discloses_nothing(header: dict[str, object]) -> None:
    assert of_inspect(header) == {}
    assert of_helm(header, {}) == {}
