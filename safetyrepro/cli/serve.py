"""`safetyrepro serve`: one model behind the gateway, for a suite that is started by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from safetyrepro.engine.api import Engine, Tokenizer
    from safetyrepro.gateway import Run, Upstream

RUN_ID = "serve"
TOKEN_VARIABLE = "SAFETYREPRO_TOKEN"  # noqa: S105
WIRE = Path("serve-wire.jsonl")


@click.command()
@click.argument("model")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--quant", default="nf4", type=click.Choice(["nf4", "int8", "none"]), show_default=True)
@click.option(
    "--mode",
    default="exact",
    type=click.Choice(["exact", "shared"]),
    show_default=True,
    help="shared computes beginnings in common once, for speed.",
)
@click.option(
    "--compute-dtype",
    default="float32",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    show_default=True,
)
@click.option("--upstream", help="Base URL of another server of the OpenAI kind; MODEL is its name for the model.")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="Folder of the upstream model's tokenizer, to log the token ids that the model sees.",
)
@click.option(
    "--wire", default=WIRE, type=click.Path(path_type=Path), show_default=True, help="Wire log to write; a new file."
)
@click.option("--no-memo", is_flag=True, help="Compute every request anew; in exact mode nothing changes.")
@click.option("--json", "as_json", is_flag=True, help="Print URL, token and wire log as one line of JSON.")
def serve(
    model: str,
    port: int,
    quant: str,
    mode: str,
    compute_dtype: str,
    upstream: str | None,
    tokenizer: Path | None,
    wire: Path,
    no_memo: bool,
    as_json: bool,
) -> int:
    """Serve MODEL (a pulled name, a folder or a GGUF file) until Ctrl-C.

    Requests need the token that is printed, or the one in SAFETYREPRO_TOKEN, and every one of them is logged. The
    key of an upstream server is read from SAFETYREPRO_UPSTREAM_KEY.

    \b
    Example:
      safetyrepro serve smollm2-135m-instruct --port 8000
      safetyrepro serve org/model --upstream http://127.0.0.1:8001/v1 --tokenizer folder
    """
    from safetyrepro.errors import InputError
    from safetyrepro.gateway import Upstream
    from safetyrepro.gateway.server import bound

    bound(port).close()  # Before minutes are spent on a model that then cannot be served.
    if wire.exists():
        raise InputError(f"Wire log {wire} is there already: move it away, or name another with --wire.")
    if upstream is not None:
        _refuse_numerics(upstream)
        backend = Upstream(upstream, model=model, tokenizer=None if tokenizer is None else _tokenizer(tokenizer))
        _serve(backend, port, wire, memo=False, as_json=as_json)
        return 0
    if tokenizer is not None:
        raise InputError("--tokenizer names an upstream model's tokenizer: give --upstream, or leave it out.")
    engine = _load(model, quant, mode, compute_dtype)
    try:
        _serve(engine, port, wire, memo=not no_memo, as_json=as_json)
    finally:
        engine.close()
    return 0


def _refuse_numerics(upstream: str) -> None:
    from click.core import ParameterSource

    from safetyrepro.errors import InputError

    context = click.get_current_context()
    for name in ("quant", "mode", "compute_dtype"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} has no effect on a model that {upstream} serves: leave it out, or --upstream.")


def _load(model: str, quant: str, mode: str, compute_dtype: str) -> Engine:
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine import load

    spec = ModelSpec.model_validate({"id": model, "quant": quant, "mode": mode, "compute_dtype": compute_dtype})
    return load(spec, progress=lambda line: click.echo(line, err=True))


def _tokenizer(folder: Path) -> Tokenizer:
    from safetyrepro.engine.tokenizer import FastTokenizer, read_tokenizer

    tokenizer = FastTokenizer(read_tokenizer(folder), eos_ids=frozenset())
    tokenizer.check_round_trip(str(folder))
    return tokenizer


def _serve(backend: Engine | Upstream, port: int, wire: Path, *, memo: bool, as_json: bool) -> None:
    import os
    import signal
    import threading

    from safetyrepro.gateway import Gateway

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    token = os.environ.get(TOKEN_VARIABLE)
    with Gateway(backend, port=port) as gateway:
        run = gateway.open_run(RUN_ID, wire, memo=memo, token=token)
        _announce(run, from_environment=token is not None, as_json=as_json)
        stopped.wait()
    click.echo(f"{run.requests} requests; wire log: {wire}", err=as_json)


def _announce(run: Run, *, from_environment: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"base_url": run.base_url, "token": run.token, "wire": str(run.wire_log)}))
        return
    click.echo(f"URL:   {run.base_url}")
    click.echo(f"Token: {f'the one in {TOKEN_VARIABLE}' if from_environment else run.token}")
    click.echo(f"Model: model (any name is taken). Wire log: {run.wire_log}. Ctrl-C stops.")
