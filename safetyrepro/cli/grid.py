"""`safetyrepro grid`: does any ranking survive the configuration grid?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from safetyrepro.cli.outputs import OutFolder, not_an_input

EXIT_FINDING = 1
EXIT_INCONCLUSIVE = 3
FEWEST_DRAWS, MOST_DRAWS = 9_999, 99_999


@click.command()
@click.argument("source", metavar="TABLE_OR_DIR", type=click.Path(path_type=Path))
@click.option(
    "--tier", default="full", show_default=True, help="Tier to report: full, core, conservative, or a table's."
)
@click.option("--tiers", "tiers_file", type=click.Path(path_type=Path), help="Tiers from this YAML file instead.")
@click.option("--parity", multiple=True, metavar="BENCHMARK", help="Rank this benchmark by parity, 1 - |2p - 1|.")
@click.option(
    "--min-items",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Least shared items where two models were given different ones.",
)
@click.option(
    "--draws",
    type=click.IntRange(FEWEST_DRAWS, MOST_DRAWS),
    default=FEWEST_DRAWS,
    show_default=True,
    help="Random draws.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the draws; recorded in the result.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="WHAT",
    help="Exit with 1 on `reversal` (certified), `strict-reversal` (of point scores) or `rho=X` (rho_flip from X on).",
)
@click.option("--out", type=OutFolder(), help="Folder for grid.json and the page grid.html.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of sentences.")
def grid(
    source: Path,
    tier: str,
    tiers_file: Path | None,
    parity: tuple[str, ...],
    min_items: int,
    draws: int,
    seed: int | None,
    fail_on: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> int:
    """Say whether the ranking of the models in TABLE_OR_DIR survives its configurations.

    A score table (CSV, JSONL or Parquet) or a results folder. Certified verdicts come first, then raw flip rates beside
    what equal models would show.

    \b
    Example:
      safetyrepro grid scores.csv --tier core --out grid-report
    """
    checks = [_check(text) for text in fail_on]
    from safetyrepro.analysis.benchmark import Settings
    from safetyrepro.analysis.resampling import SEED
    from safetyrepro.progress import progress
    from safetyrepro.stability.result import grid_result
    from safetyrepro.stability.source import benchmark_grids, read_scores
    from safetyrepro.stability.tierfile import tiers

    for path in _files(out):
        not_an_input(path, [source, *([] if tiers_file is None else [tiers_file])])
    known = tiers(tiers_file)
    settings = Settings(draws=draws, seed=SEED if seed is None else seed, min_shared=min_items)
    with progress(quiet=False) as watch:
        scores = read_scores(source)
        grids = benchmark_grids(scores, parity=parity)
        result = grid_result(grids, known, tier, settings, watch)
    result["written_nan"] = scores.written_nan
    result["unfinished"] = list(scores.unfinished)
    written = _write(result, _files(out))
    if as_json:
        click.echo(json.dumps(result, indent=1, allow_nan=False))
    else:
        _print(result)
        for path in written:
            click.echo(f"Written: {path}")
    code = _exit_code(result, checks)
    if not as_json:
        click.echo(_next_step(source, written))
    return code


def _check(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if text in ("reversal", "strict-reversal"):
        return text, 0.0
    try:
        limit = float(value)
    except ValueError:
        limit = -1.0
    if name != "rho" or not 0 <= limit <= 0.5:
        raise click.BadParameter(
            f"{text!r} is none of reversal, strict-reversal, rho=X with X from 0 to 0.5.", param_hint="--fail-on"
        )
    return name, limit


def _files(out: Path | None) -> tuple[Path, ...]:
    return () if out is None else (out / "grid.html", out / "grid.json")


def _write(result: Mapping[str, Any], files: tuple[Path, ...]) -> tuple[Path, ...]:
    if not files:
        return files
    from safetyrepro.atomic import json_text, write_texts
    from safetyrepro.reports.grid import render_grid

    write_texts({files[1]: json_text(result), files[0]: render_grid(result)})
    return files


def _print(result: Mapping[str, Any]) -> None:
    from safetyrepro.plurals import counted
    from safetyrepro.stability.words import title, verdict

    for name, summary in result["benchmarks"].items():
        click.echo(f"\n{summary['sentence']}")
        for pair in summary["pairs"]:
            click.echo(f"  {pair['a']} against {pair['b']}: {_figures(pair)}; {verdict(pair)}")
        reached = summary["orderings"]
        if reached["n_configs"]:
            tau = summary["tau_r"]
            shown = "" if tau is None else f", tau_R {tau:.2f}"
            weak = f" and {reached['weak']} with ties" if reached["weak"] else ""
            click.echo(
                f"  {title(name)}: {reached['strict']} of {counted(reached['possible'], 'strict ordering')} "
                f"reached{weak}{shown}."
            )
        for line in _dropped(summary):
            click.echo(f"  {line}")
    if result["written_nan"]:
        click.echo(f"\nWritten NaN, and counted as missing: {counted(result['written_nan'], 'score')}.")
    for cell in result["unfinished"]:
        click.echo(f"Not ended yet: {cell}", err=True)


def _figures(pair: Mapping[str, Any]) -> str:
    if not pair["n_configs"]:
        return "not compared"
    text = (
        f"ahead {pair['n_plus']}, behind {pair['n_minus']}, tied {pair['n_ties']} of {pair['n_configs']}, "
        f"rho_flip {pair['rho_flip']:.3f}"
    )
    if pair["certified"] is not None:
        counts, (low, high) = pair["certified"], pair["rho_flip_bounds"]
        text += f" (true rate {low:.2f} to {high:.2f}); certified {counts['a']} ahead, {counts['b']} behind"
    return text if pair["testable"] or pair["certified"] is None else f"{text}, a reversal is not testable"


def _dropped(summary: Mapping[str, Any]) -> list[str]:
    from safetyrepro.plurals import counted

    dropped = summary["dropped"]
    lines = []
    if dropped["configurations"]:
        named = [f"{label} ({reason})" for label, reason in list(dropped["configurations"].items())[:3]]
        more = f" and {len(dropped['configurations']) - 3} more" if len(dropped["configurations"]) > 3 else ""
        lines.append(f"Not ranked for all models: {'; '.join(named)}{more}.")
    left_out = sum(pair["items_left_out"] for pair in summary["pairs"])
    if left_out:
        lines.append(
            f"Compared on shared items only; left out: {counted(left_out, 'score')} of items that one of a pair lacks."
        )
    if dropped["rows_without_score"]:
        lines.append(f"Without a score: {counted(dropped['rows_without_score'], 'row')}.")
    unparsed = dropped["statuses"].get("unparsed", 0)
    if unparsed:
        lines.append(f"Counted with the score that the table gives them: {counted(unparsed, 'unparsed answer')}.")
    return lines


def _exit_code(result: Mapping[str, Any], checks: Sequence[tuple[str, float]]) -> int:
    pairs = [(name, pair) for name, summary in result["benchmarks"].items() for pair in summary["pairs"]]
    compared = [(name, pair) for name, pair in pairs if pair["n_configs"]]
    findings = [line for check in checks for line in _findings(check, compared)]
    for line in findings:
        click.echo(f"Finding: {line}", err=True)
    if findings:
        return EXIT_FINDING
    reasons = _inconclusive(compared, checks)
    for line in reasons:
        click.echo(f"Inconclusive: {line}", err=True)
    return EXIT_INCONCLUSIVE if reasons else 0


def _findings(check: tuple[str, float], pairs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    name, limit = check
    found = []
    for benchmark, pair in pairs:
        who = f"{benchmark}, {pair['a']} against {pair['b']}"
        if name == "reversal" and pair["certified_reversal"]:
            found.append(f"{who}: certified reversal, p = {pair['reversal_p']:.4f}.")
        if name == "strict-reversal" and pair["strict_reversal"]:
            found.append(f"{who}: the point scores reverse.")
        if name == "rho" and pair["rho_flip"] >= limit:
            found.append(f"{who}: rho_flip is {pair['rho_flip']:.3f}, the limit {limit:g}.")
    return found


def _inconclusive(pairs: Sequence[tuple[str, Mapping[str, Any]]], checks: Sequence[tuple[str, float]]) -> list[str]:
    if not pairs:
        return ["no two models have a valid score in the same configuration."]
    if max(pair["n_configs"] for _, pair in pairs) < 2:
        return [
            "every pair shares one configuration only; whether an order survives the configuration needs two or more."
        ]
    if any(name == "reversal" for name, _ in checks):
        untested = [
            f"{benchmark}, {pair['a']} against {pair['b']}" for benchmark, pair in pairs if not pair["testable"]
        ]
        if untested:
            more = f" and {len(untested) - 3} more" if len(untested) > 3 else ""
            return [
                f"a certified reversal cannot be tested for {'; '.join(untested[:3])}{more}: too few items that differ."
            ]
    return []


def _next_step(source: Path, written: Sequence[Path]) -> str:
    if written:
        return f"Next: open {written[0]} in a browser."
    return f"Next: safetyrepro grid {source} --out grid-report   (a page with heat map, ranks and bands)"
