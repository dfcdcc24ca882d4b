"""`safetyrepro card`: what was run and what nobody can tell, as a GRID card; and what a card leaves open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.outputs import OutFolder

if TYPE_CHECKING:
    from safetyrepro.analysis.card.difference import Difference
    from safetyrepro.analysis.card.model import Card
    from safetyrepro.analysis.card.openness import Gap

EXIT_FINDING = 1
FEWEST_DRAWS, MOST_DRAWS = 9_999, 1_000_000
OPEN = ("open", "decisive", "trust", "repeat", "context")
_LISTED = 8


class _CardGroup(click.Group):
    """A group whose first word may be a folder: `card DIR` is `card make DIR`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["make", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CardGroup)
def card() -> None:
    """Write the GRID card of a run, or say what a card leaves open.

    `safetyrepro card DIR` is `safetyrepro card make DIR`.

    \b
    Example:
      safetyrepro card sealed
      safetyrepro card check sealed/card.json --fail-on decisive=1
    """


@card.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", type=OutFolder(), help="Folder for card.json, card.md and card.html; else DIR.")
@click.option(
    "--tier", default="full", show_default=True, help="Tier of the stability results: full, core, conservative."
)
@click.option(
    "--draws",
    type=click.IntRange(FEWEST_DRAWS, MOST_DRAWS),
    default=FEWEST_DRAWS,
    show_default=True,
    help="Random draws.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the draws; the card says it.")
@click.option("--json", "as_json", is_flag=True, help="Print the card as JSON instead of a summary.")
def make(folder: Path, out: Path | None, tier: str, draws: int, seed: int | None, as_json: bool) -> None:
    """Write the card of the run in DIR: a sealed envelope, an anchor run, or imported logs.

    What the run cannot show is written "not disclosed" or "unverified", with the reason.

    \b
    Example:
      safetyrepro card sealed
      safetyrepro card make imported --out cards
    """
    from safetyrepro.analysis.card.openness import gaps
    from safetyrepro.analysis.resampling import SEED
    from safetyrepro.card.file import write_card
    from safetyrepro.card.source import derive
    from safetyrepro.card.stability import Computation
    from safetyrepro.card.words import headline
    from safetyrepro.progress import progress

    with progress() as watch:
        made = derive(folder, Computation(tier, draws, SEED if seed is None else seed), watch)
    written = write_card(made, folder if out is None else out)
    if as_json:
        click.echo(json.dumps(made.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False))
        return
    found = gaps(made)
    click.echo(_line(headline(made, found)))
    _print_gaps(found, reasons=False)
    for path in written:
        click.echo(f"Written: {path}")
    click.echo(f"Next: open {written[2]} in a browser, or: safetyrepro card check {written[0]}")


@card.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--run", "run_folder", metavar="DIR", type=click.Path(path_type=Path), help="Hold the card to the run in DIR."
)
@click.option(
    "--fail-on",
    multiple=True,
    metavar="WHAT=N",
    help="Exit with 1 from N open fields on: open=N (all), decisive=N, trust=N, repeat=N, context=N; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def check(file: Path, run_folder: Path | None, fail_on: tuple[str, ...], as_json: bool) -> int:
    """Say what the card FILE (card.json) leaves open, by how much it matters, and hold it to its schema.

    Where FILE lies in the folder of its run, or --run names it, the card is derived anew; ends with 1 where it differs.

    \b
    Example:
      safetyrepro card check sealed/card.json
      safetyrepro card check card.json --run sealed --fail-on decisive=1
    """
    limits = [_limit(text) for text in fail_on]
    from safetyrepro.analysis.card.openness import counts, gaps
    from safetyrepro.card.file import read_card
    from safetyrepro.card.source import kind_of
    from safetyrepro.card.words import headline, next_steps

    read = read_card(file)
    found = gaps(read)
    tally = counts(found)
    folder = run_folder
    if folder is None and kind_of(file.parent) is not None:
        folder = file.parent
    differing = None if folder is None else _differences(read, folder)
    over = [f"{name}: {tally[name]} open, the limit is {most}" for name, most in limits if tally[name] >= most]
    if as_json:
        click.echo(json.dumps(_report(file, read, found, folder, differing), indent=1, ensure_ascii=False))
    else:
        click.echo(_line(headline(read, found)))
        _print_gaps(found, reasons=True)
        _print_run(folder, differing)
    for line in over:
        click.echo(f"Over the threshold: {line}", err=True)
    if not as_json:
        click.echo(f"Next: {_line(_next(file, folder, differing, next_steps(read, found)))}")
    return EXIT_FINDING if over or differing else 0


@card.command()
@click.option("--json", "as_json", is_flag=True, help="The same: a schema is JSON.")
def schema(as_json: bool) -> None:  # noqa: ARG001
    """Print the JSON Schema of a card.

    \b
    Example:
      safetyrepro card schema > card.schema.json
    """
    from importlib.resources import files

    click.echo((files("safetyrepro.card") / "card.schema.json").read_text(encoding="utf-8"), nl=False)


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in OPEN or not number.isascii() or not number.isdecimal() or len(number) > 9 or int(number) < 1:
        raise click.BadParameter(
            f"{text[:80]!r} is none of {', '.join(f'{one}=N' for one in OPEN)} with N from 1.", param_hint="--fail-on"
        )
    return name, int(number)


def _differences(read: Card, folder: Path) -> tuple[Difference, ...]:
    from safetyrepro.analysis.card.difference import differences
    from safetyrepro.card.source import derive
    from safetyrepro.card.stability import Computation
    from safetyrepro.progress import progress

    how = read.stability
    with progress() as watch:
        return differences(read, derive(folder, Computation(how.tier, how.draws, how.seed), watch))


def _report(
    file: Path, read: Card, found: Sequence[Gap], folder: Path | None, differing: Sequence[Difference] | None
) -> dict[str, Any]:
    from dataclasses import asdict

    from safetyrepro.analysis.card.fields import GROUPS
    from safetyrepro.analysis.card.openness import counts

    return {
        "file": str(file),
        "kind": read.kind,
        **counts(tuple(found)),
        "groups": {name: [asdict(gap) for gap in found if gap.weight == name] for name in GROUPS},
        "run": None
        if differing is None
        else {
            "folder": str(folder),
            "matches": not differing,
            "differences": [asdict(one) for one in differing],
        },
    }


def _print_gaps(found: Sequence[Gap], *, reasons: bool) -> None:
    from safetyrepro.analysis.card.fields import GROUPS

    for name, title in GROUPS.items():
        own = [gap for gap in found if gap.weight == name]
        if not own:
            continue
        click.echo(f"\n{title}:")
        for gap in own:
            named = ", ".join(gap.of[:3]) + (f" and {len(gap.of) - 3} more" if len(gap.of) > 3 else "")
            of = f" ({named})" if named else ""
            click.echo(_line(f"  {gap.label}{of}: {gap.state}" + (f"; {gap.reason}" if reasons else "")))
    if found:
        click.echo("")


def _print_run(folder: Path | None, differing: Sequence[Difference] | None) -> None:
    if differing is None:
        click.echo("Not held to a run: the card lies in no run's folder, and --run names none.")
    elif not differing:
        click.echo(f"As its run has it: {folder}")
    else:
        for one in differing[:_LISTED]:
            click.echo(f"DIFFERS  {_line(f'{one.path}: the card says {_short(one.card)}, the run {_short(one.run)}')}")
        if len(differing) > _LISTED:
            click.echo(f"and {len(differing) - _LISTED} more (--json lists them)")


def _next(file: Path, folder: Path | None, differing: Sequence[Difference] | None, steps: Sequence[str]) -> str:
    if differing:
        return f"write the card anew: safetyrepro card {folder}, and ask who changed this one"
    if folder is None:
        return f"safetyrepro card check {file} --run DIR holds the card to its run's folder"
    return steps[0].replace("`", "")


def _line(text: str) -> str:
    from safetyrepro.crosspkg.importers.values import one_line

    return text[: len(text) - len(text.lstrip())] + one_line(text)


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 90 else f"{shown[:87]}..."
