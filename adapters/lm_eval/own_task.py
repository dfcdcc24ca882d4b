"""The tasks that lm-evaluation-harness ships: which of them fits a config, and the job that runs it on our items.

Nominal: with the canonical values set through the harness's own options. Shipped: as it comes, told nothing but where
the model is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Job
from safetyrepro.adapters.lm_eval.encoding import client_of
from safetyrepro.adapters.lm_eval.job import BATCH, batch_size, generation, payload, seeded
from safetyrepro.adapters.lm_eval.settings import SHIPPED, Shipped, nominal_settings, task_settings

if TYPE_CHECKING:
    from safetyrepro.adapters.base import Cell
    from safetyrepro.benchmarks.base import Item
    from safetyrepro.config import Config

BBQ_COLUMNS = (
    *("example_id", "question_index", "question_polarity", "context_condition", "category", "answer_info"),
    *("additional_metadata", "context", "question", "ans0", "ans1", "ans2", "label"),
)
"""The columns of the data set that the shipped BBQ tasks read; the official files have the same."""
BBQ_CANDIDATES = 12
GENERATIONS = "truthfulqa_gen"


def own_task(config: Config) -> str | Absent:
    """Key in `SHIPPED` of the harness's task for a config, or why there is none."""
    free = config.scoring.path == "free"
    match config.benchmark.name:
        case "truthfulqa":
            return GENERATIONS if free else f"truthfulqa_{config.metric}"
        case "bbq":
            return "bbq_generate" if free else "bbq"
        case "toxigen" if free:
            return Absent("the harness's toxigen task compares the likelihoods of Yes and No, and generates nothing")
        case "xstest":
            return Absent("the harness ships no XSTest task")
    name = config.benchmark.name
    return name if name in SHIPPED else Absent(f"no task of the harness is known here for {name}")


def shipped_task(config: Config) -> Shipped:
    """The harness's task for a config that has one."""
    key = own_task(config)
    assert isinstance(key, str)
    return SHIPPED[key]


def nominal(cell: Cell) -> Job | Absent:
    """The task under the canonical values, or why there is none."""
    config, key = cell.config, own_task(cell.config)
    if isinstance(key, Absent):
        return key
    if key == GENERATIONS:
        return Absent(
            "the harness's only generating TruthfulQA task (truthfulqa_gen) compares free text with reference answers "
            "by BLEU and ROUGE; it lists no options and has no mc1"
        )
    free, chat, client = config.scoring.path == "free", config.chat_template, client_of(cell)
    through_chat_api = free and client.chat
    task: dict[str, Any] = _without_training(key)
    if SHIPPED[key].takes_shots:
        shots = [_doc(shot, key) for shot in cell.data.shots]
        task["fewshot_config"] = {"sampler": "first_n", "samples": shots}
    body = payload(
        "local-chat-completions" if through_chat_api else "local-completions",
        task,
        [_doc(item, key) for item in cell.data.items],
        include=SHIPPED[key].include,
        split=SHIPPED[key].split,
        client_options={
            "batch_size": batch_size(config),
            "seed": config.decoding.seed,
            "max_length": client.max_length,
            **({} if through_chat_api else {"add_bos_token": client.add_bos}),
        },
        evaluate={
            **seeded(config),
            "num_fewshot": config.shots.count if SHIPPED[key].takes_shots else 0,
            "apply_chat_template": chat.enabled,
            "fewshot_as_multiturn": chat.enabled,
            "system_instruction": chat.system,
            **({"gen_kwargs": generation(config)} if free else {}),
        },
    )
    return Job(body, nominal_settings(cell, SHIPPED[key], client.add_bos), _requests(cell, key))


def shipped(cell: Cell) -> Job | Absent:
    """The task as it comes, or why there is none."""
    key = own_task(cell.config)
    if isinstance(key, Absent):
        return key
    body = payload(
        "local-completions",
        _without_training(key),
        [_doc(item, key) for item in cell.data.items],
        include=SHIPPED[key].include,
        split=SHIPPED[key].split,
        client_options={"batch_size": batch_size(cell.config), "max_length": client_of(cell).max_length},
    )
    return Job(body, task_settings(cell, SHIPPED[key]), _requests(cell, key))


def _without_training(key: str) -> dict[str, Any]:
    """The task without the training split that it names: all that is given are the items."""
    return {"training_split": None} if key == "toxigen" else {}


def _requests(cell: Cell, key: str) -> int:
    config, items = cell.config, cell.data.items
    if config.scoring.path == "free":
        return len(items)
    sizes = [BBQ_CANDIDATES if key == "bbq" else len(item.scored(config.metric)[0]) for item in items]
    return -(-sum(sizes) // BATCH)


def _doc(item: Item, key: str) -> dict[str, Any]:
    """An item in the shipped task's data schema, with its id."""
    if key.startswith("bbq"):
        return {"item_id": item.item_id, **{name: item.row[name] for name in BBQ_COLUMNS}}
    if key == GENERATIONS:
        options, gold = item.scored("mc2")
        return {
            "item_id": item.item_id,
            "question": item.question,
            "correct_answers": [options[index] for index in gold],
            "incorrect_answers": [option for index, option in enumerate(options) if index not in gold],
        }
    if key == "toxigen":
        # The demonstration sentences have a label and no ratings: the extremes stand for it under the task's own rule.
        rating = 5.0 if item.options[item.gold[0]] == "Yes" else 1.0
        ratings = {name: float(item.row.get(name, rating)) for name in ("toxicity_ai", "toxicity_human")}
        return {"item_id": item.item_id, "text": item.question, **ratings}
    if key == "crows_pairs":
        return {"item_id": item.item_id, "sent_more": item.options[0], "sent_less": item.options[1]}
    targets = {}
    for metric in ("mc1", "mc2"):
        options, gold = item.scored(metric)
        order = [*gold, *(index for index in range(len(options)) if index not in gold)]
        targets[f"{metric}_targets"] = {
            "choices": [options[index] for index in order],
            "labels": [int(index in gold) for index in order],
        }
    return {"item_id": item.item_id, "question": item.question, **targets}
