"""Rebuilds a tokenizer from GGUF metadata.

transformers' own conversion loses the end-of-sequence token of some files and the merges of others, and the model
then scores text that nobody would send. Here every part comes from the file: the merges as written (`gpt2`), or, for
a SentencePiece BPE (`llama`), from the pieces and their scores: a piece's score orders the merges that make it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

from safetyrepro.errors import InputError

_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_NORMAL: Final = 1
_SPACE: Final = "▁"
_QWEN_WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer(path: Path, metadata: dict[str, Any]) -> Any:
    """A `PreTrainedTokenizerFast` as the file's metadata describe it, with its chat template if it has one.

    Raises:
        InputError: the metadata lack a part, or describe a tokenizer of a kind that cannot be rebuilt faithfully.
    """
    from transformers import PreTrainedTokenizerFast

    kind = _need(path, metadata, "tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer = _byte_level(path, metadata)
    elif kind == "llama":
        tokenizer = _sentencepiece(path, metadata)
    else:
        raise InputError(f"{path}: its tokenizer is of kind {kind!r}, 'gpt2' and 'llama' can be rebuilt.")
    _add_tokens(tokenizer, metadata)
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    named = {
        f"{name}_token": tokens[metadata[key]]
        for name in ("bos", "eos", "pad")
        if (key := f"tokenizer.ggml.{_spelt(name)}_token_id") in metadata
    }
    if "eos_token" not in named:
        raise InputError(f"{path}: its metadata name no end-of-sequence token (tokenizer.ggml.eos_token_id).")
    if metadata.get("tokenizer.ggml.add_bos_token", kind == "llama") and "bos_token" in named:
        bos = named["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos}:0 $A:0",
            pair=f"{bos}:0 $A:0 {bos}:1 $B:1",
            special_tokens=[(bos, metadata["tokenizer.ggml.bos_token_id"])],
        )
    template = metadata.get("tokenizer.chat_template")
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        clean_up_tokenization_spaces=False,
        **named,
        **({"chat_template": template} if template else {}),
    )


def eos_ids(metadata: dict[str, Any]) -> list[int]:
    """Every token that ends a generation, by the metadata: end of sequence, end of turn, end of message."""
    keys = (f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))
    return sorted({metadata[key] for key in keys if key in metadata})


def _spelt(name: str) -> str:
    return "padding" if name == "pad" else name


def _need(path: Path, metadata: dict[str, Any], key: str) -> Any:
    if key not in metadata:
        raise InputError(f"{path}: its metadata lack {key!r}, so that its tokenizer cannot be rebuilt.")
    return metadata[key]


def _byte_level(path: Path, metadata: dict[str, Any]) -> Tokenizer:
    tokens = _need(path, metadata, "tokenizer.ggml.tokens")
    merges = _need(path, metadata, "tokenizer.ggml.merges")
    words = metadata.get("tokenizer.ggml.pre", "gpt-2")
    tokenizer = Tokenizer(
        BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[(left, right) for left, _, right in (merge.partition(" ") for merge in merges)],
        )
    )
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words != "qwen2")
    if words == "gpt-2":
        tokenizer.pre_tokenizer = byte_level
    elif words == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    elif words == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(_QWEN_WORDS), behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    else:
        raise InputError(
            f"{path}: splits text into words as {words!r}, which is not known here ('gpt-2', 'smollm' and 'qwen2' are);"
            " use the model's Hugging Face folder."
        )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(path: Path, metadata: dict[str, Any]) -> Tokenizer:
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        raise InputError(
            f"{path}: its tokenizer puts a space before every text, which is not known here;"
            " use the model's Hugging Face folder."
        )
    tokens = _need(path, metadata, "tokenizer.ggml.tokens")
    kinds = _need(path, metadata, "tokenizer.ggml.token_type")
    vocab = {_piece(token, kind): index for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))}
    unknown = metadata.get("tokenizer.ggml.unknown_token_id")
    tokenizer = Tokenizer(
        BPE(
            vocab=vocab,
            merges=_merges(tokens, kinds, _need(path, metadata, "tokenizer.ggml.scores"), vocab),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _piece(token: str, kind: int) -> str:
    """Runs of spaces are written as such in the metadata, and looked up after spaces became `▁`."""
    return token.replace(" ", _SPACE) if kind == _USER_DEFINED else token


def _merges(tokens: list[str], kinds: list[int], scores: list[float], vocab: dict[str, int]) -> list[tuple[str, str]]:
    """All pairs of pieces that make a piece, the best score first, then the lower ids."""
    found = [
        (-scores[index], vocab[token[:cut]], vocab[token[cut:]], token[:cut], token[cut:])
        for index, token in enumerate(tokens)
        if kinds[index] == _NORMAL
        for cut in range(1, len(token))
        if token[:cut] in vocab and token[cut:] in vocab
    ]
    found.sort()
    return [(left, right) for *_, left, right in found]


def _add_tokens(tokenizer: Tokenizer, metadata: dict[str, Any]) -> None:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = metadata.get("tokenizer.ggml.token_type", [])
    kind_of = dict(zip(tokens, kinds, strict=False))
    control = [token for token, kind in kind_of.items() if kind == _CONTROL]
    user_defined = [_piece(token, kind) for token, kind in kind_of.items() if kind == _USER_DEFINED]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in user_defined])
