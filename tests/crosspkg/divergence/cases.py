"""Every class planted alone, and a twin of the same shape in which its cause is absent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.crosspkg.divergence.rows import (
    LETTERS,
    QUESTIONS,
    SHOTS,
    Row,
    answer,
    chat,
    free,
    question,
    scored,
    set_prompt,
    with_shots,
)


@dataclass(frozen=True)
class Case:
    """Two sides that differ in one cause, and the second side without it."""

    name: str
    expected: frozenset[str]
    a: list[Row]
    b: list[Row]
    twin: list[Row]


CASES: list[Case] = []


def case(*expected: str) -> Callable[[Callable[[], tuple[list[Row], list[Row], list[Row]]]], Any]:
    def register(make: Callable[[], tuple[list[Row], list[Row], list[Row]]]) -> Any:
        a, b, twin = make()
        CASES.append(Case(make.__name__, frozenset(expected), a, b, twin))
        return make

    return register


def edited(rows: list[Row], edit: Callable[[Row], None], *, every: int = 1) -> list[Row]:
    """A copy with `edit` applied to every so-manyth row."""
    changed = copy.deepcopy(rows)
    for row in changed[::every]:
        edit(row)
    return changed


def prompts(rows: list[Row], change: Callable[[str], str]) -> list[Row]:
    return edited(rows, lambda row: set_prompt(row, change(row["request"]["prompt"])))


def requests(rows: list[Row], **values: Any) -> list[Row]:
    def edit(row: Row) -> None:
        for key, value in values.items():
            row["request"].pop(key, None)
            if value is not None:
                row["request"][key] = value

    return edited(rows, edit)


def metas(rows: list[Row], **values: Any) -> list[Row]:
    return edited(rows, lambda row: row["meta"].update(values))


def ids(rows: list[Row], change: Callable[[list[int]], list[int]]) -> list[Row]:
    return edited(rows, lambda row: row.update(prompt_token_ids=change(row["prompt_token_ids"])))


# What opens a sequence


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


# The chat template


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


# The prompt's own words


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


# Worked examples


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


# What is scored


@case("candidate.object")
def option_text_or_its_letter() -> Any:
    a, b = scored(), scored()
    for place, row in enumerate(a):
        set_prompt(row, question(place // 4) + " " + QUESTIONS[place // 4][1][place % 4])
    for place, row in enumerate(b):
        index = place // 4
        set_prompt(row, question(index) + " " + LETTERS[place % 4])
        for key in ("extracted", "gold"):
            row[key] = LETTERS[QUESTIONS[index][1].index(row[key])]
    return a, b, copy.deepcopy(a)


@case("candidate.whitespace")
def one_space() -> Any:
    a = scored(letters=True)
    return a, scored(letters=True, delimiter=""), copy.deepcopy(a)


@case("candidate.token_boundary")
def an_extra_space_piece() -> Any:
    a = scored(letters=True)
    return a, ids(a, lambda seen: [*seen[:-1], 29_871, seen[-1]]), copy.deepcopy(a)


@case("scoring.path")
def generated_against_likelihood() -> Any:
    a, b = free(), scored(letters=True)
    for row in a:
        answer(row, " The", "The")
    return a, b, copy.deepcopy(a)


@case("scoring.path")
def likeliest_letter_of_one_generated_token() -> Any:
    a = free()
    for row in a:
        answer(row, "The", None)
        tops = {"The": -0.4, **{letter: -2.0 - (letter != row["gold"]) for letter in LETTERS}}
        row["response"]["choices"][0]["logprobs"] = {
            "tokens": ["The"],
            "token_logprobs": [-0.4],
            "top_logprobs": [tops],
            "text_offset": [0],
        }
    a[0]["extracted"] = "T"
    b = edited(a, lambda row: row.update(extracted=row["gold"], score=1.0))
    return a, b, copy.deepcopy(a)


@case("scoring.normalisation")
def sum_against_sum_per_character() -> Any:
    long = "an answer that goes on for a very long time"
    a = []
    for index in range(4):
        for text, total in (("short", -4.0), (long, -8.0)):
            row = scored(1)[0]
            from tests.crosspkg.divergence.rows import _scored_row

            row = _scored_row(
                index, 0, question(index, listed=False) + " " + text, question(index, listed=False), total
            )
            a.append(row | {"extracted": "short", "gold": "short", "score": 1.0})
    b = edited(a, lambda row: row.update(extracted=long, score=0.0))
    return a, b, copy.deepcopy(a)


# How text was generated


@case("decoding.temperature")
def temperature() -> Any:
    a = free()
    return a, requests(a, temperature=1.0), copy.deepcopy(a)


@case("decoding.default")
def temperature_left_out() -> Any:
    a = free()
    return a, requests(a, temperature=None), copy.deepcopy(a)


@case("decoding.top_p")
def top_p() -> Any:
    a = requests(free(), temperature=0.7)
    return a, requests(a, top_p=0.9), copy.deepcopy(a)


@case("decoding.seed")
def seed() -> Any:
    a = requests(free(), temperature=0.7)
    return a, requests(a, seed=2), copy.deepcopy(a)


@case("decoding.max_tokens")
def max_tokens() -> Any:
    a = free()
    b = requests(a, max_tokens=1)
    for row in b[::2]:
        answer(row, "", None, finish_reason="length")
    return a, b, copy.deepcopy(a)


@case("decoding.stop")
def numbers_stopped_at_the_point() -> Any:
    a = free(6)
    for row in a:
        row["gold"] = "12.5"
        answer(row, "12.5", "12.5")
    b = requests(a, stop=["."])
    for row in b:
        answer(row, "12", "12")
    return a, b, copy.deepcopy(a)


@case("decoding.no_effect")
def declared_and_not_sent() -> Any:
    a = metas(free(), temperature=0.0, num_beams=1)
    return a, metas(a, temperature=0.7), copy.deepcopy(a)


# How it was read


@case("extraction.rule")
def exact_match_before_and_after_strip() -> Any:
    a = free(5)
    for row in a:
        row["gold"] = "Paris"
        answer(row, "Paris \n", "Paris \n")
    b = edited(a, lambda row: row.update(extracted="Paris", score=1.0))
    return a, b, copy.deepcopy(a)


@case("extraction.rule")
def the_next_passage_behind_the_number() -> Any:
    a = free(5)
    for row in a:
        row["gold"] = "10"
        answer(row, "10\n\nPassage: more", "10\n\nPassage: more")
    b = edited(a, lambda row: row.update(extracted="10", score=1.0))
    return a, b, copy.deepcopy(a)


@case("extraction.rule")
def answers_in_markup() -> Any:
    a = free()
    for row in a[::3]:
        answer(row, f"ANSWER: ${row['gold']}$", row["gold"])
    b = edited(a, lambda row: row.update(extracted=None, score=0.0), every=3)
    return a, b, copy.deepcopy(a)


@case("extraction.position")
def first_letter_or_last() -> Any:
    a = free()
    for row in a:
        other = LETTERS[(LETTERS.index(row["gold"]) + 1) % 4]
        answer(row, f"It may be {other}. No, it is {row['gold']}.", row["gold"])
        row["first"] = other
    b = edited(a, lambda row: row.update(extracted=row["first"], score=0.0))
    return a, b, copy.deepcopy(a)


@case("extraction.failure")
def a_whole_run_unparsed() -> Any:
    a = free()
    return a, edited(a, lambda row: row.update(extracted="", score=0.0)), copy.deepcopy(a)


@case("extraction.echo")
def the_prompt_echoed() -> Any:
    a = free()
    b = edited(a, lambda row: answer(row, row["request"]["prompt"] + row["response"]["choices"][0]["text"], None))
    for row in b:
        row["extracted"] = "Q"
    return a, b, copy.deepcopy(a)


# What counts as right


@case("gold.offset")
def gold_from_one_read_from_zero() -> Any:
    a = free()
    for row in a:
        place = LETTERS.index(row["gold"])
        row["extracted"] = LETTERS.index(row["extracted"])
        row["gold"] = place
    b = edited(a, lambda row: row.update(gold=row["gold"] + 1, score=float(row["extracted"] == row["gold"] + 1)))
    return a, b, copy.deepcopy(a)


@case("gold.offset")
def the_same_gold_scored_one_off() -> Any:
    a = free()
    for row in a:
        row["extracted"] = LETTERS.index(row["extracted"])
        row["gold"] = LETTERS.index(row["gold"]) + 1
        row["score"] = float(row["extracted"] == row["gold"] - 1)
    b = edited(a, lambda row: row.update(score=float(row["extracted"] == row["gold"])))
    return a, b, copy.deepcopy(a)


@case("gold.order")
def options_in_another_order() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        text, options, gold = QUESTIONS[index]
        turned = options[1:] + options[:1]
        lines = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, turned, strict=True))
        set_prompt(row, f"Question: {text}\n{lines}\nAnswer:")
        row["gold"] = LETTERS[turned.index(options[gold])]
        row["score"] = float(row["gold"] == row["extracted"])
    return a, b, copy.deepcopy(a)


@case("gold.value")
def other_right_answers() -> Any:
    a = free()
    b = edited(a, lambda row: row.update(gold="D" if row["gold"] != "D" else "A"), every=5)
    for row in b:
        row["score"] = float(row["gold"] == row["extracted"])
    return a, b, copy.deepcopy(a)


@case("gold.leak")
def the_right_candidate_alone_has_a_space() -> Any:
    a = scored(letters=True, delimiter="")
    b = copy.deepcopy(a)
    for place, row in enumerate(b):
        index = place // 4
        if place % 4 == QUESTIONS[index][2]:
            set_prompt(row, question(index) + " " + LETTERS[place % 4])
    return a, b, copy.deepcopy(a)


@case("gold.leak")
def the_right_option_in_bold() -> Any:
    a = free()
    b = copy.deepcopy(a)
    for index, row in enumerate(b):
        _, options, gold = QUESTIONS[index]
        set_prompt(row, row["request"]["prompt"].replace(f". {options[gold]}", f". **{options[gold]}**"))
    return a, b, copy.deepcopy(a)


@case("metric.definition")
def another_score_for_the_same_answer() -> Any:
    a = free()
    return a, edited(a, lambda row: row.update(score=0.5), every=2), copy.deepcopy(a)


@case("metric.weighting")
def subtasks_averaged_two_ways() -> Any:
    a = []
    for number in range(100):
        row = free(1)[0] | {"item_id": f"w{number}"}
        row["meta"] = {"suite": "made", "subtask": "small" if number < 10 else "large"}
        row |= {"extracted": "B" if number < 10 else "A", "score": float(number < 10)}
        answer(row, row["extracted"])
        a.append(row)
    b = metas(a, reported=0.5)
    a = metas(a, reported=0.1)
    return a, b, copy.deepcopy(a)


# What was cut


@case("truncation.sent")
def head_of_the_prompt_cut() -> Any:
    a = ids(free(), lambda _: [])
    for index, row in enumerate(a):
        row["prompt_token_ids"] = [1_000 * index + token for token in range(90)]
    return a, ids(a, lambda seen: seen[-64:]), copy.deepcopy(a)


@case("truncation.sent")
def logged_more_than_the_server_counted() -> Any:
    a = free()
    for row in a:
        row["prompt_token_ids"] = list(range(500, 590))
        row["response"]["usage"] = {"prompt_tokens": 90}
    b = edited(a, lambda row: row["response"]["usage"].update(prompt_tokens=64))
    return a, b, copy.deepcopy(a)


@case("truncation.output")
def a_third_of_the_outputs_cut() -> Any:
    a = free()
    b = edited(a, lambda row: answer(row, "Let me think about", None, finish_reason="length"), every=3)
    return a, b, copy.deepcopy(a)


# The data


@case("dataset.revision")
def a_stated_revision() -> Any:
    a = free()
    return a, metas(a, dataset_revision="r2"), copy.deepcopy(a)


@case("dataset.revision")
def one_question_in_other_words() -> Any:
    a = free()
    b = copy.deepcopy(a)
    set_prompt(b[3], b[3]["request"]["prompt"].replace("penguins", "albatrosses"))
    return a, b, copy.deepcopy(a)


@case("dataset.items")
def other_items() -> Any:
    a = free()
    return a[:10], a[2:], copy.deepcopy(a[:10])


# The machine


@case("numerics.dtype")
def compute_dtype() -> Any:
    a = metas(free(), compute_dtype="float32")
    b = metas(a, compute_dtype="bfloat16")
    for row in b[::4]:
        answer(row, " C", "C")
    return a, b, metas(a, compute_dtype="bfloat16")


@case("numerics.batch")
def batch_size() -> Any:
    a = metas(free(), batch_size=1)
    b = metas(a, batch_size=16)
    for row in b[::4]:
        answer(row, " C", "C")
    return a, b, metas(a, batch_size=16)


def _repeats(rows: list[Row], times: int) -> list[Row]:
    return [copy.deepcopy(row) | {"repeat": number} for number in range(times) for row in rows]


def _logprobs(rows: list[Row], values: Callable[[int], float]) -> list[Row]:
    for number, row in enumerate(rows):
        row["response"]["choices"][0]["logprobs"] = {
            "tokens": [" A"],
            "token_logprobs": [values(number)],
            "top_logprobs": None,
            "text_offset": [0],
        }
    return rows


@case("nondeterminism")
def logprobs_vary_at_temperature_0() -> Any:
    a = _logprobs(_repeats(free(3), 5), lambda number: -0.5 - 0.01 * (number // 3))
    b = _logprobs(_repeats(free(3), 5), lambda number: -0.5 - 0.013 * (number // 3))
    return a, b, copy.deepcopy(a)


@case("nondeterminism")
def repeats_on_one_side() -> Any:
    a = free(3)
    b = _repeats(a, 3)
    answer(b[3], " D", "D")
    return a, b, _repeats(a, 3)


@case("cache.reuse")
def sampled_and_always_the_same() -> Any:
    base = edited(requests(free(4), temperature=1.0), lambda row: row["request"].pop("seed"))
    a = _repeats(base, 4)
    for number, row in enumerate(a):
        answer(row, f" {LETTERS[number // 4]}", LETTERS[number // 4])
    b = metas(_repeats(base, 4), cached=True)
    return a, b, copy.deepcopy(a)


@case("suite.version")
def two_releases_read_the_same_output() -> Any:
    a = free()
    for row in a:
        answer(row, f"the answer is ({row['gold']})", None)
    a[0]["extracted"], a[0]["score"] = a[0]["gold"], 1.0
    b = edited(a, lambda row: row.update(extracted=row["gold"], score=1.0))
    return a, metas(b, suite_version="2.0"), metas(a, suite_version="2.0")


@case("unexplained")
def all_equal_but_the_output() -> Any:
    a = free()
    b = copy.deepcopy(a)
    answer(b[2], " A", "A")
    answer(b[7], " A", "A")
    return a, b, copy.deepcopy(a)
