"""`safetyrepro flips signals`: compare signals over tasks and updates."""

from __future__ import annotations

import json
from pathlib import Path

import click

from safetyrepro.cli.flips.printing import print_signals, report_files, write_report
from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFolder, not_an_input


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="SIGNALS...", type=click.Path(path_type=Path))
@click.option("--signal", "only", multiple=True, metavar="NAME", help="Look at this signal alone; repeatable.")
@click.option("--lower", multiple=True, metavar="NAME", help="Low values of this signal mean risk; repeatable.")
@click.option(
    "--target-nfr",
    type=click.FloatRange(0, 1),
    callback=finite,
    help="Rate to bring the system to by routing (else half).",
)
@click.option("--out", type=OutFolder(), help="Folder for signals.json and signals.html.")
@click.option("--json", "as_json", is_flag=True, help="Print signals.json instead of sentences.")
def signals(
    tables: tuple[Path, ...],
    only: tuple[str, ...],
    lower: tuple[str, ...],
    target_nfr: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare signals on tables of items (SIGNALS), for every task and update, and over all of them.

    Columns: item_id, old_correct, new_correct, one per signal; optional update, task, cluster.

    \b
    Example:
      safetyrepro flips signals quantised.csv template.csv --out signals
    """
    from safetyrepro.flips.finding import signal_sentences, summary_sentences
    from safetyrepro.flips.signal_report import build_signals
    from safetyrepro.flips.signal_table import read_signal_tables
    from safetyrepro.plurals import counted
    from safetyrepro.progress import progress

    for path in report_files(out, "signals"):
        not_an_input(path, tables)
    read = read_signal_tables(tables, lower=lower, only=only)
    with progress(quiet=as_json) as watch:
        task = watch.task("signals", len(read))
        body = build_signals(read, target_nfr, step=task.update)
        task.finish(f"{len(read)} compared")
    paths = write_report(body, out, "signals")
    if as_json:
        click.echo(json.dumps(body, indent=1, allow_nan=False))
        return
    for entry in body["updates"]:
        lost = f"{entry['negative_flips']} of {counted(entry['items'], 'item')} lost"
        click.echo(f"\n{entry['update']}, {entry['task']}: {lost}.")
        for sentence in signal_sentences(entry):
            click.echo(f"  {sentence}")
        print_signals(entry)
    for sentence in summary_sentences(body["summary"]):
        click.echo(f"\n{sentence}")
    for path in paths:
        click.echo(f"Written: {path}")
    click.echo("Next: safetyrepro flips policy SIGNALS --signal NAME --target-nfr RATE --out policy.json")
