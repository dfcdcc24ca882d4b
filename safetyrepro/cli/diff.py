"""`safetyrepro diff`: why two runs of the same evaluation differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.gating import gate_options
from safetyrepro.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from safetyrepro.crosspkg.attribution import Attribution
    from safetyrepro.crosspkg.divergence import ClassFound, Difference
    from safetyrepro.crosspkg.sides import Side
    from safetyrepro.progress import Progress

SHOWN_ITEMS = 4


@click.command()
@click.argument("a", required=False, type=click.Path(path_type=Path))
@click.argument("b", required=False, type=click.Path(path_type=Path))
@click.option("--list", "list_detectors", is_flag=True, help="List the detectors and the classes they name.")
@click.option("--attribute", is_flag=True, help="Say how much of the gap each component makes, from stored outputs.")
@click.option("--model", help="The model that both asked: hybrids that need it are scored natively (with --attribute).")
@gate_options
@click.option("--redact", is_flag=True, help="Leave out the evidence, which quotes prompts and outputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def diff(
    a: Path | None,
    b: Path | None,
    list_detectors: bool,
    attribute: bool,
    model: str | None,
    fail_on: tuple[str, ...],
    suppress: Path | None,
    junit: Path | None,
    redact: bool,
    as_json: bool,
) -> int:
    """Name what differs between A and B: in what was sent, what the model saw, and how its answers were read.

    A and B are wire sets (JSONL), folders of records, or cells of an experiment.

    \b
    Example:
      safetyrepro diff first.jsonl second.jsonl
      safetyrepro diff out/cells/ONE out/cells/OTHER --attribute --fail-on spread=2,class=bos
    """
    if list_detectors:
        _list(as_json)
        return 0
    from safetyrepro.cli.gating import conclude
    from safetyrepro.crosspkg.gate import check_difference, parse_gate, read_suppressions
    from safetyrepro.errors import InputError
    from safetyrepro.progress import progress

    if a is None or b is None:
        raise InputError("name two sides, A and B: wire sets (.jsonl) or folders of records; --list needs none.")
    if model is not None and not attribute:
        raise InputError("--model is for --attribute: give both, or leave it out.")
    gate, accepted = parse_gate(fail_on), read_suppressions(suppress)
    if gate.drift is not None:
        raise InputError("--fail-on drift=POINTS needs a baseline: it is for `safetyrepro anchor report --baseline`.")
    from safetyrepro.crosspkg.causes import attribution_json, difference_json
    from safetyrepro.crosspkg.divergence import diff_sides

    with progress() as watch:
        side_a, side_b = _open(a, b, watch)
        difference = diff_sides(side_a, side_b)
        parts = _attribute(side_a, side_b, difference, model, watch) if attribute else None
    body = difference_json(difference, redact=redact)
    if attribute:
        body["attribution"] = None if parts is None else attribution_json(parts)
    if as_json:
        click.echo(json.dumps(body, indent=1))
    else:
        _print(difference, parts, attribute, redact=redact)
    code = conclude(check_difference(body, gate, accepted), junit, quiet=as_json)
    if not as_json:
        click.echo(_next(difference, attribute, model))
    return code


def _attribute(a: Side, b: Side, difference: Difference, model: str | None, watch: Progress) -> Attribution | None:
    from safetyrepro.crosspkg.attribution_scoring import attribute_sides

    if model is None:
        return attribute_sides(a, b, difference)
    from safetyrepro.config import ModelSpec
    from safetyrepro.engine import load

    watch.say(f"Loading {model}")
    engine = load(ModelSpec(id=model))
    try:
        return attribute_sides(a, b, difference, engine=engine, progress=watch.say)
    finally:
        engine.close()


def _open(a: Path, b: Path, watch: Progress) -> tuple[Side, Side]:
    """Both sides, under names that tell them apart."""
    from safetyrepro.crosspkg.sides import open_side

    watch.say(f"Reading {a} and {b}")
    side_a, side_b = open_side(a), open_side(b)
    if side_a.name != side_b.name:
        return side_a, side_b
    return replace(side_a, name=str(a)), replace(side_b, name=str(b))


def _list(as_json: bool) -> None:
    from safetyrepro.crosspkg.divergence import DETECTORS

    if as_json:
        rows = [{"name": d.name, "classes": list(d.classes), "looks_at": d.looks_at} for d in DETECTORS]
        click.echo(json.dumps({"detectors": rows}, indent=1))
        return
    for detector in DETECTORS:
        click.echo(f"{detector.name}: {', '.join(detector.classes)}")
        click.echo(f"    {detector.looks_at}")
    click.echo("Next: safetyrepro diff A B")


def _print(difference: Difference, parts: Attribution | None, asked: bool, *, redact: bool) -> None:
    for warning in difference.warnings:
        click.echo(f"Note: {warning}", err=True)
    sides = f"{difference.a} against {difference.b}"
    click.echo(f"{sides}: {counted(difference.n, 'shared item')}, {difference.scored} scored by both")
    if any(suite.name is not None for suite in difference.suites):
        click.echo(f"Written by {_short(str(difference.suites[0]))}; and by {_short(str(difference.suites[1]))}")
    if difference.gap_points is not None and difference.score_a is not None and difference.score_b is not None:
        click.echo(
            f"Scores {100 * difference.score_a:.1f} and {100 * difference.score_b:.1f} of 100 "
            f"({difference.gap_points:+.1f} points); {len(difference.changed)} items score differently"
        )
    _print_within(difference)
    if not difference.classes:
        click.echo("Nothing that differs was found.")
        return
    width = max(len(found.id) for found in difference.classes)
    click.echo(f"\n{'class':<{width}}  items  scores changed  accounts for")
    for found in difference.classes:
        accounts = "needs model" if found.accounts_for is None else str(found.accounts_for)
        click.echo(f"{found.id:<{width}}  {len(found.items):>5}  {found.score_changed:>14}  {accounts:>12}")
    click.echo("")
    for found in difference.classes:
        for line in _evidence(found, redact=redact):
            click.echo(line)
    if parts is not None:
        click.echo(f"\n{parts.sentence()}")
        for part in parts.parts:
            interval = "" if part.ci_points is None else f" ({part.ci_points[0]:+.1f} to {part.ci_points[1]:+.1f})"
            click.echo(
                f"  {part.points:+6.1f}{interval}  {' and '.join(part.components)}; first in "
                f"{part.first_in_points:+.1f}, last in {part.last_in_points:+.1f}"
            )
        click.echo(f"  {parts.not_reproduced_points:+6.1f}  not reproduced natively")
        if parts.cost is not None:
            click.echo(f"  {parts.hybrids} hybrids, {parts.cost:.1f} times the sequences of one run")
    elif asked:
        click.echo("\nThere is nothing to attribute: no component of a run differs, or no scored items are shared.")


def _print_within(difference: Difference) -> None:
    """What each side differs from itself, and whether the difference between them is any larger."""
    from safetyrepro.crosspkg.repeats import within_words

    within = difference.within
    if within is None or difference.gap_points is None:
        return
    body = within.to_json()
    for name, side in ((difference.a, body["a"]), (difference.b, body["b"])):
        if side is not None:
            scores = ", ".join(f"{100 * score:.1f}" for score in side["scores"])
            changed = len(side["score_changed"])
            click.echo(f"Repeats of {name}: {scores} ({side['spread_points']:.1f} apart; {changed} items change score)")
    if difference.changed and body["inside"]:
        click.echo(f"The difference of {abs(difference.gap_points):.1f} points lies {within_words(body)}.")


def _evidence(found: ClassFound, *, redact: bool) -> Iterator[str]:
    more = f" and {len(found.items) - SHOWN_ITEMS} more" if len(found.items) > SHOWN_ITEMS else ""
    yield f"{found.id}: {_short(', '.join(found.items[:SHOWN_ITEMS]))}{more}"
    for name, value in () if redact else found.evidence.items():
        shown = value[0] if isinstance(value, list) and value else value
        for line in _lines(name, shown):
            yield f"    {line}"


def _lines(name: str, value: Any) -> Iterator[str]:
    """Evidence of two sides on two lines, so that they stand under each other."""
    if isinstance(value, dict) and {"a", "b"} <= value.keys():
        rest = {key: entry for key, entry in value.items() if key not in ("a", "b")}
        yield f"{name}: {_short(rest)}" if rest else f"{name}:"
        yield f"  A  {_short(value['a'])}"
        yield f"  B  {_short(value['b'])}"
    else:
        yield f"{name}: {_short(value)}"


def _short(value: Any, longest: int = 160) -> str:
    from safetyrepro.reports.visible import plain

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return plain(text, longest)


def _next(difference: Difference, attribute: bool, model: str | None) -> str:
    if not difference.classes:
        return "Next: nothing asks for action."
    if not attribute:
        return "Next: the same with --attribute says how much of the gap each component makes."
    return (
        "Next: --model NAME scores the hybrids that stored outputs cannot give."
        if model is None
        else "Next: hold fixed what makes the largest part, and run again."
    )
