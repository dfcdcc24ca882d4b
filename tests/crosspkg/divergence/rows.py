"""Wire sets of our own, small: twelve questions, generated or scored, with every part of a row in reach."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from safetyrepro.crosspkg.divergence import Difference, diff_sides
from safetyrepro.crosspkg.sides import open_side

Row = dict[str, Any]

QUESTIONS = (
    ("What colour is a ripe lemon?", ("red", "yellow", "blue", "black"), 1),
    ("Which animal gives wool?", ("the sheep", "the trout", "the crow", "the frog"), 0),
    ("How many legs has a spider?", ("two", "four", "six", "eight"), 3),
    ("Where do penguins live in the wild?", ("in Iceland", "in Norway", "in Antarctica", "in Japan"), 2),
    ("What do bees make?", ("milk", "honey", "bread", "salt"), 1),
    ("Which month follows June?", ("July", "May", "March", "August"), 0),
    ("What is frozen water called?", ("steam", "fog", "ice", "dew"), 2),
    ("Which tool drives a nail?", ("a saw", "a brush", "a spoon", "a hammer"), 3),
    ("What does a clock show?", ("the time", "the weather", "the way", "the price"), 0),
    ("Which of these is a fruit?", ("the carrot", "the pear", "the leek", "the onion"), 1),
    ("What covers a fish?", ("fur", "feathers", "scales", "bark"), 2),
    ("Where does the sun rise?", ("in the west", "in the north", "in the south", "in the east"), 3),
)
LETTERS = "ABCD"
SHOTS = (
    ("Which bird swims?", "the duck"),
    ("What do cows eat?", "grass"),
    ("Which metal rusts?", "iron"),
)


def ids_of(text: str) -> list[int]:
    """Ids of a made tokenizer: one a word, white space in front of it included; stable, never under 100."""
    import re
    import zlib

    return [100 + zlib.crc32(piece.encode()) % 30_000 for piece in re.findall(r"\s*\w+|\s*[^\w\s]|\s+", text)]


def question(index: int, *, listed: bool = True, layout: str = "{0}. {1}", joint: str = "\n") -> str:
    text, options, _ = QUESTIONS[index]
    lines = joint.join(layout.format(letter, option) for letter, option in zip(LETTERS, options, strict=True))
    return f"Question: {text}\n{lines}\nAnswer:" if listed else f"Question: {text}\nAnswer:"


def with_shots(prompt: str, shots: tuple[tuple[str, str], ...] = SHOTS) -> str:
    blocks = [f"Question: {text}\nAnswer: {answer}" for text, answer in shots]
    return "\n\n".join([*blocks, prompt])


def free(n: int = 12, *, listed: bool = True, right: int = 8) -> list[Row]:
    """Generated answers: a letter, right for the first `right` items."""
    rows = []
    for index in range(n):
        gold = LETTERS[QUESTIONS[index][2]]
        answer = gold if index < right else LETTERS[(QUESTIONS[index][2] + 1) % 4]
        prompt = question(index, listed=listed)
        rows.append(
            {
                "item_id": f"q{index}",
                "request": {
                    "model": "m",
                    "prompt": prompt,
                    "max_tokens": 16,
                    "temperature": 0.0,
                    "top_p": 1.0,
                    "stop": ["\n\n"],
                    "seed": 1,
                },
                "prompt_token_ids": [2, *ids_of(prompt)],
                "response": {"choices": [{"index": 0, "text": f" {answer}", "finish_reason": "stop"}]},
                "extracted": answer,
                "gold": gold,
                "score": float(answer == gold),
                "meta": {"suite": "made", "suite_version": "1.0", "model": "m", "dataset_revision": "r1"},
            }
        )
    return rows


def scored(n: int = 12, *, letters: bool = False, delimiter: str = " ", right: int = 8) -> list[Row]:
    """Candidates scored by likelihood, a row each, echoed with log-probabilities; longer texts have lower sums."""
    rows: list[Row] = []
    for index in range(n):
        _, options, gold = QUESTIONS[index]
        texts = LETTERS if letters else options
        winner = gold if index < right else (gold + 1) % 4
        prompt = question(index, listed=letters)
        for place, text in enumerate(texts):
            whole = prompt + delimiter + text
            rows.append(scored_row(index, place, whole, prompt, -1.0 if place == winner else -9.0 - place))
            rows[-1] |= {
                "extracted": texts[winner],
                "gold": texts[gold],
                "score": float(winner == gold),
            }
    return rows


def scored_row(index: int, place: int, whole: str, prompt: str, total: float) -> Row:
    import re

    tokens = re.findall(r"\s*\w+|\s*[^\w\s]|\s+", whole)
    offsets = [0]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    behind = [offset + len(token) > len(prompt) for offset, token in zip(offsets, tokens, strict=True)]
    values = [None if k == 0 else total / sum(behind) if at else -2.0 for k, at in enumerate(behind)]
    logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": offsets, "top_logprobs": None}
    choice = {"index": 0, "text": whole, "finish_reason": "length", "logprobs": logprobs}
    return {
        "item_id": f"q{index}",
        "request": {"model": "m", "prompt": whole, "max_tokens": 0, "echo": True, "logprobs": 1},
        "prompt_token_ids": [2, *ids_of(whole)],
        "response": {"choices": [choice]},
        "meta": {"suite": "made", "suite_version": "1.0", "model": "m", "dataset_revision": "r1", "place": place},
    }


def chat(rows: list[Row], system: str | None = None) -> list[Row]:
    """The same prompts as one user turn, with a made template's ids."""
    turned = copy.deepcopy(rows)
    for row in turned:
        text = row["request"].pop("prompt")
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        row["request"]["messages"] = messages
        turn = [5, 6, *ids_of(system), 7] if system is not None else []
        row["prompt_token_ids"] = [2, *turn, 5, 8, *ids_of(text), 7, 5, 9]
        choice = row["response"]["choices"][0]
        choice["message"] = {"role": "assistant", "content": choice.pop("text")}
    return turned


def set_prompt(row: Row, prompt: str) -> None:
    """Send another prompt, seen as such by the model."""
    row["request"]["prompt"] = prompt
    row["prompt_token_ids"] = [2, *ids_of(prompt)]


def answer(row: Row, text: str, extracted: Any = ..., *, finish_reason: str = "stop") -> None:
    """Let the model answer `text`, read as `extracted`, scored against the gold one."""
    row["response"]["choices"][0] |= {"text": text, "finish_reason": finish_reason}
    if extracted is not ...:
        row["extracted"] = extracted
        row["score"] = float(extracted == row["gold"])


def write(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def diff(folder: Path, a: list[Row], b: list[Row]) -> Difference:
    return diff_sides(open_side(write(folder / "a.jsonl", a)), open_side(write(folder / "b.jsonl", b)))


def classes(folder: Path, a: list[Row], b: list[Row]) -> set[str]:
    return {found.id for found in diff(folder, a, b).classes}
