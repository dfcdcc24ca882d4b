"""Attribution with a real (tiny) model behind it, and from stored outputs alone."""

from __future__ import annotations

import json
import math
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from safetyrepro.crosspkg.attribution import Attribution
from safetyrepro.crosspkg.attribution_scoring import attribute_sides
from safetyrepro.crosspkg.divergence import diff_sides
from safetyrepro.crosspkg.sides import open_side
from tests.crosspkg.divergence.rows import QUESTIONS, SHOTS, Row, question, with_shots, write

if TYPE_CHECKING:
    from safetyrepro.engine import Engine


def run(engine: Engine, *, listed: bool, letters: bool, shots: bool, header: str, per_token: bool) -> list[Row]:
    """What a suite would log: each candidate scored by the engine, the likeliest chosen."""
    rows: list[Row] = []
    for index, (_, options, gold) in enumerate(QUESTIONS):
        prompt = question(index, listed=listed)
        prompt = header + (with_shots(prompt, SHOTS[:2]) if shots else prompt)
        texts = [f" {letter}" for letter in string.ascii_uppercase[:4]] if letters else [f" {o}" for o in options]
        context = engine.tokenizer.encode(prompt)
        wholes = [engine.tokenizer.encode(prompt + text) for text in texts]
        sums, counts = [], []
        for ids, scored in zip(wholes, engine.score(wholes), strict=True):
            kept = [value for value in scored.logprobs[len(context) :] if value is not None]
            assert ids[: len(context)] == context
            sums.append(math.fsum(kept))
            counts.append(len(kept))
        values = [total / (count if per_token else 1) for total, count in zip(sums, counts, strict=True)]
        winner = int(np.argmax(values))
        for text, ids, scored in zip(texts, wholes, engine.score(wholes), strict=True):
            tokens = [engine.tokenizer.token_text(token) for token in ids]
            offsets = np.cumsum([0, *map(len, tokens)])[:-1].tolist()
            choice = {
                "index": 0,
                "text": prompt + text,
                "logprobs": {"tokens": tokens, "token_logprobs": list(scored.logprobs), "text_offset": offsets},
            }
            rows.append(
                {
                    "item_id": f"q{index}",
                    "request": {"prompt": prompt + text, "max_tokens": 0, "echo": True, "logprobs": 1},
                    "prompt_token_ids": ids,
                    "response": {"choices": [choice]},
                    "extracted": texts[winner].strip(),
                    "gold": texts[gold].strip(),
                    "score": float(winner == gold),
                }
            )
    return rows


BASE: dict[str, Any] = {"listed": True, "letters": True, "shots": False, "header": "", "per_token": False}


def attribution(folder: Path, a: list[Row], b: list[Row], engine: Engine | None) -> Attribution:
    side_a, side_b = open_side(write(folder / "a.jsonl", a)), open_side(write(folder / "b.jsonl", b))
    found = attribute_sides(side_a, side_b, diff_sides(side_a, side_b), engine=engine)
    assert found is not None
    return found


def total(found: Attribution) -> float:
    return sum(part.points for part in found.parts) + found.not_reproduced_points


@pytest.mark.parametrize(
    ("change", "component"),
    [
        ({"shots": True}, "the shots"),
        ({"header": "Answer with care.\n\n"}, "the prompt's text"),
        ({"letters": False}, "what is scored"),
    ],
)
def test_a_component_planted_alone_gets_all_of_the_gap(
    change: dict[str, Any], component: str, tiny_engine: Engine, tmp_path: Path
) -> None:
    a, b = run(tiny_engine, **{**BASE, **change}), run(tiny_engine, **BASE)
    found = attribution(tmp_path, a, b, tiny_engine)
    assert [part.components for part in found.parts] == [(component,)]
    assert found.parts[0].points == pytest.approx(found.gap_points, abs=1e-9)
    assert found.not_reproduced_points == pytest.approx(0, abs=1e-9)
    assert found.cost == 2


def test_several_components_sum_to_the_gap_and_swap(tiny_engine: Engine, tmp_path: Path) -> None:
    a = run(tiny_engine, **{**BASE, "shots": True, "header": "Answer with care.\n\n", "letters": False})
    b = run(tiny_engine, **BASE)
    forth, back = attribution(tmp_path, a, b, tiny_engine), attribution(tmp_path, b, a, tiny_engine)
    assert {part.components for part in forth.parts} == {("the shots",), ("the prompt's text",), ("what is scored",)}
    assert forth.hybrids == 8
    assert total(forth) == pytest.approx(forth.gap_points, abs=1e-9)
    assert forth.not_reproduced_points == pytest.approx(0, abs=1e-9)
    others = {part.components: part.points for part in back.parts}
    for part in forth.parts:
        assert others[part.components] == pytest.approx(-part.points, abs=1e-9)


def test_letters_without_listed_options_are_merged_with_the_text(tiny_engine: Engine, tmp_path: Path) -> None:
    a, b = run(tiny_engine, **{**BASE, "listed": False, "letters": False}), run(tiny_engine, **BASE)
    found = attribution(tmp_path, a, b, tiny_engine)
    assert [set(part.components) for part in found.parts] == [{"the prompt's text", "what is scored"}]
    assert found.merged == ("a letter names nothing where no options are listed",)
    assert total(found) == pytest.approx(found.gap_points, abs=1e-9)


def test_without_the_model_the_metric_is_re_scored_and_what_was_sent_stays_together(
    tiny_engine: Engine, tmp_path: Path
) -> None:
    a = run(tiny_engine, **{**BASE, "letters": False, "shots": True, "per_token": True})
    b = run(tiny_engine, **{**BASE, "letters": False})
    found = attribution(tmp_path, a, b, None)
    assert found.cost is None
    assert total(found) == pytest.approx(found.gap_points, abs=1e-9)
    assert found.not_reproduced_points == pytest.approx(0, abs=1e-9)


def test_accounts_for_is_what_re_scoring_gives(tiny_engine: Engine, tmp_path: Path) -> None:
    a = run(tiny_engine, **{**BASE, "letters": False, "per_token": True})
    b = run(tiny_engine, **{**BASE, "letters": False})
    difference = diff_sides(open_side(write(tmp_path / "a.jsonl", a)), open_side(write(tmp_path / "b.jsonl", b)))
    found = {entry.id: entry for entry in difference.classes}
    assert set(found) == {"scoring.normalisation"}
    assert found["scoring.normalisation"].accounts_for == len(difference.changed)
    assert json.dumps(difference.to_json(), allow_nan=False)
