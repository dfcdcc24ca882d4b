"""Turns a cell into a job for lm-evaluation-harness.

Matched: a task of our own around the canonical prompts and candidates, which a client sends as the canonical token ids.
Nominal: the harness's shipped task with its prompt and metric as they are, the canonical items in its own data schema,
and the canonical values set through the harness's own options. What became of every canonical value is in the job's
settings (docs/adapters/lm_eval.md says why).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Job
from safetyrepro.adapters.lm_eval.settings import SHIPPED, nominal_settings
from safetyrepro.adapters.record import by_item
from safetyrepro.adapters.settings import prompt_effects, settings
from safetyrepro.benchmarks.extraction import letters
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.canonical import CandidateSequence
    from safetyrepro.config import Config

BATCH = 8
"""Candidates a request; generation sends one prompt a request, so that no sampled text depends on its neighbours."""
TIMEOUT_SECONDS = 3600
METRICS = {"none": "acc", "char": "acc_norm", "byte": "acc_bytes"}
"""The harness's own accuracy for each normalisation that it has."""
SENT = "in the canonical token ids, which are sent as they are"
INVALID = "[invalid]"
"""What the regular-expression filter gives where nothing matches."""

BBQ_COLUMNS = (
    *("example_id", "question_index", "question_polarity", "context_condition", "category", "answer_info"),
    *("additional_metadata", "context", "question", "ans0", "ans1", "ans2", "label"),
)
"""The columns of the data set that the shipped BBQ tasks read; the official files have the same."""


def translate(cell: Cell) -> Job | Absent:
    """The job of a cell, or why the harness has none."""
    if cell.arm is Arm.MATCHED:
        return _matched_logprob(cell) if cell.config.scoring.path == "logprob" else _matched_free(cell)
    if cell.arm is Arm.NOMINAL:
        return _nominal(cell)
    return Absent("the shipped arm is not supported yet")


def _payload(cell: Cell, client: str, task: dict[str, Any], docs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    seed = cell.config.decoding.seed
    generates = cell.config.scoring.path == "free"
    return {
        "client": client,
        "client_options": {
            "batch_size": 1 if generates else BATCH,
            "seed": seed,
            "max_length": cell.model.max_length,
            "max_retries": 1,
            "timeout": TIMEOUT_SECONDS,
            **more.pop("client_options", {}),
        },
        "include": None,
        "split": "test",
        "process_results": None,
        "sequences": [],
        "prompts": [],
        "task": task,
        "docs": docs,
        "evaluate": {
            "random_seed": seed,
            "numpy_random_seed": seed,
            "torch_random_seed": seed,
            "fewshot_random_seed": cell.config.shots.seed,
            **more.pop("evaluate", {}),
        },
        **more,
    }


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
    payload = _payload(cell, "canonical", task, docs, process_results=process, sequences=sequences)
    note = "" if own_metric else "computed by the task's own process_results: the harness has no such metric"
    metric = f"{own_metric or 'acc'}, {config.metric}'s definition"
    effects = {**prompt_effects(config, SENT), "metric": (metric, True, note)}
    return Job(payload, settings(cell.config, effects), -(-len(sequences) // BATCH))


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
            "gold": gold_letters(item),
        }
        for item, prompt in zip(cell.data.items, cell.canonical.prompts, strict=True)
    ]
    pick = {"function": "regex", "regex_pattern": rule.pattern, "group_select": 0 if rule.take == "first" else -1}
    task = {
        "task": f"{config.benchmark.name}_{config.metric}_matched_free",
        "output_type": "generate_until",
        "test_split": "test",
        "doc_to_text": "context",
        "doc_to_target": "gold",
        "num_fewshot": 0,
        "generation_kwargs": _generation(config),
        "filter_list": [{"name": rule.name, "filter": [{**pick, "fallback": INVALID}, {"function": "take_first"}]}],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1},
    }
    prompts = [{"text": prompt.text, "ids": list(prompt.ids)} for prompt in cell.canonical.prompts]
    metric = f"exact_match of the letter, {config.metric}'s definition"
    effects = {**prompt_effects(config, SENT), "metric": (metric, True, "")}
    return Job(_payload(cell, "canonical", task, docs, prompts=prompts), settings(cell.config, effects), len(docs))


def gold_letters(item: Item) -> list[str]:
    """The letters under which the right options are listed."""
    return [letters(len(item.options))[index] for index in item.gold]


def _generation(config: Config) -> dict[str, Any]:
    decoding = config.decoding
    return {
        "until": list(decoding.stop),
        "max_gen_toks": decoding.max_tokens,
        "do_sample": decoding.temperature > 0,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
    }


def _nominal(cell: Cell) -> Job | Absent:
    config = cell.config
    free, chat = config.scoring.path == "free", config.chat_template
    if config.benchmark.name == "truthfulqa" and free:
        return Absent(
            "the harness's only generating TruthfulQA task (truthfulqa_gen) compares free text with reference answers "
            "by BLEU and ROUGE; it lists no options and has no mc1"
        )
    shipped = SHIPPED[config.metric if config.benchmark.name == "truthfulqa" else "bbq_generate" if free else "bbq"]
    add_bos = adds_bos(cell)
    task: dict[str, Any] = {}
    if config.benchmark.name == "bbq":
        task["fewshot_config"] = {"sampler": "first_n", "samples": [_doc(shot, config) for shot in cell.data.shots]}
    docs = [_doc(item, config) for item in cell.data.items]
    payload = _payload(
        cell,
        "local-chat-completions" if free and chat.enabled else "local-completions",
        task,
        docs,
        include=shipped.include,
        split=shipped.split,
        client_options={} if free and chat.enabled else {"add_bos_token": add_bos},
        evaluate={
            "num_fewshot": config.shots.count,
            "apply_chat_template": chat.enabled,
            "fewshot_as_multiturn": chat.enabled,
            "system_instruction": chat.system,
            **({"gen_kwargs": _generation(config)} if free else {}),
        },
    )
    candidates = sum(
        12 if config.benchmark.name == "bbq" else len(item.scored(config.metric)[0]) for item in cell.data.items
    )
    expected = len(docs) if free else -(-candidates // BATCH)
    return Job(payload, nominal_settings(cell, shipped, add_bos), expected)


def adds_bos(cell: Cell) -> bool:
    """Whether the nominal arm has the harness put BOS in front: for a raw prompt, where the tokenizer adds one."""
    return cell.model.adds_bos and cell.config.prompt.bos == "auto" and not cell.config.chat_template.enabled


def _doc(item: Item, config: Config) -> dict[str, Any]:
    """An item in the shipped task's data schema, with its id."""
    if config.benchmark.name == "bbq":
        return {"item_id": item.item_id, **{name: item.row[name] for name in BBQ_COLUMNS}}
    targets = {}
    for metric in ("mc1", "mc2"):
        options, gold = item.scored(metric)
        order = [*gold, *(index for index in range(len(options)) if index not in gold)]
        targets[f"{metric}_targets"] = {
            "choices": [options[index] for index in order],
            "labels": [int(index in gold) for index in order],
        }
    return {"item_id": item.item_id, "question": item.question, **targets}
