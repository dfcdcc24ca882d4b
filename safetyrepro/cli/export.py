"""`safetyrepro export`: records as a score table, or in the schema of Every Eval Ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from safetyrepro.cli.outputs import OutFile, OutFolder
from safetyrepro.plurals import counted


@click.group()
def export() -> None:
    """Write records as a score table, or in the schema of Every Eval Ever."""


@export.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=OutFile(), help="The table: .csv, .jsonl or .parquet.")
@click.option("--metric", help="Take this metric's values, as the suite recorded them, instead of the scores.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def table(folder: Path, out: Path, metric: str | None, as_json: bool) -> int:
    """Write the records below DIR (of a run or an import) as one score table.

    \b
    Example:
      safetyrepro export table imported --out scores.csv
    """
    from safetyrepro.crosspkg.exporters import export_table

    written = export_table(folder, out, metric)
    if as_json:
        click.echo(json.dumps({"table": str(out), "rows": written.rows, "metric": metric}, indent=1))
        return 0
    click.echo(f"{counted(written.rows, 'row')}: {out}")
    if len(written.models) > 1:
        click.echo(f"Next: safetyrepro grid {out}")
    else:
        click.echo("Next: this is one model; a ranking (safetyrepro grid) needs a folder with records of two.")
    return 0


@export.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=OutFolder(), help="A new folder; it gets a data/ folder.")
@click.option("--organization", default="unknown", show_default=True, help="Who provides the data.")
@click.option(
    "--relationship",
    default="other",
    show_default=True,
    type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
    help="Of the evaluator to the model.",
)
@click.option("--developer", default="local", show_default=True, help="For models named without an organisation.")
@click.option("--lower-is-better", is_flag=True, help="The metric is better where it is lower.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def eee(
    folder: Path,
    out: Path,
    organization: str,
    relationship: Any,
    developer: str,
    lower_is_better: bool,
    as_json: bool,
) -> int:
    """Write the records below DIR in Every Eval Ever's schema 0.3: an aggregate file a cell, a line an item.

    \b
    Example:
      safetyrepro export eee out --out eee
      eee-validate eee/data/*/*/*/*
    """
    from safetyrepro.crosspkg.exporters import EeeOptions, export_eee

    options = EeeOptions(organization, relationship, developer, lower_is_better)
    exported = export_eee(folder, out, options)
    if as_json:
        files = [
            {
                "aggregate": str(one.path),
                "samples": str(one.samples),
                "items": one.items,
                "rows": one.rows,
                "records_without_score": one.without_score,
            }
            for one in exported
        ]
        click.echo(json.dumps({"schema": "0.3.0", "files": files}, indent=1))
        return 0
    for one in exported:
        left = f", {counted(one.without_score, 'record')} without a score left out" if one.without_score else ""
        click.echo(f"{one.path}: {counted(one.items, 'item')}, {counted(one.rows, 'record')}{left}")
    click.echo(f"Next: eee-validate {out}/data/*/*/*/* (of the package every-eval-ever)")
    return 0
