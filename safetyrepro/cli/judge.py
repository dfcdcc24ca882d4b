"""`safetyrepro judge`: ask a judge, audit its verdicts, and compare its scores with what no judge measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from safetyrepro.cli.numbers import finite
from safetyrepro.cli.outputs import OutFolder
from safetyrepro.judge.edit_names import EDITS
from safetyrepro.plurals import counted

if TYPE_CHECKING:
    from safetyrepro.judge.run import Outcome

EXIT_FINDING, EXIT_INCONCLUSIVE = 1, 3
NAMED = 10
MANY_ROWS = 3_000
FILE = click.Path(path_type=Path)


@click.group()
def judge() -> None:
    """Does a judge's preference follow anything concrete?"""


@judge.command()
@click.option("--questions", required=True, type=FILE, help="Questions, one a row, with an id.")
@click.option("--answers", required=True, multiple=True, type=FILE, help="Answers to judge; repeatable.")
@click.option("--reference", required=True, type=FILE, help="The reference answers that they are compared with.")
@click.option(
    "--endpoint", required=True, help="Base URL of any server of the OpenAI kind, such as http://HOST:PORT/v1."
)
@click.option("--model", required=True, help="The judge's name at the endpoint.")
@click.option("--judge", "label", help="Its name in the verdict table; else the model's.")
@click.option("--out", required=True, type=OutFolder(), help="Folder of the run; an unfinished one goes on.")
@click.option("--edit", "edits", multiple=True, type=click.Choice([*EDITS, "all"]), help="Targeted edit; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), help="Only this many questions.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Decides which ones.")
@click.option("--prompt", type=FILE, help="Jinja file with the blocks system and user, in place of the rubric.")
@click.option("--max-tokens", default=256, show_default=True, type=click.IntRange(min=1), help="Limit of a reply.")
@click.option(
    "--concurrency", default=4, show_default=True, type=click.IntRange(1, 64), help="Calls under way at once."
)
@click.option(
    "--timeout",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    callback=finite,
    help="Seconds for a reply.",
)
@click.option("--attempts", default=5, show_default=True, type=click.IntRange(1, 20), help="Tries of a call in all.")
@click.option("--price-in", type=click.FloatRange(min=0), callback=finite, help="Money per million prompt tokens.")
@click.option("--price-out", type=click.FloatRange(min=0), callback=finite, help="Money per million tokens of a reply.")
@click.option(
    "--max-cost", type=click.FloatRange(min=0), callback=finite, help="Spend no more than this; needs both prices."
)
@click.option("--max-total-tokens", type=click.IntRange(min=1), help="Use no more tokens than this.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of sentences.")
def run(
    questions: Path,
    answers: tuple[Path, ...],
    reference: Path,
    endpoint: str,
    model: str,
    label: str | None,
    out: Path,
    edits: tuple[str, ...],
    limit: int | None,
    seed: int,
    prompt: Path | None,
    max_tokens: int,
    concurrency: int,
    timeout: float,
    attempts: int,
    price_in: float | None,
    price_out: float | None,
    max_cost: float | None,
    max_total_tokens: int | None,
    as_json: bool,
) -> int:
    """Have a judge compare answers with a reference, in both orders.

    The endpoint's key is read from SAFETYREPRO_UPSTREAM_KEY. Every request is on OUT/wire.jsonl, every verdict in
    OUT/verdicts.jsonl. Started again with the same --out, it keeps what is finished and goes on.

    \b
    Example:
      safetyrepro judge run --questions question.jsonl --answers gpt-4-0613.jsonl --reference gpt-4-0314.jsonl \\
        --endpoint http://127.0.0.1:8000/v1 --model NAME --limit 20 --edit all --out judged
    """
    import threading

    from safetyrepro.errors import InputError
    from safetyrepro.judge.budget import Limits
    from safetyrepro.judge.endpoint import Endpoint
    from safetyrepro.judge.ledger import Ledger
    from safetyrepro.judge.plan import plan_calls, read_material
    from safetyrepro.judge.prompts import load_prompt
    from safetyrepro.judge.run import run_calls
    from safetyrepro.judge.summary import write_summary
    from safetyrepro.progress import progress

    if max_cost is not None and (price_in is None or price_out is None):
        raise InputError("--max-cost needs --price-in and --price-out: what an endpoint charges is not known here.")
    if not model.strip() or (label is not None and not label.strip()):
        raise InputError("--model and --judge name the judge: give them a text that is not empty.")
    chosen = EDITS if "all" in edits else tuple(name for name in EDITS if name in edits)
    rubric = load_prompt(prompt)
    material = read_material(questions, answers, reference, limit=limit, seed=seed)
    name = (label or model).strip()
    calls, unchanged = plan_calls(material, rubric, judge=name, model=model, max_tokens=max_tokens, edits=chosen)
    settings = {
        "judge": name,
        "model": model,
        "prompt": rubric.name,
        "prompt_sha256": rubric.sha256,
        "temperature": 0,
        "max_tokens": max_tokens,
        "reference": material.reference_model,
    }
    limits = Limits(price_in or 0.0, price_out or 0.0, max_cost, max_total_tokens)
    stopping = threading.Event()
    server = Endpoint(endpoint, timeout=timeout, attempts=attempts, stopping=stopping)
    try:
        with progress(quiet=as_json) as watch, Ledger(out, settings) as ledger:
            outcome = run_calls(calls, ledger, server, limits, concurrency=concurrency, stopping=stopping, watch=watch)
            summary = write_summary(out, outcome, unchanged, priced=price_in is not None)
    finally:
        server.close()
    return _tell(outcome, summary, out, as_json=as_json)


def _tell(outcome: Outcome, summary: dict[str, Any], out: Path, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps(summary, indent=1))
    else:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(outcome.statuses.items()))
        click.echo(f"{counted(outcome.planned, 'call')}: {counts}.")
        money = "" if summary["cost"] is None else f", cost {summary['cost']:.4f}"
        click.echo(f"{outcome.tokens.prompt} prompt tokens, {outcome.tokens.completion} of replies{money}.")
    for reason, count in sorted(outcome.failures.items(), key=lambda entry: -entry[1])[:NAMED]:
        click.echo(f"No reply in {count} call{'s' if count > 1 else ''}: {reason}", err=True)
    if outcome.stopped is not None:
        click.echo(f"Stopped early: {outcome.stopped}.", err=True)
    if not outcome.complete:
        click.echo("What is finished is kept; the same command asks for the rest.", err=True)
        return 2 if _settings_wrong(outcome) else EXIT_INCONCLUSIVE
    if not as_json:
        from safetyrepro.judge.audit_wording import unread_step

        unread = unread_step(outcome.statuses)
        click.echo(f"Next: safetyrepro judge audit {out}" if unread is None else f"Next: {unread}")
        if unread is not None and outcome.statuses.get("ok"):
            click.echo(f"Then, or for the replies that can be read: safetyrepro judge audit {out}")
    return 0


def _settings_wrong(outcome: Outcome) -> bool:
    """Whether the endpoint, its key or the model's name has to be set right first."""
    return outcome.stopped is not None and outcome.stopped.startswith(("the endpoint", "there is no chat endpoint"))


@judge.command()
@click.argument("verdicts", type=FILE)
@click.option("--meta", type=FILE, help="Report of `judge meta` (--json) about the same judge, to stand beside.")
@click.option("--answers", multiple=True, type=FILE, help="Answers of both sides, for length and style; repeatable.")
@click.option("--out", type=OutFolder(), help="Folder for judge-audit.html and judge-audit.json.")
@click.option(
    "--fail-on",
    type=click.FloatRange(0, 1),
    callback=finite,
    help="Exit 1 where a judge's share of order flips is at or over this.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON instead of sentences.")
def audit(
    verdicts: Path, meta: Path | None, answers: tuple[Path, ...], out: Path | None, fail_on: float | None, as_json: bool
) -> int:
    """Audit VERDICTS: the folder of a `judge run`, or any verdict table.

    \b
    Example:
      safetyrepro judge audit judged --out report
      safetyrepro judge audit verdicts.csv --meta meta.json --json
    """
    from safetyrepro.judge.audit import build_audit, source_name
    from safetyrepro.judge.audit_wording import first_steps, has_verdicts
    from safetyrepro.judge.meta_file import read_meta
    from safetyrepro.judge.summary import read_summary
    from safetyrepro.judge.texts import with_features
    from safetyrepro.judge.verdicts import read_verdicts

    table = read_verdicts(verdicts)
    if answers:
        table = with_features(table, answers)
    beside = None if meta is None else read_meta(meta)
    if len(table.frame) > MANY_ROWS:
        click.echo(f"Auditing {len(table.frame)} verdicts; many items take a while.", err=True)
    report = build_audit(table, source_name(verdicts), meta=beside, run=read_summary(verdicts))
    edited = all(found["edits"] is not None for found in report["judges"].values())
    causes = "judge run --edit all shows what causes its marks"
    step = "judge meta sets concrete factors beside it" if edited else causes
    if not has_verdicts(report):
        first = first_steps(report)[0].rstrip(".")
        step = first[0].lower() + first[1:]
    _deliver(report, "audit", out, as_json=as_json, next_step=step)
    rates = {name: _flip_rate(found) for name, found in report["judges"].items()}
    if fail_on is None:
        return 0
    if any(rate is not None and rate >= fail_on for rate in rates.values()):
        return EXIT_FINDING
    if any(rate is None for rate in rates.values()):
        unknown = ", ".join(name for name, rate in rates.items() if rate is None)
        click.echo(f"Inconclusive: {unknown} has no comparison with a verdict in both orders.", err=True)
        return EXIT_INCONCLUSIVE
    return 0


def _flip_rate(found: dict[str, Any]) -> float | None:
    detail = found["detail"]
    share: float | None = None if detail is None else detail["flips"]["share"]
    return share


@judge.command()
@click.argument("results", nargs=-1, required=True, type=FILE)
@click.option("--composition", type=FILE, help="YAML that says which benchmark belongs to which factor.")
@click.option(
    "--factor", "factors", multiple=True, help="NAME=COLUMN,COLUMN instead; repeatable. -COLUMN: high is bad."
)
@click.option("--names", type=FILE, help="Table that joins models' names: a column per table.")
@click.option("--judge-table", help="The table with the judge's scores, where several could be.")
@click.option("--judge-column", help="Its column.")
@click.option("--judge", "judge_name", help="Which judge, where a verdict table has several.")
@click.option("--stages", type=FILE, help="Table of training steps: start, end, optional step and method.")
@click.option("--strata", type=FILE, help="Table of model and stratum, such as the base model.")
@click.option("--sizes", type=FILE, help="Table of model and examples: how much it was trained on.")
@click.option("--z-scored", is_flag=True, help="Standardise every benchmark over the models first.")
@click.option("--draws", default=9_999, show_default=True, type=click.IntRange(999, 99_999), help="Bootstrap draws.")
@click.option("--out", type=OutFolder(), help="Folder for judge-meta.html and judge-meta.json.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON instead of sentences.")
def meta(
    results: tuple[Path, ...],
    composition: Path | None,
    factors: tuple[str, ...],
    names: Path | None,
    judge_table: str | None,
    judge_column: str | None,
    judge_name: str | None,
    stages: Path | None,
    strata: Path | None,
    sizes: Path | None,
    z_scored: bool,
    draws: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Compare a judge's scores of models with factors that no judge measured.

    RESULTS are tables and folders: a table by model with the judge's scores (judge_score, judge, win_rate or score) or
    a verdict table, and benchmarks as CSV, LiveBench tables, lm-evaluation-harness results, score tables or the folder
    of an anchor run.

    \b
    Example:
      safetyrepro judge meta DATA/sos_bench --out report
      safetyrepro judge meta scores.csv results/ --factor safety=xstest,bbq --json
    """
    from safetyrepro.errors import InputError
    from safetyrepro.judge.composition import factors_from_options, load_composition
    from safetyrepro.judge.meta import MetaPlan, build_meta

    if composition is not None and factors:
        raise InputError("--composition and --factor both name the factors: give one of them.")
    plan = MetaPlan(
        paths=results,
        composition=factors_from_options(factors) if factors else load_composition(composition),
        names=names,
        steps=stages,
        strata=strata,
        sizes=sizes,
        judge_table=judge_table,
        judge_column=judge_column,
        judge=judge_name,
        z_scored=z_scored,
        draws=draws,
    )
    report = build_meta(plan)
    _deliver(report, "meta", out, as_json=as_json, next_step="judge audit --meta puts these beside a judge's own marks")
    return 0


def _deliver(report: dict[str, Any], kind: str, out: Path | None, *, as_json: bool, next_step: str) -> None:
    if out is not None:
        from safetyrepro.atomic import json_text, write_texts
        from safetyrepro.reports.judge_page import render_audit, render_meta

        page = render_meta(report) if kind == "meta" else render_audit(report)
        write_texts({out / f"judge-{kind}.json": json_text(report), out / f"judge-{kind}.html": page})
    if as_json:
        click.echo(json.dumps(report, indent=1, allow_nan=False))
        return
    click.echo(report["finding"])
    for name, found in report.get("judges", {}).items():
        for note in found["notes"]:
            click.echo(f"Note on {name}: {note}")
    for title, sentences in report.get("sentences", {}).items():
        click.echo(f"\n{title.replace('_', ' ').capitalize()}:")
        for sentence in sentences:
            click.echo(f"- {sentence}")
    if out is None:
        click.echo(f"\nNext: --out DIR writes the report as a page; {next_step}.")
    else:
        click.echo(f"\nReport: {out / f'judge-{kind}.html'}\nThe same as data: {out / f'judge-{kind}.json'}")
        click.echo(f"Next: open the report in a browser; {next_step}.")
