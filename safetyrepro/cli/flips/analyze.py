"""`safetyrepro flips analyze`: count what an update loses and wins, and hold it to a margin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.flips.printing import print_update, report_files, write_report
from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFolder, XmlFile, not_an_input

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FINDING, EXIT_INCONCLUSIVE = 1, 3
METRICS = ("nfr", "nfr_old_correct")


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="TABLE_OR_DIR...", type=click.Path(path_type=Path))
@click.option("--old", required=True, help="The model before the update.")
@click.option("--new", required=True, help="The model after it.")
@click.option("--benchmark", help="Only this benchmark.")
@click.option("--config", help="Only this configuration: its config_id, the id's beginning, or a label as printed.")
@click.option("--new-config", help="The new model's configuration where it is another (a template or suite update).")
@click.option("--again", metavar="MODEL", help="Name under which the old model ran a second time, for its churn.")
@click.option(
    "--right-at", type=float, callback=finite, help="Right from this score on (else 0.5, of scores from 0 to 1)."
)
@click.option("--by", metavar="COLUMN", help="Column to group items by (else category, else cluster).")
@click.option("--fail-on", multiple=True, metavar="METRIC=MARGIN", help="Gate: nfr=0.02, or nfr_old_correct=0.03.")
@click.option("--junit", type=XmlFile(), help="Write the gate's verdict as JUnit XML.")
@click.option("--signal", "only", multiple=True, metavar="NAME", help="Look at this signal alone; repeatable.")
@click.option("--lower", multiple=True, metavar="NAME", help="Low values of this signal mean risk; repeatable.")
@click.option(
    "--target-nfr",
    type=click.FloatRange(0, 1),
    callback=finite,
    help="Rate to bring the system to by routing (else half).",
)
@click.option("--all-signals", is_flag=True, help="Study signals under every configuration, not for a single one only.")
@click.option("--out", type=OutFolder(), help="Folder for flips.json and flips.html.")
@click.option("--redact", is_flag=True, help="Leave prompts and answers out.")
@click.option("--json", "as_json", is_flag=True, help="Print flips.json instead of sentences.")
def analyze(
    tables: tuple[Path, ...],
    old: str,
    new: str,
    benchmark: str | None,
    config: str | None,
    new_config: str | None,
    again: str | None,
    right_at: float | None,
    by: str | None,
    fail_on: tuple[str, ...],
    junit: Path | None,
    only: tuple[str, ...],
    lower: tuple[str, ...],
    target_nfr: float | None,
    all_signals: bool,
    out: Path | None,
    redact: bool,
    as_json: bool,
) -> int:
    """Count what an update loses and wins, from score tables or folders of records (TABLE_OR_DIR).

    Exit code 1 where a rate is shown to be above its --fail-on margin, 3 where it is shown to be neither above nor
    below.

    \b
    Example:
      safetyrepro flips analyze out --old smollm2 --new smollm2-nf4 --fail-on nfr=0.02
      safetyrepro flips analyze scores.csv --old v1 --new v2 --config zero-shot --json
    """
    from safetyrepro.errors import InputError
    from safetyrepro.flips.report import Question, build_flips
    from safetyrepro.flips.scores import find_column, find_model, read_outcomes, right_from
    from safetyrepro.flips.selection import comparisons
    from safetyrepro.flips.signal_table import signals_csv
    from safetyrepro.progress import progress

    margins = _margins(fail_on)
    if junit is not None and not margins:
        raise InputError("--junit writes the gate's verdict; name a margin with --fail-on, such as nfr=0.02.")
    table = None if out is None else out / "signals.csv"
    for path in (*report_files(out, "flips"), *(() if table is None else (table,))):
        not_an_input(path, tables)
    outcomes = read_outcomes(tables)
    frame = outcomes.frame
    for name in outcomes.unfinished:
        click.echo(f"Not ended yet: {name}", err=True)
    names = [find_model(frame, name, option) for name, option in ((old, "--old"), (new, "--new"))]
    if by is not None:
        find_column(outcomes, by, "--by")
    compared = comparisons(frame, *names, benchmark=benchmark, config=config, new_config=new_config)
    question = Question(
        old=names[0],
        new=names[1],
        again=None if again is None else find_model(frame, again, "--again"),
        right_at=right_from(frame, names, {c.old.benchmark for c in compared}, right_at),
        by=by,
        margins=margins,
        target=target_nfr,
        only=only,
        lower=lower,
        redact=redact,
    )
    with progress(quiet=len(compared) == 1) as watch:
        task = watch.task("configurations", len(compared))
        signals = all_signals or len(compared) == 1
        body, studied = build_flips(frame, question, compared, signals=signals, step=task.update)
        task.finish(f"{len(compared)} compared")
    more = {table: signals_csv(studied)} if table is not None and studied else {}
    return _show(body, out=out, more=more, junit=junit, as_json=as_json)


def _margins(given: Sequence[str]) -> dict[str, float]:
    from safetyrepro.errors import InputError

    margins: dict[str, float] = {}
    for text in given:
        metric, _, margin = text.partition("=")
        try:
            value = float(margin)
        except ValueError:
            value = -1.0
        if metric not in METRICS or not 0 < value < 1:
            raise InputError(
                f"--fail-on is {text!r}, it should be METRIC=MARGIN with METRIC one of {', '.join(METRICS)} and a "
                "MARGIN between 0 and 1, such as nfr=0.02."
            )
        if metric in margins:
            raise InputError(f"--fail-on names {metric} twice; give one margin for it.")
        margins[metric] = value
    return margins


def _show(
    body: dict[str, Any], *, out: Path | None, more: Mapping[Path, str], junit: Path | None, as_json: bool
) -> int:
    from safetyrepro.flips.finding import entries_of, gate_sentence, next_steps

    entries = entries_of(body)
    several = len(entries) > 1
    paths = write_report(body, out, "flips", more)
    gates = [
        (e["config"], gate, gate_sentence(gate, e["config"] if several else "")) for e in entries for gate in e["gates"]
    ]
    if junit is not None:
        from safetyrepro.atomic import write_text
        from safetyrepro.flips.junit import junit_xml

        write_text(junit, junit_xml(f"{body['old']} to {body['new']}", gates))
        paths.append(junit)
    code = {"FAIL": EXIT_FINDING, "INCONCLUSIVE": EXIT_INCONCLUSIVE}.get(body["gate"] or "", 0)
    if as_json:
        click.echo(json.dumps(body, indent=1, allow_nan=False))
        return code
    print_update(body)
    for _, _, words in gates:
        click.echo(words)
    for path in paths:
        click.echo(f"Written: {path}")
    where = "" if out is not None else " --out DIR writes a page with every flipped item."
    click.echo(f"Next: {next_steps(body)[0]}{where}")
    return code
