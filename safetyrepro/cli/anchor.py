"""`safetyrepro anchor`: run the comparison, and report it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.gating import gate_options
from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFolder

if TYPE_CHECKING:
    from safetyrepro.crosspkg.facts import Experiment
    from safetyrepro.crosspkg.gate import Acceptance, Gate

EXIT_INCONCLUSIVE = 3
MOST_QUOTED = 300
"""Characters of a log's last line."""
ARMS = ("shipped", "nominal", "matched")


@click.group()
def anchor() -> None:
    """Run one config through every suite, and report how far they disagree."""


@anchor.command()
@click.argument("configs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=OutFolder(), help="Folder of the run; an unfinished one goes on.")
@click.option("--suite", "suites", multiple=True, metavar="SUITE[@RELEASE]", help="Only this suite; repeatable.")
@click.option("--arm", "arms", multiple=True, type=click.Choice(ARMS), help="Only this arm; repeatable.")
@click.option(
    "--model", "models", multiple=True, help="This model instead: a config's own, a pulled name, folder or GGUF."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only this many items.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of official data (else SAFETYREPRO_DATA).")
@click.option("--upstream", help="Base URL of a server of the OpenAI kind that holds the models under their ids.")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="Folder of the upstream model's tokenizer.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run each cell this often, to measure what a suite differs from itself; repeats are computed anew.",
)
@click.option("--no-memo", is_flag=True, help="Compute every request anew; in exact mode nothing changes.")
@click.option("--redact", is_flag=True, help="Leave prompts and outputs out of the report.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Folder of an earlier run to hold this one against.")
@gate_options
@click.option(
    "--suite-timeout", type=click.FloatRange(1, 10**7), callback=finite, help="Stop a suite after this many seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of sentences.")
def run(
    configs: tuple[Path, ...],
    out: Path,
    suites: tuple[str, ...],
    arms: tuple[str, ...],
    models: tuple[str, ...],
    limit: int | None,
    data_dir: Path | None,
    upstream: str | None,
    tokenizer: Path | None,
    repeats: int,
    no_memo: bool,
    redact: bool,
    baseline: Path | None,
    fail_on: tuple[str, ...],
    suppress: Path | None,
    junit: Path | None,
    suite_timeout: float | None,
    as_json: bool,
) -> int:
    """Run CONFIGS (one or more YAML files) through the suites, then write the report.

    Started again with the same --out, it keeps what is finished and goes on. The key of an upstream server is read
    from SAFETYREPRO_UPSTREAM_KEY.

    \b
    Example:
      safetyrepro anchor run anchor_configs/anchors/truthfulqa-mc1-pocket.yaml --out out
      safetyrepro anchor run my-sampled.yaml --repeats 3 --out out
      safetyrepro anchor run my.yaml --model org/model --upstream http://127.0.0.1:8001/v1 --tokenizer folder --out out
    """
    from safetyrepro.config import load_config
    from safetyrepro.crosspkg.experiment import Plan, narrowed, run_experiment
    from safetyrepro.errors import InputError
    from safetyrepro.paths import data_dir as find_data
    from safetyrepro.progress import progress

    if (upstream is None) != (tokenizer is None):
        raise InputError("--upstream and --tokenizer go together: name the server's URL and its tokenizer's folder.")
    checks = _checks(fail_on, suppress, baseline, junit)
    server = None if upstream is None or tokenizer is None else (upstream, tokenizer)
    loaded = tuple(narrowed(load_config(path), suites, arms, models, limit, server) for path in configs)
    plan = Plan(loaded, out, find_data(data_dir), memo=not no_memo, suite_timeout=suite_timeout, repeats=repeats)
    with progress() as watch:
        experiment = run_experiment(plan, watch)
    return _write(experiment, out, checks, redact=redact, as_json=as_json)


@anchor.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--redact", is_flag=True, help="Leave prompts and outputs out of the report.")
@click.option("--attribute", is_flag=True, help="Ask the model for the hybrids that stored outputs cannot give.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Folder of an earlier run to hold this one against.")
@gate_options
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of sentences.")
def report(
    folder: Path,
    redact: bool,
    attribute: bool,
    baseline: Path | None,
    fail_on: tuple[str, ...],
    suppress: Path | None,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Write the report of FOLDER again from its records.

    With --fail-on it is a check: it ends with 1 where a threshold is reached.

    \b
    Example:
      safetyrepro anchor report out
      safetyrepro anchor report out --fail-on spread=5,class=bos --suppress accepted.yaml --junit checks.xml
    """
    from safetyrepro.crosspkg.folder import load_experiment
    from safetyrepro.progress import progress

    checks = _checks(fail_on, suppress, baseline, junit)
    experiment = load_experiment(folder)
    if attribute:
        from safetyrepro.crosspkg.attribution_run import attribute_experiment

        with progress() as watch:
            attribute_experiment(experiment, folder, watch)
    return _write(experiment, folder, checks, redact=redact, as_json=as_json)


@dataclass(frozen=True)
class _Checks:
    gate: Gate
    accepted: tuple[Acceptance, ...]
    baseline: list[dict[str, Any]]
    junit: Path | None


def _checks(fail_on: tuple[str, ...], suppress: Path | None, baseline: Path | None, junit: Path | None) -> _Checks:
    """What the options ask for, read before anything is run."""
    from safetyrepro.crosspkg.gate import parse_gate, read_baseline, read_suppressions
    from safetyrepro.errors import InputError

    gate = parse_gate(fail_on)
    if gate.drift is not None and baseline is None:
        raise InputError("--fail-on drift=POINTS needs --baseline DIR, an earlier run to hold the scores against.")
    return _Checks(gate, read_suppressions(suppress), read_baseline(baseline), junit)


def _write(experiment: Experiment, folder: Path, checks: _Checks, *, redact: bool, as_json: bool) -> int:
    from safetyrepro.cli.gating import conclude
    from safetyrepro.crosspkg.gate import check_report
    from safetyrepro.crosspkg.repeats import repeat_sentences
    from safetyrepro.crosspkg.report import write_report

    json_path, html_path, finding = write_report(experiment, folder, redact=redact)
    failed = [cell.facts for cell in experiment.cells if cell.facts.state == "failed"]
    failed += [facts for cell in experiment.cells for facts in cell.failed_repeats]
    written = json.loads(json_path.read_text(encoding="utf-8"))
    verdict = check_report(written, checks.gate, checks.accepted, checks.baseline)
    if as_json:
        click.echo(json.dumps(written, indent=1))
    else:
        for line in repeat_sentences(written):
            click.echo(line)
        click.echo(f"\n{finding}\n\nReport: {html_path}\nThe same as data: {json_path}")
    code = conclude(verdict, checks.junit, quiet=as_json)
    for facts in failed:
        name = f"{facts.name}, repeat {facts.repeat}" if facts.repeat else facts.name
        click.echo(f"Failed: {name}: {_in_one_line(facts.reason or '')}", err=True)
    for name in experiment.unfinished:
        click.echo(f"Not ended yet: {name}", err=True)
    if failed or experiment.unfinished:
        click.echo("What is finished is kept; `safetyrepro anchor run` with the same --out runs the rest.", err=True)
        return code or EXIT_INCONCLUSIVE
    if not as_json:
        click.echo("Next: open the report in a browser; `safetyrepro anchor report` writes it again.")
    return code


def _in_one_line(reason: str) -> str:
    """A failure's first line, and the last one of the log that it quotes."""
    first, *quoted = [line.strip() for line in reason.splitlines() if line.strip()] or [""]
    return f"{first.partition(';')[0]}: {quoted[-1][:MOST_QUOTED]}" if quoted else first
