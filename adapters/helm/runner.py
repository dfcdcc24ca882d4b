"""Runs one job in HELM: `python -P runner.py JOB_JSON OUT_DIR`, inside the suite's environment.

It registers the gateway as a model deployment, lays out the job's data files and hands its run specs to
`run_benchmarking`; every run of the job leaves HELM's own output in a folder `part-<n>`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

MODEL = "safetyrepro/model"
TOKENIZER = "safetyrepro/tokenizer"
CANONICAL = "safetyrepro_helm_canonical"
CLIENTS = {
    "completions": "helm.clients.openai_client.OpenAILegacyCompletionsClient",
    "chat": "helm.clients.vllm_client.VLLMChatClient",
    "own": f"{CANONICAL}.CanonicalClient",
}
JUDGE = "openai/gpt-4o-2024-05-13"
"""The judge that HELM names; another one answers in its place."""
JUDGED_METRIC = "helm.benchmark.metrics.safety_metrics.SafetyScoreMetric"
REFUSED = ("Error code: 400", "Error code: 413", "Error code: 422", "Content blocked")
"""How HELM tells of a request that somebody did read, and would not answer."""
MOST_SILENT = 20
"""Requests to a judge that has answered nothing: then it is no matter of single items."""
TIMEOUT_SECONDS = 86_400
"""A request may wait for all others; a suite that hangs is ended by whoever runs it."""


def load_canonical() -> ModuleType:
    """Import the file beside this one under a name by which HELM can find its classes."""
    spec = importlib.util.spec_from_file_location(CANONICAL, Path(__file__).with_name("canonical.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[CANONICAL] = module
    spec.loader.exec_module(module)
    return module


def register(job: dict[str, Any]) -> None:
    """Make the gateway known to HELM as one model behind one client."""
    from helm.benchmark import model_deployment_registry as deployments
    from helm.benchmark import model_metadata_registry as models
    from helm.benchmark import tokenizer_config_registry as tokenizers

    token = os.environ["SAFETYREPRO_TOKEN"]
    args: dict[str, Any] = {"base_url": os.environ["SAFETYREPRO_BASE_URL"], "max_retries": 0}
    args["timeout"] = TIMEOUT_SECONDS
    if job["client"] == "chat":
        # This client has an API key of its own, which the header overrides.
        args |= {"vllm_model_name": "model", "default_headers": {"Authorization": f"Bearer {token}"}}
    else:
        args |= {"openai_model_name": "model", "api_key": token}
    if job["client"] == "own":
        args["fields"] = job["fields"]
    metadata = models.get_unknown_model_metadata(MODEL)
    models.register_model_metadata(metadata)
    tokenized = job["max_length"] is not None
    deployments.register_model_deployment(
        deployments.ModelDeployment(
            name=MODEL,
            model_name=MODEL,
            tokenizer_name=TOKENIZER if tokenized else None,
            max_sequence_length=job["max_length"],
            client_spec=deployments.ClientSpec(class_name=CLIENTS[job["client"]], args=args),
        )
    )
    if tokenized:
        folder = {"pretrained_model_name_or_path": os.environ["SAFETYREPRO_TOKENIZER"]}
        tokenizers.register_tokenizer_config(
            tokenizers.TokenizerConfig(
                name=TOKENIZER,
                tokenizer_spec=tokenizers.TokenizerSpec(
                    class_name="helm.tokenizers.huggingface_tokenizer.HuggingFaceTokenizer", args=folder
                ),
                end_of_text_token=job["end_of_text"],
                prefix_token="",
            )
        )


def register_judge() -> None:
    """Put the judge at the job's URL where HELM looks for its own; whoever answers there knows which model is meant."""
    from helm.benchmark import model_deployment_registry as deployments
    from helm.benchmark import model_metadata_registry as models

    token = os.environ["SAFETYREPRO_JUDGE_TOKEN"]
    args = {
        "base_url": os.environ["SAFETYREPRO_JUDGE_URL"],
        "vllm_model_name": "judge",
        "default_headers": {"Authorization": f"Bearer {token}"},
        "max_retries": 0,
        "timeout": TIMEOUT_SECONDS,
    }
    models.register_model_metadata(models.get_unknown_model_metadata(JUDGE))
    client = deployments.ClientSpec(class_name=CLIENTS["chat"], args=args)
    deployments.register_model_deployment(deployments.ModelDeployment(JUDGE, client, JUDGE))


def forgive_judge(items: int) -> None:
    """Leave an item without a score where the judge refuses it, which would end HELM's run; a dead judge still does."""
    from helm.benchmark.annotation import xstest_annotator

    judged = xstest_annotator.score_with_reasoning_with_gpt_and_llama
    outcomes: list[bool] = []

    def score(auto_client: Any, annotator_prompt: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = judged(auto_client=auto_client, annotator_prompt=annotator_prompt)
        except Exception as error:
            said = str(error).replace(JUDGE, "the judge")
            outcomes.append(any(refused in said for refused in REFUSED))
            if not any(outcomes) and len(outcomes) >= min(items, MOST_SILENT):
                sys.exit(f"The judge answered none of {len(outcomes)} requests. {said}")
            return {"prompt_text": annotator_prompt, "gpt_score": None, "gpt_reasoning": None, "refusal": said}
        outcomes.append(True)
        return found

    xstest_annotator.score_with_reasoning_with_gpt_and_llama = score


def give_rows(rows: list[dict[str, Any]]) -> None:
    """Have HELM's XSTest read these rows in place of the hub's."""
    from helm.benchmark.scenarios import xstest_scenario

    xstest_scenario.load_dataset = lambda *_, **__: rows


def stop_retrying() -> None:
    """One attempt a request: HELM's own five wait 150 seconds between them for a server that is gone."""
    from helm.clients import auto_client
    from helm.proxy.retry import get_retry_decorator, retry_if_request_failed

    auto_client.retry_request = get_retry_decorator(
        "Request", max_attempts=1, wait_exponential_multiplier_seconds=0, retry_on_result=retry_if_request_failed
    )


def run_spec(run: dict[str, Any]) -> Any:
    """HELM's run spec: of its own run entry, or of the canonical scenario."""
    if "entry" in run:
        from helm.benchmark.run_spec_factory import construct_run_specs
        from helm.common.object_spec import parse_object_spec

        joint = "," if ":" in run["entry"] else ":"
        [spec] = construct_run_specs(parse_object_spec(f"{run['entry']}{joint}model={MODEL}"))
        spec = replace(spec, metric_specs=[forgiving(metric) for metric in spec.metric_specs])
        return replace(spec, adapter_spec=replace(spec.adapter_spec, max_eval_instances=run["max_eval_instances"]))
    from helm.benchmark.adaptation.adapter_spec import AdapterSpec
    from helm.benchmark.metrics.metric import MetricSpec
    from helm.benchmark.run_spec import RunSpec
    from helm.benchmark.scenarios.scenario import ScenarioSpec

    metric = MetricSpec(class_name=f"{CANONICAL}.{run['metric']['class']}", args=run["metric"]["args"])
    return RunSpec(
        name="canonical",
        scenario_spec=ScenarioSpec(class_name=f"{CANONICAL}.CanonicalScenario", args={}),
        adapter_spec=AdapterSpec(model=MODEL, model_deployment=MODEL, **run["adapter"]),
        metric_specs=[metric],
        groups=["canonical"],
    )


def forgiving(metric: Any) -> Any:
    """The metric, which must not end the run for an item that the judge gave no score."""
    return replace(metric, class_name=f"{CANONICAL}.JudgedScore") if metric.class_name == JUDGED_METRIC else metric


def main(job_path: Path, out_dir: Path) -> None:
    """Run the job at `job_path`; raises where a request fails."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        from helm.benchmark.run import run_benchmarking
        from helm.common.authentication import Authentication
        from helm.common.hierarchical_logger import setup_default_logging

        setup_default_logging()
        load_canonical()
        stop_retrying()
        register(job)
        if "judge" in job:
            register_judge()
            forgive_judge(sum(len(run["rows"]) for run in job["runs"]))
        for number, run in enumerate(job["runs"]):
            part = out_dir / f"part-{number}"
            for name, content in run["files"].items():
                path = part / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            if "rows" in run:
                give_rows(run["rows"])
            run_benchmarking(
                [run_spec(run)],
                auth=Authentication(""),
                url=None,
                local_path=folder,
                num_threads=job["threads"],
                output_path=str(part),
                suite="safetyrepro",
                dry_run=False,
                skip_instances=False,
                cache_instances=False,
                cache_instances_only=False,
                skip_completed_runs=False,
                exit_on_error=True,
                runner_class_name=None,
                disable_cache=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
