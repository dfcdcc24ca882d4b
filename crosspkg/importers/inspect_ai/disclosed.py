"""What the header of an Inspect AI log says of the run besides its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetyrepro.crosspkg.importers.disclosed import decoding, said, seeds, text_sha256
from safetyrepro.crosspkg.importers.values import mapping, sequence, text_of


def disclosed(header: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a log, by the names that `said` lists."""
    run, plan = mapping(header.get("eval")), mapping(header.get("plan"))
    options = {**mapping(run.get("model_generate_config")), **mapping(plan.get("config"))}
    arguments, task = mapping(run.get("model_args")), mapping(run.get("task_args"))
    steps = [mapping(step) for step in sequence(plan.get("steps"))]
    templates = [mapping(step.get("params")).get("template") for step in steps]
    template = next((text for text in templates if isinstance(text, str)), None)
    data = mapping(run.get("dataset"))
    return said(
        model_revision=arguments.get("revision"),
        compute_dtype=arguments.get("torch_dtype") or arguments.get("dtype"),
        quantisation=arguments.get("quantization"),
        model_arguments=arguments,
        dataset=data.get("location") or data.get("name"),
        template=", ".join(text_of(step.get("solver")) or "?" for step in steps),
        template_sha256=text_sha256(template),
        decoding=decoding(
            top_p=options.get("top_p"), max_tokens=options.get("max_tokens"), stop=options.get("stop_seqs")
        ),
        seeds=seeds({"generation": options.get("seed"), "fewshot": task.get("fewshot_seed")}),
        extraction=", ".join(text_of(mapping(one).get("name")) or "?" for one in sequence(run.get("scorers"))),
        software=dict(mapping(run.get("packages"))),
        code_commit=mapping(run.get("revision")).get("commit"),
    )
