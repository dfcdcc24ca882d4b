"""`safetyrepro doctor`: check the installation, or what numerics change in a model's sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetyrepro.engine.noise import Variation

EXIT_FINDING = 1
_SHOWN = 10
"""Choices that are listed; JSON holds all."""


@click.command()
@click.option(
    "--numerics", metavar="MODEL", help="Measure what batch size, threads, dtype and mode change in its sums."
)
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="With --numerics: say which choices of this run of MODEL lie within that. MODEL runs as it did there.",
)
@click.option(
    "--quant",
    type=click.Choice(["nf4", "int8", "none"]),
    help="With --numerics and without --run: the quantisation.  [default: nf4]",
)
@click.option(
    "--fail-on",
    type=click.Choice(["broken", "missing"]),
    default="broken",
    show_default=True,
    help="Exit with 1 where something is broken, or also where something is missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def doctor(numerics: str | None, run: Path | None, quant: str | None, fail_on: str, as_json: bool) -> int:
    """Check the installation and say what to do; or measure a model's numerics.

    \b
    Example:
      safetyrepro doctor
      safetyrepro doctor --numerics smollm2-135m-instruct --run out
    """
    from safetyrepro.errors import InputError

    if numerics is not None:
        if run is not None and quant is not None:
            raise InputError(
                "--quant is given with --run, and the run says how its model was quantised: remove --quant."
            )
        _numerics(numerics, run, quant or "nf4", as_json=as_json)
        return 0
    if run is not None or quant is not None:
        raise InputError(f"--{'run' if run is not None else 'quant'} belongs to --numerics MODEL: name the model too.")
    return _installation(fail_on, as_json=as_json)


def _installation(fail_on: str, *, as_json: bool) -> int:
    from safetyrepro.installation import checks
    from safetyrepro.progress import progress

    with progress(quiet=as_json) as watch:
        found = checks(watch.say)
    states = [check.state for check in found]
    failed = "broken" in states or (fail_on == "missing" and "missing" in states)
    if as_json:
        rows = [{"name": one.name, "state": one.state, "found": one.found, "advice": one.advice} for one in found]
        click.echo(json.dumps({"ok": not failed, "checks": rows}, indent=1))
        return EXIT_FINDING if failed else 0
    width = max(len(check.name) for check in found)
    for check in found:
        click.echo(f"{check.state:<7}  {check.name:<{width}}  {check.found}")
    advice = [check.advice for check in found if check.advice is not None]
    for line in advice:
        click.echo(f"Next: {line}")
    if not advice:
        click.echo("Next: safetyrepro anchor run CONFIG --out DIR")
    return EXIT_FINDING if failed else 0


def _numerics(model: str, run: Path | None, quant: str, *, as_json: bool) -> None:
    from safetyrepro import numerics
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine.noise import variations
    from safetyrepro.progress import progress

    choices = None if run is None else numerics.run_choices(run, model)
    spec = ModelSpec.model_validate({"id": model, "quant": quant}) if choices is None else choices.spec
    with progress(quiet=as_json) as watch:
        found = variations(spec, lambda opened: numerics.fixed_candidates(opened.tokenizer), watch.say)
    result: dict[str, Any] = {
        "model": spec.id,
        "quant": spec.quant,
        "compute_dtype": spec.compute_dtype,
        "variations": [vars(one) for one in found],
        "run": None if choices is None else numerics.as_json(choices, found),
    }
    if as_json:
        click.echo(json.dumps(result, indent=1))
        return
    _print_variations(spec.id, spec.quant, found)
    if result["run"] is not None:
        _print_run(result["run"])
    if run is None:
        click.echo(f"Next: safetyrepro doctor --numerics {model} --run DIR, for the choices of a run")
    else:
        click.echo(f"Next: read {run / 'report.html'} with these choices in mind; more items make them matter less")


def _print_variations(model: str, quant: str, found: Sequence[Variation]) -> None:
    click.echo(f"{model} at {quant}: change of an answer's summed logprob, in nats")
    click.echo(
        f"{'what':<11} {'setting':<26} {'against':<33} {'dtype':<9} {'largest':>8} {'median':>8}  choices changed"
    )
    for one in found:
        click.echo(
            f"{one.what:<11} {one.setting:<26} {one.against:<33} {one.dtype:<9} {one.largest:>8.1e} {one.median:>8.1e}"
            f"  {one.choices_changed} of {one.choices}"
        )


def _print_run(run: dict[str, Any]) -> None:
    click.echo(f"{run['choices']} choices of the run ({run['numerics']}) were made by likelihood.")
    if run["not_judged"]:
        click.echo(f"{run['not_judged']} more follow another rule than the config's, and are not judged here.")
    for name, within in run["within"].items():
        count = len(within["choices"])
        click.echo(f"within what {name} changes ({within['noise']:.1e} nats a sum): {count} of {run['choices']}")
        for one in within["choices"][:_SHOWN]:
            click.echo(f"  {one['suite']} {one['arm']} {one['item_id']}: ahead by {one['margin']:.1e}")
        if count > _SHOWN:
            click.echo(f"  and {count - _SHOWN} more, all in --json")
