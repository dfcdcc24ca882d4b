"""Numbers and names that no real model gives on request."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from safetyrepro.gateway.logprobs import Position, chat_logprobs, completion_logprobs, prompt_logprobs
from safetyrepro.gateway.refusal import Refusal

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine


def test_tokens_with_one_text_share_the_greater_value(tiny_engine: Engine) -> None:
    position = Position(65, -3.0, ((65, -0.5), (66, -1.0), (65, -2.0)))
    listed = completion_logprobs(tiny_engine.tokenizer, [position], "", 3)
    name = tiny_engine.tokenizer.token_text
    assert listed["top_logprobs"] == [{name(65): -0.5, name(66): -1.0}]
    assert listed["token_logprobs"] == [-3.0]


def test_zero_probability_is_a_number_in_json(tiny_engine: Engine) -> None:
    position = Position(65, -math.inf, ((66, -0.0), (65, -math.inf)))
    for shaped in (
        completion_logprobs(tiny_engine.tokenizer, [position], "", 2),
        chat_logprobs(tiny_engine.tokenizer, [position], 2),
        prompt_logprobs(tiny_engine.tokenizer, [position], 2),
    ):
        assert "-9999.0" in json.dumps(shaped, allow_nan=False)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_no_number_is_refused(tiny_engine: Engine, broken: float) -> None:
    with pytest.raises(Refusal) as raised:
        completion_logprobs(tiny_engine.tokenizer, [Position(65, broken, ())], "", 1)
    assert raised.value.status == 500


def test_bytes_of_a_part_of_a_character(tiny_engine: Engine) -> None:
    ids = tiny_engine.tokenizer.encode("漢")
    content = chat_logprobs(tiny_engine.tokenizer, [Position(token, -1.0, ()) for token in ids], 0)["content"]
    assert len(content) == 3
    assert bytes(byte for one in content for byte in one["bytes"]) == "漢".encode()


def test_rank_beyond_the_kept_is_unknown(tiny_engine: Engine) -> None:
    rows = prompt_logprobs(tiny_engine.tokenizer, [Position(70, -9.0, ((65, -0.5), (66, -1.0)))], 1)
    assert rows[0] is not None
    assert [(token, entry["rank"]) for token, entry in rows[0].items()] == [("70", None), ("65", 1)]
