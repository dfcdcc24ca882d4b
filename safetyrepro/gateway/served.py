"""The model that a run's gateway stands before: an engine in this process, or a server that runs already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetyrepro.engine.api import UPSTREAM, ModelInfo, Tokenizer
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine.api import Engine
    from safetyrepro.gateway.upstream import Upstream

LENGTH_KEYS = ("max_model_len", "context_length")
"""Where servers put a model's context length in `GET /models`."""
UNSTATED_LENGTH = 2048
"""Context length taken where neither the server nor the tokenizer's folder states one."""
LONGEST = 10**7
"""A `model_max_length` beyond this is a tokenizer's way to say that it knows none."""


@dataclass(frozen=True)
class Served:
    """A model with its tokenizer and what is to be disclosed about it."""

    backend: Engine | Upstream
    info: ModelInfo
    tokenizer: Tokenizer


def serve_model(spec: ModelSpec) -> Served:
    """Load the model of `spec`, or reach the server that holds it.

    Raises:
        InputError: as `safetyrepro.engine.load`; or the server cannot be reached or does not list the model.
    """
    if spec.upstream is None:
        from safetyrepro.engine import load

        engine = load(spec)
        return Served(engine, engine.info, engine.tokenizer)
    return _reach(spec, spec.upstream)


def tokenizer_of(spec: ModelSpec) -> Tokenizer:
    """The tokenizer of the model of `spec`, without its weights.

    Raises:
        InputError: it is not there, is broken, or does not give a text back that it was given.
    """
    if spec.upstream is None:
        from safetyrepro.engine import load_tokenizer

        return load_tokenizer(spec)
    return _upstream_tokenizer(spec)[0]


def _upstream_tokenizer(spec: ModelSpec) -> tuple[Tokenizer, Any]:
    from safetyrepro.engine.tokenizer import FastTokenizer, read_tokenizer

    folder = Path(spec.tokenizer or "").expanduser()
    hugging_face = read_tokenizer(folder)
    if hugging_face.eos_token_id is None:
        raise InputError(f"{folder}: names no end-of-sequence token; set eos_token in tokenizer_config.json.")
    tokenizer = FastTokenizer(hugging_face, frozenset({hugging_face.eos_token_id}))
    tokenizer.check_round_trip(str(folder))
    return tokenizer, hugging_face


def _reach(spec: ModelSpec, url: str) -> Served:
    from safetyrepro.engine.tokenizer import tokenizer_folder
    from safetyrepro.gateway.upstream import Upstream

    tokenizer, hugging_face = _upstream_tokenizer(spec)
    backend = Upstream(url, model=spec.id, tokenizer=tokenizer)
    try:
        listed = backend.model(spec.id)
    except InputError:
        backend.close()
        raise
    stated = [listed[key] for key in LENGTH_KEYS if type(listed.get(key)) is int and listed[key] > 0]
    known = hugging_face.model_max_length
    max_length, source = (
        (stated[0], "the server")
        if stated
        else (int(known), "the tokenizer's folder")
        if known < LONGEST
        else (UNSTATED_LENGTH, "nobody; a cautious guess")
    )
    info = ModelInfo(
        name=Path(spec.id).name,
        weights_sha256=None,
        weights_verified=False,
        files_sha256=None,
        source_quant=spec.source_quant,
        numerics=UPSTREAM,
        details={"server": url, "max_length": f"{max_length}, stated by {source}"},
        licence=None,
        tokenizer_dir=tokenizer_folder(hugging_face, max_length),
        has_chat_template=tokenizer.has_chat_template,
        adds_bos=tokenizer.adds_bos,
        bos_text=hugging_face.bos_token,
        eos_text=hugging_face.eos_token,
        max_length=max_length,
    )
    digest = info.tokenizer_dir.name
    return Served(backend, replace(info, details={**info.details, "tokenizer": digest}), tokenizer)
