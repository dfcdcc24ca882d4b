"""`safetyrepro envelope`: plan a grid, seal it, run it, verify it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFolder
from safetyrepro.plurals import counted, lasting

if TYPE_CHECKING:
    from safetyrepro.envelope.grid import Envelope
    from safetyrepro.envelope.verify import Verdict

EXIT_FINDING, EXIT_INCONCLUSIVE = 1, 3
DISCORDANT = (0.1, 0.2, 0.3, 0.5)
"""Shares of discordant items that a plan shows where none is named."""


@click.group()
def envelope() -> None:
    """Plan a grid of configurations, seal the plan, run it, and prove that the results are the plan's."""


def _narrowing(command: Any) -> Any:
    for option in (
        click.option(
            "--data-dir", type=click.Path(path_type=Path), help="Folder of official data (else SAFETYREPRO_DATA)."
        ),
        click.option("--benchmark", "benchmarks", multiple=True, help="Only this benchmark; repeatable."),
        click.option("--model", "models", multiple=True, help="Only this model of the envelope; repeatable."),
        click.option("--limit", type=click.IntRange(min=1), help="Only this many items of each benchmark."),
    ):
        command = option(command)
    return command


@envelope.command()
@click.argument("grid", metavar="ENVELOPE", type=click.Path(path_type=Path))
@_narrowing
@click.option(
    "--difference",
    type=click.FloatRange(0, 100, min_open=True),
    callback=finite,
    help="Difference to detect, in points.",
)
@click.option(
    "--discordant",
    type=click.FloatRange(0, 100, min_open=True),
    callback=finite,
    help="Share of items on which exactly one of two models is right, in points of 100.",
)
@click.option(
    "--design-effect",
    type=click.FloatRange(min=1),
    callback=finite,
    default=1.0,
    show_default=True,
    help="How many clustered items are worth one independent item.",
)
@click.option("--measure", is_flag=True, help="Load each model and run a sample, to tell the time.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan's figures as JSON.")
def plan(
    grid: Path,
    limit: int | None,
    models: tuple[str, ...],
    benchmarks: tuple[str, ...],
    data_dir: Path | None,
    difference: float | None,
    discordant: float | None,
    design_effect: float,
    measure: bool,
    as_json: bool,
) -> None:
    """List the cells, items, prompts and tokens of ENVELOPE (a YAML file), with what they cost. Nothing is run.

    With --difference it says how many items a question of that size needs.

    \b
    Example:
      safetyrepro envelope plan anchor_configs/envelope/embedded.yaml --limit 4
      safetyrepro envelope plan anchor_configs/envelope/reference.yaml --difference 5 --discordant 25
    """
    from safetyrepro.envelope.summary import items_for, plan_summary
    from safetyrepro.progress import progress

    chosen = _envelope(grid, limit, models, benchmarks)
    with progress() as watch:
        body = plan_summary(chosen, _data(data_dir), watch.say, measure=measure)
    if difference is not None:
        shares = (discordant / 100,) if discordant is not None else DISCORDANT
        most = max(Counter(row["benchmark"] for row in body["cells"]).values()) // len(body["models"])
        body["items_needed"] = items_for(difference / 100, shares, design_effect, most)
    if as_json:
        click.echo(json.dumps(body, indent=1, allow_nan=False))
        return
    _print_plan(body)
    given = [*_again("--limit", [] if limit is None else [limit]), *_again("--model", models)]
    given += [*_again("--benchmark", benchmarks), *_again("--data-dir", [] if data_dir is None else [data_dir])]
    click.echo(f"\nNext: {shlex.join(['safetyrepro', 'envelope', 'seal', str(grid), *given, '--out', 'sealed'])}")


@envelope.command()
@click.argument("grid", metavar="ENVELOPE", type=click.Path(path_type=Path))
@_narrowing
@click.option("--out", required=True, type=OutFolder(), help="Folder of the sealed run; empty or new.")
@click.option("--json", "as_json", is_flag=True, help="Print the seal as JSON.")
def seal(
    grid: Path,
    limit: int | None,
    models: tuple[str, ...],
    benchmarks: tuple[str, ...],
    data_dir: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Write the plan of ENVELOPE with the hash of everything that decides its results, and print the seal.

    \b
    Example:
      safetyrepro envelope seal anchor_configs/envelope/embedded.yaml --limit 4 --out sealed
    """
    from safetyrepro.envelope.items import Items
    from safetyrepro.envelope.plan import build_plan
    from safetyrepro.envelope.seal import write_seal
    from safetyrepro.progress import progress

    chosen = _envelope(grid, limit, models, benchmarks)
    with progress() as watch:
        planned = build_plan(chosen, Items(_data(data_dir)), watch.say)
        sealed = write_seal(planned, out)
    doubts = [f"{one.what}: {one.reason}" for one in sealed.plan.unverified]
    cells = sum(len(shard.cells) for shard in sealed.plan.shards)
    if as_json:
        body = {"seal": sealed.seal, "cells": cells, "shards": len(sealed.plan.shards), "unverified": doubts}
        click.echo(json.dumps(body, indent=1))
        return
    for doubt in doubts:
        click.echo(f"Unverified: {doubt}")
    shards = counted(len(sealed.plan.shards), "shard")
    click.echo(f"Sealed {counted(cells, 'cell')} in {shards}: {out / 'plan.json'}")
    click.echo(f"Seal: {sealed.seal}")
    click.echo(f"Next: publish the seal, then run: safetyrepro envelope run {out}")


@envelope.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of official data (else SAFETYREPRO_DATA).")
@click.option("--json", "as_json", is_flag=True, help="Print what was run as JSON.")
def run(folder: Path, data_dir: Path | None, as_json: bool) -> None:
    """Run the sealed plan in FOLDER; what is finished is kept, so that the same command goes on after a stop.

    \b
    Example:
      safetyrepro envelope run sealed
    """
    from dataclasses import asdict

    from safetyrepro.envelope.run import run_sealed
    from safetyrepro.progress import progress

    with progress() as watch:
        done = run_sealed(folder, _data(data_dir), watch)
    if as_json:
        click.echo(json.dumps(asdict(done), indent=1))
        return
    kept = f" ({done.kept} kept from before)" if done.kept else ""
    shards = counted(done.shards, "shard")
    click.echo(f"{counted(done.cells, 'cell')} in {shards}{kept}, {counted(done.rows, 'row')}.")
    click.echo(f"Seal: {done.seal}\nHead: {done.head}")
    click.echo(
        "Next: publish both; anybody can hold the folder to them: "
        f"safetyrepro envelope verify {folder} --seal {done.seal[:8]}... --head {done.head[:8]}...\n"
        f"      safetyrepro grid {folder} --out {folder}-grid"
    )


@envelope.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seal", "published_seal", metavar="H", help="The seal as published (64 hex digits).")
@click.option("--head", "published_head", metavar="H", help="The ledger's head as published (64 hex digits).")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def verify(folder: Path, published_seal: str | None, published_head: str | None, as_json: bool) -> int:
    """Prove that the results in FOLDER are what their seal promised.

    Ends with 1 where anything differs, with 3 where the plan was not run yet.

    \b
    Example:
      safetyrepro envelope verify sealed
    """
    from safetyrepro.envelope.verify import verify as check
    from safetyrepro.progress import progress

    for option, value in (("--seal", published_seal), ("--head", published_head)):
        _hex(option, value)
    with progress() as watch:
        verdict = check(folder, seal=published_seal, head=published_head, watch=watch)
    if as_json:
        body = {
            "holds": verdict.holds,
            "started": verdict.started,
            "seal": verdict.seal,
            "head": verdict.head,
            "shards": {"as_promised": verdict.shards, "promised": verdict.promised},
            "cells": verdict.cells,
            "rows": verdict.rows,
            "unverified": list(verdict.unverified),
            "problems": [{"where": one.where, "what": one.what} for one in verdict.problems],
        }
        click.echo(json.dumps(body, indent=1))
        return _code(verdict)
    for doubt in verdict.unverified:
        click.echo(f"Unverified: {doubt}")
    if not verdict.started:
        planned = f"{counted(verdict.cells, 'cell')} in {counted(verdict.promised, 'shard')}"
        click.echo(f"Seal: {verdict.seal}\nNot run yet: the plan is as sealed, and none of its {planned} has a result.")
        click.echo(f"Next: safetyrepro envelope run {folder}")
        return _code(verdict)
    for one in verdict.problems:
        click.echo(f"DIFFERS  {one.where}: {one.what}")
    click.echo(f"Seal: {verdict.seal}\nHead: {verdict.head or 'no ledger'}")
    if not verdict.holds:
        click.echo(
            f"{counted(len(verdict.problems), 'difference')}; {verdict.shards} of "
            f"{counted(verdict.promised, 'shard')} as sealed."
        )
        click.echo(
            "Next: get an unchanged copy, or go on with an unfinished run: safetyrepro envelope run " + str(folder)
        )
        return _code(verdict)
    click.echo(
        f"As sealed: {counted(verdict.cells, 'cell')} in {counted(verdict.shards, 'shard')}, "
        f"{counted(verdict.rows, 'row')}."
    )
    if published_seal is None or published_head is None:
        click.echo("Its owner could have made all of it anew: hold it to a published --seal and --head.")
    click.echo(f"Next: safetyrepro grid {folder}")
    return 0


def _code(verdict: Verdict) -> int:
    if verdict.holds:
        return 0
    return EXIT_FINDING if verdict.problems else EXIT_INCONCLUSIVE


def _again(option: str, values: Iterable[object]) -> list[str]:
    """An option as it was given, for a command that is to follow."""
    return [word for value in values for word in (option, str(value))]


def _hex(option: str, value: str | None) -> None:
    if value is not None and (len(value) != 64 or set(value) - set("0123456789abcdef")):
        raise click.BadParameter(f"{value[:80]!r} is not 64 lower-case hex digits.", param_hint=option)


def _envelope(path: Path, limit: int | None, models: tuple[str, ...], benchmarks: tuple[str, ...]) -> Envelope:
    from safetyrepro.envelope.grid import cells, load_envelope, narrowed
    from safetyrepro.errors import InputError

    chosen = narrowed(load_envelope(path), limit=limit, models=models, benchmarks=benchmarks)
    try:
        cells(chosen)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return chosen


def _data(data_dir: Path | None) -> Path | None:
    from safetyrepro.paths import data_dir as find

    return find(data_dir)


def _print_plan(body: Mapping[str, Any]) -> None:
    click.echo(
        f"Envelope {body['envelope']}: {counted(len(body['cells']), 'cell')}, {counted(body['shards'], 'shard')}"
    )
    tiers = list(body["tiers"])
    click.echo(f"\n{'benchmark':<14}{'items':>8}" + "".join(f"{tier:>14}" for tier in tiers) + "   (cells)")
    for name, one in body["benchmarks"].items():
        items = "?" if one["items"] is None else str(one["items"])
        click.echo(f"{name:<14}{items:>8}" + "".join(f"{one['tiers'][tier]:>14}" for tier in tiers))
    click.echo(f"{'all':<14}{'':>8}" + "".join(f"{body['tiers'][tier]:>14}" for tier in tiers))
    for one in body["estimates"]:
        click.echo(
            f"\n{one['model']}: {counted(one['cells'], 'cell')}, {counted(one['requests'], 'request')}, "
            f"{one['unique_requests']:,} of them different, {counted(one['prompts'], 'prompt')}\n"
            f"  {counted(one['tokens'], 'token')} to read ({one['tokens_once']:,} with "
            f"common beginnings once), up to {one['generated_at_most']:,} to write"
        )
        if one["seconds"] is not None:
            said = "measured on a sample" if one["measured"] else "at least, by this machine's matrix product"
            click.echo(f"  time {lasting(one['seconds'])} ({said}), memory about {one['memory_bytes'] / 1e9:.1f} GB")
    for line in (*body["unresolved"], *body["unverified"]):
        click.echo(f"Not verified: {line}")
    for line in body["blocks"]:
        click.echo(f"Blocks sealing: {line}")
    if "items_needed" in body:
        _print_needed(body["items_needed"])


def _print_needed(needed: Mapping[str, Any]) -> None:
    click.echo(f"\nItems to tell a difference of {needed['difference'] * 100:g} points (power 0.8, two-sided 5%):")
    for row in needed["rows"]:
        shown = "not possible: a difference is at most the discordant share"
        if row["items"] is not None:
            shown = (
                f"{row['items']:,}; {row['items_adjusted']:,} where it must hold in one of "
                f"{needed['configurations']} configurations by itself (Bonferroni)"
            )
        click.echo(f"  {row['discordant'] * 100:g}% of items discordant: {shown}")
