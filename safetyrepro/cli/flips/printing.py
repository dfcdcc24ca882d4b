"""What several `safetyrepro flips` commands print and write alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


def print_update(body: Mapping[str, Any]) -> None:
    """Print the findings of flips.json as sentences."""
    from safetyrepro.flips.finding import (
        churn_sentence,
        entries_of,
        headline,
        signal_sentences,
        stability_sentence,
        summary_sentences,
    )

    entries = entries_of(body)
    several = len(entries) > 1
    click.echo(headline(body))
    for entry in entries:
        if several:
            click.echo(
                f"  {entry['config']}: {entry['negative_flips']} lost, {entry['positive_flips']} won of "
                f"{entry['items']}"
            )
        for sentence in (churn_sentence(entry), *signal_sentences(entry)):
            if sentence is not None:
                click.echo(f"{'    ' if several else ''}{sentence}")
        if not several:
            print_signals(entry)
    for part in body["stability"]:
        click.echo(stability_sentence(part))
    for sentence in summary_sentences(body.get("summary", {})):
        click.echo(sentence)


def print_signals(entry: Mapping[str, Any]) -> None:
    """Print a line per signal of one task and update."""
    rows = [row for row in entry["signals"] if row["auroc"] is not None]
    if not rows:
        return
    width = max(len(row["signal"]) for row in rows)
    click.echo(f"  {'signal':<{width}}  AUROC  added value (old-correct items)")
    for row in rows:
        ci = row["added_value_ci"]
        between = "" if ci is None else f" ({ci[0]:+.3f} to {ci[1]:+.3f})"
        added = "" if row["added_value"] is None else f"{row['added_value']:+.3f}{between}, "
        click.echo(f"  {row['signal']:<{width}}  {row['auroc']:.3f}  {added}{row['verdict']}")


def report_files(out: Path | None, name: str) -> list[Path]:
    """Where `write_report` writes."""
    return [] if out is None else [out / f"{name}.json", out / f"{name}.html"]


def write_report(
    body: Mapping[str, Any], out: Path | None, name: str, more: Mapping[Path, str] | None = None
) -> list[Path]:
    """Write NAME.json and NAME.html to a folder where one is given, with `more` texts, and return their paths."""
    paths = report_files(out, name)
    if not paths:
        return []
    from safetyrepro.atomic import json_text, write_texts
    from safetyrepro.reports.flips_page import render_flips

    texts = {paths[0]: json_text(body), paths[1]: render_flips(body), **(more or {})}
    write_texts(texts)
    return list(texts)
