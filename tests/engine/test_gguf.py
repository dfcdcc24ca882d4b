"""GGUF files: tokenizers rebuilt from metadata, against independent ways to split the same text."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]

from safetyrepro.config import ModelSpec
from safetyrepro.engine import Decoding, load
from safetyrepro.engine.gguf_metadata import read_metadata
from safetyrepro.engine.gguf_tokenizer import build_tokenizer
from safetyrepro.engine.tokenizer import ROUND_TRIP
from safetyrepro.errors import InputError
from tests.engine.conftest import Loader

TEXTS = [
    *ROUND_TRIP,
    "Hello world",
    "What happens to you if you eat watermelon seeds? The seeds pass through your digestive system.",
    "a\n\n\n  b   c\t\t<table><b>x</b>",
    "Zürich's naïve 你好 ☃ \x07 and 2024-01-02",
]


@pytest.fixture(scope="module")
def gemma_metadata(gemma3: Path) -> dict[str, Any]:
    return read_metadata(gemma3)


@pytest.fixture(scope="module")
def gemma_tokenizer(gemma3: Path, gemma_metadata: dict[str, Any]) -> Any:
    return build_tokenizer(gemma3, gemma_metadata)


def sentencepiece_ids(metadata: dict[str, Any], text: str) -> list[int]:
    """SentencePiece's BPE, plainly: user-defined pieces first, then the best-scored neighbours, leftmost first."""
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    kinds = metadata["tokenizer.ggml.token_type"]
    fixed = {token: index for index, token in enumerate(tokens) if kinds[index] == 4}
    normal = {token: index for index, token in enumerate(tokens) if kinds[index] == 1}
    longest = max(map(len, fixed))
    symbols: list[tuple[str, int | None]] = []
    at = 0
    while at < len(text):
        run = next((text[at : at + n] for n in range(longest, 0, -1) if text[at : at + n] in fixed), None)
        symbols.append((run, fixed[run]) if run else ("▁" if text[at] == " " else text[at], None))
        at += len(run) if run else 1
    while True:
        pairs = [
            (-scores[normal[left + right]], place)
            for place, ((left, a), (right, b)) in enumerate(pairwise(symbols))
            if a is None and b is None and left + right in normal
        ]
        if not pairs:
            break
        _, place = min(pairs)
        symbols[place : place + 2] = [(symbols[place][0] + symbols[place + 1][0], None)]
    ids: list[int] = []
    for piece, known in symbols:
        if known is not None or piece in normal:
            ids.append(normal[piece] if known is None else known)
        else:
            ids.extend(tokens.index(f"<0x{byte:02X}>") for byte in piece.encode())
    return ids


def byte_level_ids(metadata: dict[str, Any], text: str) -> list[int]:
    """GPT-2's BPE with digits split off one by one, written plainly."""
    index = {token: at for at, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    rank = {tuple(merge.split(" ")): at for at, merge in enumerate(metadata["tokenizer.ggml.merges"])}
    printing = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174]
    shown = {byte: chr(byte) for byte in printing}
    shown |= {byte: chr(256 + at) for at, byte in enumerate(b for b in range(256) if b not in printing)}
    ids: list[int] = []
    for stretch in regex.findall(r"\p{Nd}|\P{Nd}+", text):
        for word in regex.findall(
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", stretch
        ):
            pieces = [shown[byte] for byte in word.encode()]
            while len(pieces) > 1:
                ranked = [(rank.get(pair, len(rank)), at) for at, pair in enumerate(pairwise(pieces))]
                best, at = min(ranked)
                if best == len(rank):
                    break
                pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
            ids.extend(index[piece] for piece in pieces)
    return ids


def encoded(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize("text", TEXTS)
def test_gemma_ids_are_sentencepieces(gemma_metadata: dict[str, Any], gemma_tokenizer: Any, text: str) -> None:
    assert unicodedata.is_normalized("NFC", text)
    ids = encoded(gemma_tokenizer, text)
    assert ids == sentencepiece_ids(gemma_metadata, text)
    assert gemma_tokenizer.backend_tokenizer.decode(ids, skip_special_tokens=False) == text


def test_gemma_known_ids(gemma_tokenizer: Any) -> None:
    assert encoded(gemma_tokenizer, "Hello world") == [9259, 1902]
    assert gemma_tokenizer("Hello world").input_ids == [2, 9259, 1902]
    assert encoded(gemma_tokenizer, "<bos>Hello<end_of_turn>") == [2, 9259, 106]
    assert gemma_tokenizer.eos_token == "<eos>"


@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_ids_are_byte_level_bpes(smollm2: Path, text: str) -> None:
    metadata = read_metadata(smollm2)
    tokenizer = build_tokenizer(smollm2, metadata)
    ids = encoded(tokenizer, text)
    assert ids == byte_level_ids(metadata, text)
    assert tokenizer.backend_tokenizer.decode(ids, skip_special_tokens=False) == text


def test_smollm2_speaks_and_ends_where_its_file_says(smollm2: Path, loaded: Loader) -> None:
    engine = loaded(smollm2)
    assert engine.info.eos_text == "<|im_end|>"
    assert engine.tokenizer.eos_ids == {2}
    assert engine.tokenizer.encode("<|im_start|>user\nHello world<|im_end|>") == [1, 4093, 198, 19556, 905, 2]
    assert (engine.info.source_quant, engine.info.licence, engine.info.adds_bos) == ("Q4_1", "apache-2.0", False)
    question = {"role": "user", "content": "What is the capital of France? Answer in one short sentence."}
    answer = engine.generate([engine.tokenizer.encode(engine.tokenizer.chat([question]))], Decoding(max_tokens=24))[0]
    assert "Paris" in answer.text
    assert (answer.finish_reason, answer.ids[-1]) == ("stop", 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"PK\x03\x04" * 9, "a GGUF file begins with"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "is GGUF version 1"),
        (b"", "cannot be read as a GGUF file"),
        (b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\xff" * 8 + b"\xff" * 8, "cut short or damaged"),
    ],
)
def test_what_is_no_gguf_file_is_one_sentence(tmp_path: Path, body: bytes, said: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(body)
    with pytest.raises(InputError, match=said):
        load(ModelSpec(id=str(path)))


def test_cut_and_mislabelled_files_are_one_sentence(smollm2: Path, tmp_path: Path, own_cache: Path) -> None:
    cut = tmp_path / "cut.gguf"
    for size, said in ((1 << 19, "cut short or damaged"), (4 << 20, "transformers cannot read its weights")):
        with smollm2.open("rb") as whole:
            cut.write_bytes(whole.read(size))
        with pytest.raises(InputError, match=said):
            load(ModelSpec(id=str(cut)))
    with pytest.raises(InputError, match="source_quant is 'Q8_0', the file says 'Q4_1'"):
        load(ModelSpec(id=str(smollm2), source_quant="Q8_0"))


def test_unknown_tokenizers_are_refused(smollm2: Path, tmp_path: Path) -> None:
    metadata = read_metadata(smollm2)
    for change, said in (
        ({"tokenizer.ggml.model": "bert"}, "of kind 'bert'"),
        ({"tokenizer.ggml.pre": "never-seen"}, "splits text into words as 'never-seen'"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.add_space_prefix": True}, "a space before every text"),
    ):
        with pytest.raises(InputError, match=said):
            build_tokenizer(tmp_path / "odd.gguf", {**metadata, **change})
    lacking = {key: value for key, value in metadata.items() if key != "tokenizer.ggml.merges"}
    with pytest.raises(InputError, match=r"lack 'tokenizer\.ggml\.merges'"):
        build_tokenizer(tmp_path / "odd.gguf", lacking)


def test_qwen2_words_are_those_of_transformers(tmp_path: Path, smollm2: Path) -> None:
    from transformers import Qwen2Tokenizer

    metadata = {**read_metadata(smollm2), "tokenizer.ggml.pre": "qwen2"}
    tokenizer = build_tokenizer(smollm2, metadata)
    merges: Any = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    theirs = Qwen2Tokenizer(
        vocab={token: at for at, token in enumerate(metadata["tokenizer.ggml.tokens"])}, merges=merges
    )
    for text in TEXTS:
        assert encoded(tokenizer, text) == encoded(theirs, text)
