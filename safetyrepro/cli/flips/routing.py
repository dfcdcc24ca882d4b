"""`safetyrepro flips policy` and `flips route`: choose a threshold, and send new rows by it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFile, not_an_input


@click.command()
@click.argument("table", metavar="SIGNALS", type=click.Path(path_type=Path))
@click.option("--signal", required=True, help="The signal to route by.")
@click.option(
    "--target-nfr",
    required=True,
    type=click.FloatRange(0, 1),
    callback=finite,
    help="Rate of negative flips to come down to.",
)
@click.option("--out", required=True, type=OutFile(), help="The policy's file.")
@click.option("--lower", is_flag=True, help="Low values of the signal mean risk (known for confidence and margin).")
@click.option("--update", help="Which update, where the table holds several.")
@click.option("--task", help="Which task, where the table holds several.")
@click.option("--json", "as_json", is_flag=True, help="Print the policy instead of sentences.")
def policy(
    table: Path,
    signal: str,
    target_nfr: float,
    out: Path,
    lower: bool,
    update: str | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Choose a threshold on SIGNALS that sends the riskiest items to the old model, and save it.

    \b
    Example:
      safetyrepro flips policy signals.csv --signal jsd --target-nfr 0.01 --out policy.json
    """
    from safetyrepro.atomic import write_json
    from safetyrepro.flips.finding import percent
    from safetyrepro.flips.policy import choose_policy
    from safetyrepro.flips.signal_table import read_signal_tables

    not_an_input(out, [table])
    read = read_signal_tables([table], lower=[signal] if lower else [], only=[signal])
    chosen = choose_policy(read, table, signal, target_nfr, update=update, task=task)
    body = chosen.model_dump(mode="json")
    write_json(out, body)
    if as_json:
        click.echo(json.dumps(body, indent=1, allow_nan=False))
        return
    reached = chosen.out_of_fold
    click.echo(
        f"On items that the threshold was not chosen on it routes {percent(reached.fraction)} to the old model and "
        f"leaves {percent(reached.nfr)} negative flips (target {percent(target_nfr)}, without routing "
        f"{percent(chosen.nfr_before)}), at an accuracy of {percent(reached.accuracy)}."
    )
    low, high = chosen.model_runs
    runs = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    click.echo(f"Cost: {runs} model runs per item.\nWritten: {out}")
    click.echo(f"Next: safetyrepro flips route {out} NEW_SIGNALS")


@click.command()
@click.argument("policy_file", metavar="POLICY", type=click.Path(path_type=Path))
@click.argument("table", metavar="SIGNALS", type=click.Path(path_type=Path))
@click.option("--out", type=OutFile(), help="Write item_id, value and route as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def route(policy_file: Path, table: Path, out: Path | None, as_json: bool) -> None:
    """Apply a POLICY to new rows (SIGNALS: item_id and the policy's signal): which model should answer each.

    \b
    Example:
      safetyrepro flips route policy.json new-signals.csv --out routes.csv
    """
    from safetyrepro.flips.policy import read_policy, routes_csv
    from safetyrepro.flips.signal_table import read_signal_rows
    from safetyrepro.plurals import counted

    if out is not None:
        not_an_input(out, [policy_file, table])
    chosen = read_policy(policy_file)
    rows = read_signal_rows(table, chosen.signal)
    routes = chosen.routes(rows)
    if out is not None:
        from safetyrepro.atomic import write_text

        write_text(out, routes_csv(routes))
    old = sum(entry.route == "old" for entry in routes)
    undefined = sum(entry.value is None for entry in routes)
    if as_json:
        body = {
            "signal": chosen.signal,
            "items": len(routes),
            "old": old,
            "new": len(routes) - old,
            "undefined": undefined,
            "routes": [entry.as_json() for entry in routes],
        }
        click.echo(json.dumps(body, indent=1, allow_nan=False))
        return
    click.echo(f"To the old model: {old} of {counted(len(routes), 'item')}, by {chosen.signal}.")
    if undefined:
        click.echo(f"On {undefined} of them the signal is undefined; such items always go to the old model.")
    click.echo(f"Written: {out}" if out is not None else "Next: add --out routes.csv to keep the route of every item.")
