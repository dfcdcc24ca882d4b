"""`safetyrepro import`: logs that a suite wrote elsewhere become records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from safetyrepro.cli.outputs import OutFolder
from safetyrepro.plurals import counted

if TYPE_CHECKING:
    from safetyrepro.crosspkg.importers import Summary


@click.command(name="import")
@click.argument("suite", type=click.Choice(["lm_eval", "helm", "inspect_ai"]))
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=OutFolder(), help="A new folder for the records and import.json.")
@click.option("--metric", help="Metric to take for the records' score; else the first of the log that lies in [0, 1].")
@click.option("--model", help="The model's name, for logs that do not hold it.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of a table.")
def import_(suite: str, path: Path, out: Path | None, metric: str | None, model: str | None, as_json: bool) -> int:
    """Read the logs of SUITE at PATH (a file, a run's folder or a folder of runs) and set rows beside aggregates.

    The suite need not be installed. What a log does not hold is null in the records and listed as absent.

    \b
    Example:
      safetyrepro import lm_eval results/model --out imported
      safetyrepro import inspect_ai logs/2026-03-11_math.eval --json
    """
    from safetyrepro.crosspkg.importers import import_logs
    from safetyrepro.progress import progress

    with progress() as watch:
        summary = import_logs(suite, path, out, watch, metric=metric, model=model)
    if as_json:
        click.echo(json.dumps(summary.as_json(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(summary, out, suite, path)
    return 0


def _show(summary: Summary, out: Path | None, suite: str, path: Path) -> None:
    from safetyrepro.crosspkg.importers.values import one_line

    for task in summary.tasks:
        version = f", {suite} {task.suite_version}" if task.suite_version else ""
        click.echo(one_line(f"{task.identity.task} ({task.identity.model or 'model not recorded'}{version})"))
        click.echo(f"  {counted(task.rows, 'row')}, {counted(task.items, 'item')}; score: {task.metric or 'none'}")
        body = {name: found for name, found in task.as_json()["metrics"].items() if name not in task.beside}
        width = max((len(name) for name in body), default=0)
        for name, found in body.items():
            mean = "-" if found["mean"] is None else f"{found['mean']:.6g}"
            recorded = "-" if found["recorded"] is None else f"{found['recorded']:.6g}"
            click.echo(f"  {one_line(name):<{width}}  rows {mean:>10} (n {found['n']})  recorded {recorded:>10}")
        if task.beside:
            click.echo(f"  and {len(task.beside)} statistics of the run that are no scores (--json lists them)")
    if summary.absent:
        click.echo(f"Not in the log: {', '.join(summary.absent)}")
    for warning in summary.warnings:
        click.echo(f"Warning: {warning}")
    if out is None:
        click.echo(f"Next: safetyrepro import {suite} {path} --out DIR writes the records")
    else:
        click.echo(f"Records: {out}")
        click.echo(f"Next: safetyrepro export table {out} --out scores.csv")
