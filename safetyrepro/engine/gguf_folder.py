"""A GGUF file as a Hugging Face folder, written once into the cache: weights at fp32, and the tokenizer rebuilt.

transformers reads a large vocabulary slowly and more than once; from then on the model loads in a moment, and by the
same code as any other.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from safetyrepro.atomic import system_errors
from safetyrepro.engine.gguf_metadata import read_metadata
from safetyrepro.engine.gguf_tokenizer import build_tokenizer, eos_ids
from safetyrepro.errors import InputError
from safetyrepro.paths import cache_dir

_LAYOUT: Final = 1
"""Raised whenever a conversion would come out otherwise than before."""


def gguf_folder(path: Path, sha256: str, progress: Callable[[str], None]) -> Path:
    """The folder for the GGUF file `path` whose SHA-256 is `sha256`, made if need be.

    Raises:
        InputError: the file is damaged, or of an architecture or tokenizer that cannot be converted.
    """
    import transformers

    name = f"{sha256[:32]}-{_LAYOUT}-transformers-{transformers.__version__}"
    folder = cache_dir() / "converted" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
            fresh = Path(scratch) / "model"
            _convert(path, fresh, progress)
            fresh.rename(folder)
    return folder


def source_quant(path: Path) -> str | None:
    """The quantisation that the file names, such as `Q4_1`; None where it names none."""
    from gguf import LlamaFileType

    try:
        kind = LlamaFileType(read_metadata(path)["general.file_type"])
    except (KeyError, ValueError):
        return None
    return str(kind.name).removeprefix("MOSTLY_").removeprefix("ALL_")


def licence(path: Path) -> str | None:
    """The licence that the file names."""
    named = read_metadata(path).get("general.license")
    return str(named) if named else None


def _convert(path: Path, folder: Path, progress: Callable[[str], None]) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    metadata = read_metadata(path)
    progress(f"rebuilding the tokenizer of {path.name}")
    tokenizer = build_tokenizer(path, metadata)
    progress(f"converting the weights of {path.name} (once; minutes where the vocabulary is large)")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # transformers draws a bar of its own here
            model: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: transformers cannot read its weights ({reason}).") from None
    tokenizer.model_max_length = model.config.get_text_config().max_position_embeddings
    model.generation_config.eos_token_id = eos_ids(metadata)
    model.hf_quantizer = None  # the weights are plain fp32 by now; transformers would refuse to save them as GGUF
    del model.config.quantization_config
    with system_errors(folder):
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
