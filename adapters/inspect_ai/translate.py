"""A cell as a job for Inspect AI.

nominal: the task that inspect_evals ships (`truthfulqa`, `bbq`, `xstest`), our items in its record schema, the
canonical decoding and system text through Inspect's own options. shipped: the same task as it comes, with its own
shuffles and nothing set. matched: the canonical token ids through a task of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.inspect_ai.settings import matched_settings, nominal_settings, task_settings
from safetyrepro.adapters.pace import requests_at_once
from safetyrepro.adapters.record import by_item, candidate_of, divisors
from safetyrepro.benchmarks.base import ClassRule
from safetyrepro.config import JUDGED, Arm

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Item

CHAT = "openai-api/safetyrepro/model"
COMPLETIONS = "openai-api-completions/safetyrepro/model"
TASKS = ("truthfulqa", "bbq", "xstest")
"""What inspect_evals ships, of the benchmarks here."""
MOST_ERRORS = 20
"""One item's error is that item's; at so many, or at all of fewer, Inspect gives the run up. A dead server must not
cost it the seconds that it takes to typeset every traceback."""
ECHO = {"max_tokens": 0, "logprobs": True, "top_logprobs": 1, "extra_body": {"echo": True}}


def translate(cell: Cell) -> Job | Absent:
    """The job of a cell, or why there is none."""
    missing = None if cell.arm is Arm.MATCHED else _missing(cell)
    if missing is not None:
        return Absent(missing)
    if cell.arm is not Arm.MATCHED:
        return _job(cell, _own_task(cell), len(cell.data.items))
    if cell.config.scoring.path == "logprob":
        return _job(cell, _matched_logprob(cell), len(cell.canonical.sequences))
    return _job(cell, _matched_free(cell), len(cell.data.items))


def _missing(cell: Cell) -> str | None:
    """Why Inspect has no task of its own for a cell; None where it has one."""
    chat = cell.arm is Arm.SHIPPED or cell.config.chat_template.enabled
    if cell.benchmark.name not in TASKS:
        return f"inspect_evals ships no {cell.benchmark.title} task"
    if cell.benchmark.name in JUDGED and cell.config.judge is None:
        return "Inspect's XSTest is graded by a judge, and the config names none: set judge to its url and model"
    if cell.benchmark.name in JUDGED and not chat:
        return "Inspect's XSTest begins with a system turn: set chat_template.enabled to true"
    if chat and not cell.model.has_chat_template:
        return (
            f"Inspect asks in chat messages, and {cell.model.name} has no chat template; where the task is one turn, "
            "the nominal arm sends it as a raw prompt"
        )
    return None


def _job(cell: Cell, task: dict[str, Any], requests: int) -> Job:
    payload = {
        **task,
        "generate": {**task["generate"], "max_retries": 0, "max_connections": requests_at_once(cell.model)},
        "fail_on_error": min(len(cell.data.items), MOST_ERRORS),
    }
    settings = {Arm.NOMINAL: nominal_settings, Arm.SHIPPED: task_settings, Arm.MATCHED: matched_settings}[cell.arm]
    return Job(payload, settings(cell), requests, judged="judge" in payload)


def decoding(cell: Cell) -> dict[str, Any]:
    """The canonical decoding under Inspect's names."""
    config = cell.config.decoding
    return {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_tokens": config.max_tokens,
        "stop_seqs": list(config.stop),
        "seed": config.seed,
    }


def _own_task(cell: Cell) -> dict[str, Any]:
    chat, shipped = cell.config.chat_template, cell.arm is Arm.SHIPPED
    # The judged task has a system text of its own.
    own_system = cell.benchmark.name in JUDGED
    system = {} if chat.system is None or own_system else {"system_message": chat.system}
    judge = {} if cell.config.judge is None else {"judge": cell.config.judge.model}
    record = {"truthfulqa": _truthfulqa_record, "bbq": lambda item: item.row, "xstest": _xstest_record}
    return {
        "task": cell.benchmark.name,
        "task_args": _task_args(cell),
        "as_it_comes": shipped,
        "model": CHAT if shipped or chat.enabled else COMPLETIONS,
        "generate": {} if shipped else {**decoding(cell), **system},
        "records": [{"item_id": item.item_id, **record[cell.benchmark.name](item)} for item in cell.data.items],
        **judge,
    }


def _xstest_record(item: Item) -> dict[str, Any]:
    label = "unsafe" if item.category.startswith("contrast_") else "safe"
    return {"prompt": item.question, "label": label, **{name: item.row.get(name) for name in ("type", "focus", "note")}}


def _task_args(cell: Cell) -> dict[str, Any]:
    """Arguments of the task; as it comes it has none but which of its variants is meant."""
    if cell.benchmark.name == "truthfulqa":
        target = {"target": cell.config.metric}
        return target if cell.arm is Arm.SHIPPED else {**target, "shuffle": False}
    return {"shuffle": False} if cell.benchmark.name == "bbq" and cell.arm is Arm.NOMINAL else {}


def _truthfulqa_record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = {"question": item.question}
    for metric in ("mc1", "mc2"):
        options, gold = item.scored(metric)
        labels = [int(index in gold) for index in range(len(options))]
        record[f"{metric}_targets"] = {"choices": list(options), "labels": labels}
    return record


def letter(index: int) -> str:
    """What Inspect calls the option at `index`: A to Z, then 1, 2, ..."""
    return chr(ord("A") + index) if index < 26 else str(index - 25)


def _matched_logprob(cell: Cell) -> dict[str, Any]:
    grouped = by_item(cell.canonical.sequences)
    items = []
    for item in cell.data.items:
        sequences = grouped[item.item_id]
        by = divisors(cell.config, [candidate_of(sequence, None, None) for sequence in sequences])
        _, gold = item.scored(cell.config.metric)
        items.append(
            {
                "id": item.item_id,
                "context": sequences[0].context,
                "gold": [letter(index) for index in gold],
                "gold_indices": list(gold),
                "candidates": [
                    {
                        "text": sequence.candidate,
                        "sequence": sequence.context + sequence.delimiter + sequence.candidate,
                        "ids": list(sequence.ids),
                        "n_context": sequence.n_context,
                        "divisor": divided_by,
                    }
                    for sequence, divided_by in zip(sequences, by, strict=True)
                ],
            }
        )
    return {
        "task": "matched_logprob",
        "metric": cell.config.metric,
        "model": COMPLETIONS,
        "generate": ECHO,
        "items": items,
    }


def _matched_free(cell: Cell) -> dict[str, Any]:
    rule = cell.benchmark.rules[cell.config.scoring.extraction]
    items = {item.item_id: item for item in cell.data.items}
    return {
        "task": "matched_free",
        "model": COMPLETIONS,
        "generate": decoding(cell),
        "rule": {"classes": rule.as_rows()}
        if isinstance(rule, ClassRule)
        else {"pattern": rule.pattern, "take": rule.take},
        "items": [
            {
                "id": prompt.item_id,
                "text": prompt.text,
                "ids": list(prompt.ids),
                "gold": list(cell.benchmark.readings(items[prompt.item_id])),
                "letters": [letter(index) for index in range(len(items[prompt.item_id].options))],
            }
            for prompt in cell.canonical.prompts
        ],
    }
