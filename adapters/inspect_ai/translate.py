"""A cell as a job for Inspect AI.

nominal: the task that inspect_evals ships (`truthfulqa`, `bbq`), our items in its record schema, the canonical
decoding and system text through Inspect's own options. matched: the canonical token ids through a task of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetyrepro.adapters.base import Absent, Cell, Job
from safetyrepro.adapters.inspect_ai.settings import matched_settings, nominal_settings
from safetyrepro.adapters.record import by_item, candidate_of, divisors
from safetyrepro.config import Arm

if TYPE_CHECKING:
    from safetyrepro.benchmarks.base import Item

CHAT = "openai-api/safetyrepro/model"
COMPLETIONS = "openai-api-completions/safetyrepro/model"
CONNECTIONS = 4
MOST_ERRORS = 20
"""One item's error is that item's; at so many, or at all of fewer, Inspect gives the run up. A dead server must not
cost it the seconds that it takes to typeset every traceback."""
ECHO = {"max_tokens": 0, "logprobs": True, "top_logprobs": 1, "extra_body": {"echo": True}}


def translate(cell: Cell) -> Job | Absent:
    """The job of a cell, or why there is none."""
    if cell.arm is Arm.SHIPPED:
        return Absent("the shipped arm is not supported yet")
    if cell.arm is Arm.NOMINAL:
        return _job(cell, _nominal(cell), len(cell.data.items))
    if cell.config.scoring.path == "logprob":
        return _job(cell, _matched_logprob(cell), len(cell.canonical.sequences))
    return _job(cell, _matched_free(cell), len(cell.data.items))


def _job(cell: Cell, task: dict[str, Any], requests: int) -> Job:
    payload = {
        **task,
        "generate": {**task["generate"], "max_retries": 0, "max_connections": CONNECTIONS},
        "fail_on_error": min(len(cell.data.items), MOST_ERRORS),
    }
    settings = nominal_settings(cell) if cell.arm is Arm.NOMINAL else matched_settings(cell)
    return Job(payload, settings, requests)


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


def _nominal(cell: Cell) -> dict[str, Any]:
    chat = cell.config.chat_template
    system = {} if chat.system is None else {"system_message": chat.system}
    truthfulqa = cell.benchmark.name == "truthfulqa"
    return {
        "task": cell.benchmark.name,
        "task_args": {"target": cell.config.metric, "shuffle": False, "shuffle_choices": False}
        if truthfulqa
        # The items of every category are served as one subset's.
        else {"subsets": "Age", "shuffle": False},
        "model": CHAT if chat.enabled else COMPLETIONS,
        "generate": {**decoding(cell), **system},
        "ids": [item.item_id for item in cell.data.items],
        "records": [
            _truthfulqa_record(item) if truthfulqa else {**item.row, "example_id": number}
            for number, item in enumerate(cell.data.items)
        ],
    }


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
        "pattern": rule.pattern,
        "take": rule.take,
        "items": [
            {
                "id": prompt.item_id,
                "text": prompt.text,
                "ids": list(prompt.ids),
                "gold": [letter(index) for index in items[prompt.item_id].gold],
                "letters": [letter(index) for index in range(len(items[prompt.item_id].options))],
            }
            for prompt in cell.canonical.prompts
        ],
    }
