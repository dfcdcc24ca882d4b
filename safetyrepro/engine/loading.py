"""Puts an engine together: files, tokenizer, weights at the numerics asked for, and a thread that owns them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from safetyrepro.config import ModelSpec
from safetyrepro.engine import int8, nf4
from safetyrepro.engine.api import ModelInfo
from safetyrepro.engine.exact import ExactEngine
from safetyrepro.engine.forward import FixedShape
from safetyrepro.engine.packed import PackedShape
from safetyrepro.engine.prefix import CHUNK, ChunkedShape
from safetyrepro.engine.row import packs
from safetyrepro.engine.shared import SharedEngine
from safetyrepro.engine.source import Source, find_source
from safetyrepro.engine.tokenizer import FastTokenizer, read_tokenizer, tokenizer_folder
from safetyrepro.errors import InputError


@dataclass(frozen=True)
class Opened:
    """A model in memory."""

    source: Source
    hugging_face: Any
    """transformers' tokenizer."""
    tokenizer: FastTokenizer
    model: Any
    layers: int
    """How many layers are quantised."""
    threads: int


def load_engine(spec: ModelSpec, progress: Callable[[str], None]) -> ExactEngine | SharedEngine:
    """What `safetyrepro.engine.load` promises.

    Raises:
        InputError: see `safetyrepro.engine.load`.
    """
    opened = open_model(spec, progress)
    source, hugging_face, tokenizer, model = opened.source, opened.hugging_face, opened.tokenizer, opened.model
    shape = _shape(model, spec, pad_id=min(tokenizer.eos_ids))
    max_length = int(model.config.get_text_config().max_position_embeddings)
    info = ModelInfo(
        name=source.name,
        weights_sha256=source.weights_sha256,
        weights_verified=source.weights_verified,
        files_sha256=source.files_sha256,
        source_quant=source.source_quant,
        numerics=f"{spec.quant}/{spec.compute_dtype}/{spec.decode if spec.quant != 'none' else '-'}/{spec.mode}",
        details={**source.details, **_details(spec, shape, opened.layers, opened.threads)},
        licence=source.licence,
        tokenizer_dir=tokenizer_folder(hugging_face, max_length),
        has_chat_template=tokenizer.has_chat_template,
        adds_bos=tokenizer.adds_bos,
        bos_text=hugging_face.bos_token,
        eos_text=hugging_face.eos_token or tokenizer.token_text(min(tokenizer.eos_ids)),
        max_length=max_length,
    )
    if isinstance(shape, PackedShape):
        return SharedEngine(info, tokenizer, shape, opened.threads)
    return ExactEngine(info, tokenizer, shape, opened.threads)


def open_model(spec: ModelSpec, progress: Callable[[str], None]) -> Opened:
    """The model that `spec` names, quantised, with its tokenizer; no engine owns it yet.

    Raises:
        InputError: see `safetyrepro.engine.load`.
    """
    threads = spec.threads or usual_threads()
    torch.set_num_threads(threads)
    source, hugging_face, tokenizer = _find(spec, progress)
    progress(f"reading the weights of {source.name}")
    model = _weights(source.folder, getattr(torch, spec.compute_dtype))
    layers = _quantise(model, spec, progress)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return Opened(source, hugging_face, tokenizer, model, layers, threads)


def usual_threads() -> int:
    """Threads where a spec names none: `OMP_NUM_THREADS`, else the cores that this process may use."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_tokenizer(spec: ModelSpec) -> FastTokenizer:
    """What `safetyrepro.engine.load_tokenizer` promises.

    Raises:
        InputError: see `safetyrepro.engine.load`.
    """
    return _find(spec, lambda _line: None)[2]


def _find(spec: ModelSpec, progress: Callable[[str], None]) -> tuple[Source, Any, FastTokenizer]:
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    source = find_source(spec, progress)
    progress(f"reading the tokenizer of {source.name}")
    hugging_face = read_tokenizer(source.folder)
    tokenizer = FastTokenizer(hugging_face, _eos_ids(source.folder, hugging_face))
    tokenizer.check_round_trip(str(source.folder))
    return source, hugging_face, tokenizer


def _eos_ids(folder: Path, hugging_face: Any) -> frozenset[int]:
    """What ends a generation: the tokenizer's end token, and those of generation_config.json."""
    found = {hugging_face.eos_token_id}
    path = folder / "generation_config.json"
    if path.is_file():
        try:
            named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        except (ValueError, AttributeError):
            raise InputError(f"{path}: is no generation config; fetch the model again.") from None
        found |= set(named) if isinstance(named, list) else {named}
    ids = frozenset(index for index in found if isinstance(index, int))
    if not ids:
        raise InputError(f"{folder}: names no end-of-sequence token; set eos_token in tokenizer_config.json.")
    return ids


def _weights(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{folder}: transformers cannot load the model ({reason}).") from None
    model, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise InputError(f"{folder}: its weights lack {len(missing)} tensors, such as {missing[0]}; fetch it again.")
    return model.eval().requires_grad_(False)


def _quantise(model: Any, spec: ModelSpec, progress: Callable[[str], None]) -> int:
    if spec.quant == "none":
        return 0
    how = "decoded once" if spec.decode == "once" else "by the library's kernels on every call"
    progress(f"quantising to {spec.quant.upper()} ({how})")
    if spec.quant == "int8":
        return int8.decode_once(model) if spec.decode == "once" else int8.to_kernels(model)
    if spec.decode == "once":
        return nf4.decode_once(model, double_quant=spec.double_quant)
    dtype = getattr(torch, spec.compute_dtype)
    return nf4.to_kernels(model, double_quant=spec.double_quant, compute_dtype=dtype)


def _shape(model: Any, spec: ModelSpec, pad_id: int) -> FixedShape:
    if spec.mode == "shared":
        return _packed(model, spec, pad_id)
    if spec.batch_rows == spec.length_bucket == 1:
        chunked = ChunkedShape(model, pad_id=pad_id)
        if chunked.fits():
            chunked.quicken()
            return chunked
    return FixedShape(model, rows=spec.batch_rows, bucket=spec.length_bucket, pad_id=pad_id)


def _packed(model: Any, spec: ModelSpec, pad_id: int) -> PackedShape:
    packed = PackedShape(model, pad_id=pad_id, pack_tokens=spec.pack_tokens, cache_bytes=spec.cache_mb * 1_000_000)
    if not packs(packed):
        raise InputError(
            f"Model {spec.id}: a {type(model).__name__} gives something else where sequences share a forward pass;"
            " set mode to exact."
        )
    packed.quicken()
    return packed


def _details(spec: ModelSpec, shape: FixedShape, layers: int, threads: int) -> dict[str, str]:
    model = shape.model
    device = next(model.parameters()).device
    shaped = {
        "batch_rows": str(spec.batch_rows),
        "length_bucket": str(spec.length_bucket),
        "prefix_chunk": str(CHUNK) if isinstance(shape, ChunkedShape) else "none",
    }
    if isinstance(shape, PackedShape):
        shaped = {"pack_tokens": str(shape.pack_tokens), "cache_mb": str(spec.cache_mb)}
    return {
        **_quantised(spec, layers),
        "architecture": type(model).__name__,
        "attention": str(model.config._attn_implementation),
        **shaped,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": str(threads),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def _quantised(spec: ModelSpec, layers: int) -> dict[str, str]:
    if spec.quant == "none":
        return {}
    rest = f"{layers} linear layers; embeddings, norms and the output embedding stay at compute dtype"
    if spec.quant == "int8":
        own = {
            "int8_scales": "largest absolute value of a weight's row",
            "int8_activations": "not quantised"
            if spec.decode == "once"
            else f"int8 by row, from float16; columns with a value from {int8.OUTLIER} on at compute dtype",
            "int8_layers": rest,
        }
    else:
        own = {
            "nf4_block_size": str(nf4.BLOCK_SIZE),
            "nf4_double_quant": str(spec.double_quant).lower(),
            "nf4_layers": rest,
        }
    return {**own, "bitsandbytes": version("bitsandbytes")}
