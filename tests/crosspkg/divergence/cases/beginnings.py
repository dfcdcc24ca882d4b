"""What opens a sequence: the leading token and the chat template."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, edited, ids, prompts
from tests.crosspkg.divergence.rows import chat, free, scored


@case("bos.double")
def two_bos_ids_in_chat_rows() -> Any:
    a = chat(free())
    return a, ids(a, lambda seen: [2, *seen]), copy.deepcopy(a)


@case("bos.double")
def two_bos_ids_in_three_tokens() -> Any:
    a = ids(free(1), lambda _: [2, 105])
    return a, ids(a, lambda _: [2, 2, 105]), copy.deepcopy(a)


@case("bos.double")
def two_bos_texts_without_ids() -> Any:
    a = edited(prompts(free(), lambda text: "<s>" + text), lambda row: row.update(prompt_token_ids=None))
    b = edited(prompts(free(), lambda text: "<s><s>" + text), lambda row: row.update(prompt_token_ids=None))
    return a, b, copy.deepcopy(a)


@case("bos.missing")
def leading_id_absent() -> Any:
    a = free()
    return a, ids(a, lambda seen: seen[1:]), copy.deepcopy(a)


@case("bos.missing")
def leading_id_absent_in_scoring_requests() -> Any:
    a = scored()
    return a, ids(a, lambda seen: seen[1:]), copy.deepcopy(a)


@case("bos.server_side")
def server_adds_to_the_ids_it_was_sent() -> Any:
    a = edited(free(), lambda row: row["request"].update(prompt=row["prompt_token_ids"][1:]))
    a = ids(a, lambda seen: seen[1:])
    return a, ids(a, lambda seen: [2, *seen]), copy.deepcopy(a)


@case("bos.server_side")
def server_counts_one_token_more() -> Any:
    a = edited(free(), lambda row: row["response"].update(usage={"prompt_tokens": len(row["prompt_token_ids"])}))
    a = edited(a, lambda row: row.update(prompt_token_ids=None))
    b = edited(
        a, lambda row: row["response"]["usage"].update(prompt_tokens=row["response"]["usage"]["prompt_tokens"] + 1)
    )
    return a, b, copy.deepcopy(a)


@case("bos.server_side")
def server_opens_with_another_token() -> Any:
    a = free()
    return a, ids(a, lambda seen: [1, *seen[1:]]), copy.deepcopy(a)


@case("chat_template.applied")
def template_on_one_path_only() -> Any:
    a = free()
    return a, chat(a), copy.deepcopy(a)


@case("chat_template.applied")
def template_written_into_the_prompt() -> Any:
    a = free()
    b = prompts(a, lambda text: f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
    return a, b, copy.deepcopy(a)


@case("chat_template.system_prompt")
def default_system_turn() -> Any:
    a = chat(free())
    return a, chat(free(), system="You are a helpful assistant."), copy.deepcopy(a)


@case("chat_template.system_prompt")
def default_system_turn_in_the_text() -> Any:
    user = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    a = prompts(free(), user.format)
    b = prompts(free(), lambda text: "<|im_start|>system\nYou are kind.<|im_end|>\n" + user.format(text))
    return a, b, copy.deepcopy(a)


@case("chat_template.system_prompt")
def default_system_turn_in_the_ids_alone() -> Any:
    a = chat(free())
    return a, ids(a, lambda seen: [2, 5, 6, 301, 302, 303, 304, 7, *seen[1:]]), copy.deepcopy(a)


@case("chat_template.dynamic")
def date_of_the_day() -> Any:
    a = chat(free(), system="Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2025")
    b = chat(free(), system="Cutting Knowledge Date: December 2023\nToday Date: 27 Jul 2025")
    return a, b, copy.deepcopy(a)


@case("chat_template.dynamic")
def date_in_the_ids_alone() -> Any:
    a = ids(chat(free()), lambda seen: [2, 5, 6, 401, 402, 7, *seen[1:]])
    return a, ids(a, lambda seen: [*seen[:4], 499, *seen[5:]]), copy.deepcopy(a)
