"""What the specification of a HELM run says besides its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetyrepro.crosspkg.importers.disclosed import decoding, said, seeds, text_sha256
from safetyrepro.crosspkg.importers.values import mapping, text_of

_PROMPT = (
    "global_prefix",
    "global_suffix",
    "instructions",
    "input_prefix",
    "input_suffix",
    "reference_prefix",
    "reference_suffix",
    "chain_of_thought_prefix",
    "chain_of_thought_suffix",
    "output_prefix",
    "output_suffix",
    "instance_prefix",
)
"""Settings of an adapter that make the prompt's text."""


def disclosed(spec: Mapping[str, Any], adapter: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run, by the names that `said` lists."""
    scenario = mapping(spec.get("scenario_spec"))
    prompt = {name: adapter[name] for name in _PROMPT if adapter.get(name) is not None}
    arguments = mapping(scenario.get("args"))
    dataset = text_of(scenario.get("class_name"))
    return said(
        model_arguments=None
        if adapter.get("model_deployment") is None
        else {"model_deployment": adapter["model_deployment"]},
        dataset=f"{dataset} {text_of(arguments)}" if dataset and arguments else dataset,
        template=adapter.get("method"),
        template_sha256=text_sha256(json.dumps(prompt, sort_keys=True, ensure_ascii=False)) if prompt else None,
        decoding=decoding(
            top_p=adapter.get("top_p"), max_tokens=adapter.get("max_tokens"), stop=adapter.get("stop_sequences")
        ),
        seeds=seeds({"random": adapter.get("random")}),
    )
