"""What a results file of lm-evaluation-harness says of the run besides its rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from safetyrepro.crosspkg.importers.disclosed import decoding, said, seeds, text_sha256
from safetyrepro.crosspkg.importers.lm_eval.results import Results
from safetyrepro.crosspkg.importers.values import mapping, text_of

_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_MACHINE = ("OS: ", "GPU models and configuration: ")


def disclosed(results: Results, task: str) -> dict[str, Any]:
    """The facts of one task's run, by the names that `said` lists."""
    body = results.body
    run, own = mapping(body.get("config")), results.task_config(task)
    options = {**mapping(own.get("generation_kwargs")), **mapping(run.get("gen_kwargs"))}
    version = text_of(mapping(body.get("versions")).get(task))
    chat = body.get("chat_template")
    dataset = [text_of(own.get(name)) for name in ("dataset_path", "dataset_name")]
    return said(
        model_revision=run.get("model_sha") or None,
        compute_dtype=run.get("model_dtype"),
        model_arguments=run.get("model_args"),
        dataset=" ".join(part for part in dataset if part),
        dataset_revision=mapping(own.get("dataset_kwargs")).get("revision"),
        template=None if version is None else f"the task's own, {task} version {version}",
        template_sha256=text_sha256(own.get("doc_to_text")),
        chat_template=None if "chat_template" not in body else "on" if chat else "off",
        decoding=decoding(
            top_p=options.get("top_p"), max_tokens=options.get("max_gen_toks"), stop=options.get("until")
        ),
        seeds=seeds({name.removesuffix("_seed"): run.get(name) for name in _SEEDS}),
        extraction=own.get("filter_list"),
        hardware=_hardware(body.get("pretty_env_info")) or text_of(run.get("device")),
        software={
            name: text_of(version)
            for name, version in (
                ("lm_eval", body.get("lm_eval_version")),
                ("transformers", body.get("transformers_version")),
            )
            if version
        },
        code_commit=body.get("git_hash"),
    )


def _hardware(report: Any) -> str | None:
    """System, processor and accelerator out of the report that PyTorch writes of a machine."""
    if not isinstance(report, str):
        return None
    lines = report.splitlines()
    found = [line.strip() for line in lines if line.startswith(_MACHINE)]
    found += [f"CPU: {after.strip()}" for line, after in pairwise(lines) if line.strip() == "CPU:"]
    return "; ".join(found) or None
