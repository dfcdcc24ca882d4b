"""The model's tokenizer: special tokens in text are parsed, nothing is added, and text comes back as it was given."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from safetyrepro.atomic import system_errors
from safetyrepro.errors import InputError
from safetyrepro.paths import cache_dir

ROUND_TRIP: Final = (
    "Hello world, it's 12345.67!",
    "Café naïve Ünïcødé – “quotes” … Привет",
    "日本語のテキストと漢字、한국어",
    "👍 👩‍🔬 🇫🇷",
    "def f(x):\n\treturn {'a': [x] * 2}  # ok\n",
    "a  b   c\n\n\nd\t\te ",
)
"""Texts that a tokenizer must give back unchanged: ASCII, accents, CJK, emoji, code, runs of whitespace."""

_FILES: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_BYTE_PIECE: Final = re.compile(r"<0x([0-9A-F]{2})>")


class FastTokenizer:
    """`safetyrepro.engine.api.Tokenizer` over a Hugging Face fast tokenizer; calls may come from any thread."""

    def __init__(self, hugging_face: Any, eos_ids: frozenset[int]) -> None:
        self.hugging_face = hugging_face
        self.eos_ids = eos_ids
        self.bos_id: int | None = hugging_face.bos_token_id
        self.has_chat_template = bool(hugging_face.chat_template)
        self._backend = hugging_face.backend_tokenizer
        self._added: dict[int, str] = {
            index: token.content for index, token in self._backend.get_added_tokens_decoder().items()
        }
        self._byte_level = '"ByteLevel"' in json.dumps(json.loads(self._backend.to_str())["decoder"])
        first = self._backend.encode("a", add_special_tokens=True).ids[:1]
        self.adds_bos = self.bos_id is not None and first == [self.bos_id]
        self._anchor = self.encode("a")

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, special tokens parsed and none added."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of `ids`; special tokens are left out where `skip_special`."""
        text: str = self._backend.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def token_text(self, token_id: int) -> str:
        r"""The token as the OpenAI API shows it; bytes that are no text by themselves as `bytes:\xe2\x80`."""
        if token_id in self._added:
            return self._added[token_id]
        piece = self._backend.id_to_token(token_id)
        if piece is None:
            return ""
        if self._byte_level:
            return _shown(bytes(_BYTE_OF.get(character, 63) for character in piece))
        byte = _BYTE_PIECE.fullmatch(piece)
        if byte:
            return _shown(bytes([int(byte[1], 16)]))
        return self.decode([*self._anchor, token_id])[len(self.decode(self._anchor)) :]

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """The model's template applied to `messages` in transformers' sandbox.

        Raises:
            InputError: the model has no chat template, or the template refuses these messages.
        """
        import jinja2

        if not self.has_chat_template:
            raise InputError(
                "The model has no chat template: set chat_template.enabled to false, or take a chat model."
            )
        try:
            text: str = self.hugging_face.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                continue_final_message=continue_final_message,
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError) as error:
            raise InputError(f"The model's chat template refuses the messages: {error}.") from None
        return text

    def check_round_trip(self, where: str) -> None:
        """Raise InputError where a text of `ROUND_TRIP` does not come back."""
        for text in ROUND_TRIP:
            back = self.decode(self.encode(text))
            if back != text:
                raise InputError(
                    f"{where}: its tokenizer does not give a text back: {text!r} came back as {back!r}; scores would"
                    " be of a text nobody sent, so use a model whose tokenizer is whole."
                )


def read_tokenizer(folder: Path) -> Any:
    """The fast tokenizer in `folder`.

    Raises:
        InputError: the folder holds none, or one that cannot be read.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((folder / name).is_file() for name in _FILES):
        raise InputError(f"{folder}: holds no tokenizer (no tokenizer.json); add the model's tokenizer files.")
    try:
        if (folder / "tokenizer.json").is_file():
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        else:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{folder}: its tokenizer cannot be read ({reason}); use a folder with tokenizer.json."
        ) from None
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(f"{folder}: its tokenizer is no fast tokenizer; use a folder with tokenizer.json.")
    return tokenizer


def tokenizer_folder(hugging_face: Any, max_length: int) -> Path:
    """A folder in the cache with the tokenizer alone, named by its contents, for suites to load.

    It keeps what the model's own tokenizer adds by itself (`adds_bos`), and no model config lies beside it.
    """
    parent = cache_dir() / "tokenizers"
    parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=parent, prefix=".new-"))
    try:
        with system_errors(parent):
            hugging_face.save_pretrained(fresh, save_jinja_files=False)
        settings = json.loads((fresh / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings.update(tokenizer_class="PreTrainedTokenizerFast", model_max_length=max_length)
        for key in ("name_or_path", "backend", "is_local", "local_files_only"):
            settings.pop(key, None)
        (fresh / "tokenizer_config.json").write_text(
            json.dumps(settings, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        digest = hashlib.sha256()
        for file in sorted(fresh.iterdir()):
            digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        final = parent / digest.hexdigest()[:32]
        if not final.is_dir():
            fresh.chmod(0o755)
            try:
                fresh.rename(final)
            except OSError:
                if not final.is_dir():
                    raise
        return final
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _shown(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for.

    Bytes that print as themselves in Latin-1 keep their character, the others take the characters from 256 on.
    """
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(256 + at): byte for at, byte in enumerate(others)}


_BYTE_OF: Final = _byte_alphabet()
