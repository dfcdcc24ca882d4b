"""The prompt's own words and its worked examples."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, metas, prompts
from tests.crosspkg.divergence.rows import (
    LETTERS,
    QUESTIONS,
    SHOTS,
    Row,
    chat,
    free,
    question,
    scored,
    set_prompt,
    with_shots,
)


@case("prompt.boilerplate")
def header() -> Any:
    a = free()
    return a, prompts(a, lambda text: "The following are multiple choice questions.\n\n" + text), copy.deepcopy(a)


@case("prompt.boilerplate")
def labels() -> Any:
    a = free()
    b = prompts(a, lambda text: text.replace("Question:", "Q:").replace("Answer:", "A:"))
    return a, b, copy.deepcopy(a)


@case("prompt.option_layout")
def brackets_around_letters() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        set_prompt(row, question(index, layout="({0}) {1}"))
    return a, b, copy.deepcopy(a)


@case("prompt.option_layout")
def options_in_one_line() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        set_prompt(row, question(index, layout="{0}) {1}", joint=" "))
    return a, b, copy.deepcopy(a)


@case("prompt.whitespace")
def final_newline_stripped() -> Any:
    a = prompts(free(), lambda text: text + "\n")
    return a, free(), copy.deepcopy(a)


@case("prompt.whitespace")
def no_break_space() -> Any:
    a = free()
    return a, prompts(a, lambda text: text.replace("Question: ", "Question:\u00a0")), copy.deepcopy(a)


@case("prompt.whitespace")
def one_line_end_more_before_the_answer() -> Any:
    a = free()
    return a, prompts(a, lambda text: text.replace("\nAnswer:", "\n\nAnswer:")), copy.deepcopy(a)


@case("prompt.whitespace")
def last_byte_of_one_program() -> Any:
    a = edited(free(1), lambda row: row["request"].update(prompt="def add(a, b):\n    return a + b\n"))
    a[0] |= {"prompt_token_ids": None, "gold": None, "extracted": None, "score": 1.0}
    b = edited(a, lambda row: row["request"].update(prompt="def add(a, b):\n    return a + b"))
    b[0]["score"] = 0.0
    return a, b, copy.deepcopy(a)


@case("prompt.boilerplate", "prompt.option_layout", "candidate.object")
def one_item_in_two_renderings() -> Any:
    a, b = scored(1, letters=True), scored(1)
    for row, letter in zip(a, LETTERS, strict=True):
        header = "The following are multiple choice questions (with answers).\n\n"
        set_prompt(row, header + question(0) + " " + letter)
    for row, option in zip(b, QUESTIONS[0][1], strict=True):
        set_prompt(row, question(0, layout="({0}) {1}", joint=" ") + " " + option)
    return a, b, copy.deepcopy(a)


@case("shots.count")
def fewer_shots() -> Any:
    a = prompts(free(), with_shots)
    return a, prompts(free(), lambda text: with_shots(text, SHOTS[:1])), copy.deepcopy(a)


@case("shots.count")
def no_shots() -> Any:
    a = prompts(free(listed=False), with_shots)
    return a, free(listed=False), copy.deepcopy(a)


@case("shots.source")
def shots_depend_on_evaluation_order() -> Any:
    others = (("Which fruit is sour?", "the lime"), ("Who bakes bread?", "the baker"), ("What barks?", "the dog"))
    a = metas(prompts(free(), with_shots), fewshot_seed=7)
    b = metas(prompts(free(), lambda text: with_shots(text, others)), fewshot_seed=7)
    return a, b, copy.deepcopy(a)


@case("shots.order")
def shots_in_another_order() -> Any:
    a = prompts(free(), with_shots)
    return a, prompts(free(), lambda text: with_shots(text, SHOTS[::-1])), copy.deepcopy(a)


@case("shots.order")
def turns_in_another_order() -> Any:
    def turns(shots: tuple[tuple[str, str], ...]) -> list[Row]:
        def edit(row: Row) -> None:
            pairs = [
                {"role": role, "content": text}
                for shot in shots
                for role, text in zip(("user", "assistant"), shot, strict=True)
            ]
            row["request"]["messages"][:0] = pairs
            row["prompt_token_ids"] = None

        return edited(chat(free()), edit)

    return turns(SHOTS), turns(SHOTS[::-1]), turns(SHOTS)


@case("shots.contamination")
def the_item_among_its_own_shots() -> Any:
    a = prompts(free(listed=False), with_shots)
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        text, options, gold = QUESTIONS[index]
        set_prompt(row, with_shots(question(index, listed=False), (*SHOTS[:2], (text, options[gold]))))
    return a, b, copy.deepcopy(a)
