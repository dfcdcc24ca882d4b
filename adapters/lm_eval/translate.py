"""Turns a cell into a job for lm-evaluation-harness.

Matched: a task of our own around the canonical prompts and candidates, which a client sends as the canonical token ids.
Nominal and shipped: a task that the harness ships (`own_task.py`). What became of every canonical value is in the job's
settings (docs/adapters/lm_eval.md says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Job
from safetyrepro.adapters.lm_eval import own_task
from safetyrepro.adapters.lm_eval.job import batch_size, generation, payload, seeded
from safetyrepro.adapters.record import by_item
from safetyrepro.adapters.settings import prompt_effects, settings
from safetyrepro.benchmarks.base import ClassRule
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.canonical import CandidateSequence

METRICS = {"none": "acc", "char": "acc_norm", "byte": "acc_bytes"}
"""The harness's own accuracy for each normalisation that it has."""
SENT = "in the canonical token ids, which are sent as they are"
EXACT = "exact_match"
INVALID = "[invalid]"
"""What the regular-expression filter gives where nothing matches."""


def translate(cell: Cell) -> Job | Absent:
    """The job of a cell, or why the harness has none."""
    if cell.arm is Arm.MATCHED:
        return _matched_logprob(cell) if cell.config.scoring.path == "logprob" else _matched_free(cell)
    return own_task.nominal(cell) if cell.arm is Arm.NOMINAL else own_task.shipped(cell)


def _matched_logprob(cell: Cell) -> Job:
    config, canonical = cell.config, cell.canonical
    normalisation = config.scoring.normalisation
    grouped = by_item(canonical.sequences)
    docs = [
        {
            "item_id": item.item_id,
            "context": grouped[item.item_id][0].context,
            "choices": [sequence.candidate for sequence in grouped[item.item_id]],
            "gold": list(item.scored(config.metric)[1]),
            "divisors": [_divisor(sequence, normalisation) for sequence in grouped[item.item_id]],
        }
        for item in cell.data.items
    ]
    own_metric = METRICS.get(normalisation) if config.metric != "mc2" else None
    task = {
        "task": f"{config.benchmark.name}_{config.metric}_matched",
        "output_type": "multiple_choice",
        "test_split": "test",
        "doc_to_text": "context",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
        "target_delimiter": canonical.sequences[0].delimiter,
        "num_fewshot": 0,
        "metric_list": [{"metric": own_metric or "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1},
    }
    process = None if own_metric else "mass" if config.metric == "mc2" else "argmax"
    sequences = [
        {
            "context": sequence.context,
            "continuation": sequence.delimiter + sequence.candidate,
            "ids": list(sequence.ids),
            "n_context": sequence.n_context,
        }
        for sequence in canonical.sequences
    ]
    body = payload("canonical", task, docs, process_results=process, sequences=sequences, **_told(cell))
    note = "" if own_metric else "computed by the task's own process_results: the harness has no such metric"
    metric = f"{own_metric or 'acc'}, {config.metric}'s definition"
    effects = {**prompt_effects(config, SENT), "metric": (metric, True, note)}
    return Job(body, settings(cell.config, effects), -(-len(sequences) // batch_size(config)))


def _told(cell: Cell) -> dict[str, Any]:
    """What the canonical client and `simple_evaluate` are told."""
    config = cell.config
    options = {"batch_size": batch_size(config), "seed": config.decoding.seed, "max_length": cell.model.max_length}
    return {"client_options": options, "evaluate": seeded(config)}


def _divisor(sequence: CandidateSequence, normalisation: str) -> int:
    """What the task divides a candidate's sum by; counted without the delimiter."""
    match normalisation:
        case "char":
            return max(len(sequence.candidate), 1)
        case "byte":
            return max(len(sequence.candidate.encode()), 1)
        case "token":
            return max(len(sequence.ids) - sequence.n_context, 1)
    return 1


def _matched_free(cell: Cell) -> Job:
    config, rule = cell.config, cell.benchmark.rules[cell.config.scoring.extraction]
    docs = [
        {
            "item_id": item.item_id,
            "context": prompt.text,
            "gold": list(cell.benchmark.readings(item)),
        }
        for item, prompt in zip(cell.data.items, cell.canonical.prompts, strict=True)
    ]
    more: dict[str, Any] = {}
    filters: list[dict[str, Any]] = [{"function": "take_first"}]
    if isinstance(rule, ClassRule):
        more = {"process_results": "response_class", "classes": rule.as_rows()}
        metric = f"acc of the response's class, {config.metric}'s definition"
    else:
        pick = {"function": "regex", "regex_pattern": rule.pattern, "group_select": 0 if rule.take == "first" else -1}
        filters = [{**pick, "fallback": INVALID}, *filters]
        metric = f"exact_match of the letter, {config.metric}'s definition"
    task = {
        "task": f"{config.benchmark.name}_{config.metric}_matched_free",
        "output_type": "generate_until",
        "test_split": "test",
        "doc_to_text": "context",
        "doc_to_target": "gold",
        "num_fewshot": 0,
        "generation_kwargs": generation(config),
        "filter_list": [{"name": rule.name, "filter": filters}],
        "metric_list": [{"metric": free_metric(cell), "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1},
    }
    prompts = [{"text": prompt.text, "ids": list(prompt.ids)} for prompt in cell.canonical.prompts]
    effects = {**prompt_effects(config, SENT), "metric": (metric, True, "")}
    body = payload("canonical", task, docs, prompts=prompts, **more, **_told(cell))
    return Job(body, settings(cell.config, effects), len(docs))


def free_metric(cell: Cell) -> str:
    """The metric that the matched task of generated answers records."""
    return "acc" if isinstance(cell.benchmark.rules[cell.config.scoring.extraction], ClassRule) else EXACT
