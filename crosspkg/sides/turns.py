r"""Chat turns out of a text to which a model's template was applied.

The markers of the common families are known by their shape: ChatML (`<|im_start|>role`), Llama 3
(`<|start_header_id|>role<|end_header_id|>`), Gemma (`<start_of_turn>role`), Zephyr and Phi (`<|user|>`), Llama 2 and
Mistral (`[INST] ... [/INST]`, with `<<SYS>>`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKED = (
    re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL),
    re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\s{0,2}(.*?)(?:<\|eot_id\|>|\Z)", re.DOTALL),
    re.compile(r"<start_of_turn>(\w+)\n(.*?)(?:<end_of_turn>|\Z)", re.DOTALL),
    re.compile(
        r"<\|(system|user|assistant)\|>\n?(.*?)(?:<\|end\|>|</s>|(?=<\|(?:system|user|assistant)\|>)|\Z)", re.DOTALL
    ),
)
_INST = re.compile(
    r"\[INST\]\s?(?:<<SYS>>\s?(.*?)\s?<</SYS>>\s{0,2})?(.*?)\s?\[/INST\](.*?)(?:</s>|(?=\[INST\])|\Z)", re.DOTALL
)
_ROLES = {"model": "assistant", "developer": "system"}
BOS = re.compile(r"(?:<s>|<bos>|<\|begin_of_text\|>|<\|startoftext\|>|<\|endoftext\|>|\[BOS\]|<\|begin▁of▁sentence\|>)")
"""Texts of tokens that open a sequence."""


@dataclass(frozen=True)
class Turn:
    """One turn of a chat."""

    role: str
    content: str


def leading_bos(text: str) -> tuple[int, str]:
    """How many tokens that open a sequence stand at the start of `text`, and the text behind them."""
    count = 0
    while (match := BOS.match(text)) is not None:
        text = text[match.end() :]
        count += 1
    return count, text


def turns_of(text: str) -> tuple[Turn, ...]:
    """The turns of a templated text; empty where no template was applied.

    The open turn at the end, where the model is to go on, is a turn of the assistant.
    """
    for pattern in _MARKED:
        found = [Turn(_ROLES.get(role, role), content) for role, content in pattern.findall(text)]
        if found:
            return tuple(found)
    turns: list[Turn] = []
    for system, user, answer in _INST.findall(text):
        turns += [Turn("system", system)] if system else []
        turns += [Turn("user", user), Turn("assistant", answer.strip())]
    return tuple(turns)
