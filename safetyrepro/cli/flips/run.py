"""`safetyrepro flips run`: ask two versions the same items and collect every signal between them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from safetyrepro.cli.flips.printing import print_update
from safetyrepro.cli.outputs import OutFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetyrepro.flips.run import Finished
    from safetyrepro.flips.task import Task
    from safetyrepro.flips.update import Update


@click.command()
@click.argument("pair", nargs=-1, metavar="[OLD NEW]")
@click.option(
    "--update", "updates", multiple=True, type=click.Path(path_type=Path), help="An update's YAML file; repeatable."
)
@click.option("--old-quant", type=click.Choice(["nf4", "int8", "none"]), default="none", show_default=True)
@click.option("--new-quant", type=click.Choice(["nf4", "int8", "none"]), default="none", show_default=True)
@click.option("--task", "tasks", multiple=True, type=click.Path(path_type=Path), help="A canonical config; repeatable.")
@click.option("--choices", multiple=True, type=click.Path(path_type=Path), help="Multiple-choice items as JSONL.")
@click.option("--problems", multiple=True, type=click.Path(path_type=Path), help="Problems with one answer as JSONL.")
@click.option(
    "--code",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Programming problems as JSONL, or `humaneval` for the data folder's; what is written is run, locked away.",
)
@click.option("--chat", is_flag=True, help="Put JSONL items behind the model's chat template.")
@click.option("--limit", type=click.IntRange(min=1), help="Only this many items of each task.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of official data (else SAFETYREPRO_DATA).")
@click.option("--one-at-a-time", is_flag=True, help="Never hold both versions in memory; the old one is loaded twice.")
@click.option("--out", required=True, type=OutFolder(), help="Folder; finished tasks in it are kept.")
@click.option("--redact", is_flag=True, help="Leave prompts and answers out of the report.")
@click.option("--json", "as_json", is_flag=True, help="Print every update's flips.json instead of sentences.")
def run(
    pair: tuple[str, ...],
    updates: tuple[Path, ...],
    old_quant: str,
    new_quant: str,
    tasks: tuple[Path, ...],
    choices: tuple[Path, ...],
    problems: tuple[Path, ...],
    code: tuple[Path, ...],
    chat: bool,
    limit: int | None,
    data_dir: Path | None,
    one_at_a_time: bool,
    out: Path,
    redact: bool,
    as_json: bool,
) -> None:
    """Ask two versions OLD and NEW the same items, greedily, and collect every signal between them.

    A version is a pulled model's name, a folder, a GGUF file or a hub id.

    \b
    Example:
      safetyrepro flips run --update anchor_configs/updates/smollm2-nf4.yaml \\
          --task anchor_configs/anchors/bbq-pocket.yaml --out update
      safetyrepro flips run v1-folder v2-folder --choices mmlu-pro.jsonl --code humaneval --out update
    """
    from safetyrepro.errors import InputError
    from safetyrepro.flips.code_task import code_file, code_task
    from safetyrepro.flips.config_task import config_task
    from safetyrepro.flips.file_task import choice_task, problem_task
    from safetyrepro.flips.run import run_update, write_together
    from safetyrepro.paths import data_dir as find_data
    from safetyrepro.progress import progress

    found = _updates(pair, updates, old_quant, new_quant)
    if not (tasks or choices or problems or code):
        raise InputError(
            "flips run needs items: name a config with --task, or a file with --choices, --problems or --code."
        )
    data = find_data(data_dir)
    asked: list[Task] = [
        *(config_task(path, data, limit) for path in tasks),
        *(choice_task(path, limit, chat=chat) for path in choices),
        *(problem_task(path, limit, chat=chat) for path in problems),
        *(code_task(code_file(path, data), limit, chat=chat) for path in code),
    ]
    with progress() as watch:
        done = [run_update(u, asked, out, watch, one_at_a_time=one_at_a_time, redact=redact) for u in found]
        together = write_together(done, out, watch)
    if as_json:
        bodies = {one.update.name: one.body for one in done}
        click.echo(json.dumps({"updates": bodies, "summary": together["summary"]}, indent=1, allow_nan=False))
        return
    for one in done:
        click.echo(f"\n{one.update.name}")
        print_update(one.body)
        click.echo(f"Written: {one.folder / 'flips.html'}")
    for name in ("signals.html", "signals.csv"):
        click.echo(f"Written: {out / name}")
    click.echo(f"Next: open {out / 'signals.html'}{_routing(done, out)}.")


def _routing(done: Sequence[Finished], out: Path) -> str:
    """How to save a threshold for the first task that has flips enough, if one has."""
    from safetyrepro.flips.finding import entries_of

    several = sum(len(one.tables) for one in done) > 1
    for one in done:
        tables = {table.task: table for table in one.tables}
        for entry in entries_of(one.body):
            table = tables.get(entry["benchmark"]) or tables.get(entry["config"])
            if table is not None and entry["fallback"] and entry["fallback"]["reason"] is None:
                words = ["flips", "policy", str(out / "signals.csv")]
                words += ["--update", table.update, "--task", table.task] if several else []
                words += ["--signal", entry["fallback"]["signals"][0]["signal"]]
                words += ["--target-nfr", f"{table.negative.mean() / 2:.2g}", "--out", str(out / "policy.json")]
                return f"; to route by the signal whose curve comes first: safetyrepro {shlex.join(words)}"
    return "; safetyrepro flips analyze reads each outcomes.jsonl again"


def _updates(pair: Sequence[str], files: Sequence[Path], old_quant: str, new_quant: str) -> list[Update]:
    from safetyrepro.config import ModelSpec
    from safetyrepro.errors import InputError
    from safetyrepro.flips.update import Update, load_update

    if (len(pair) != 2 or files) and (pair or not files):
        raise InputError("flips run takes an OLD and a NEW model, or --update with a YAML file that names both.")
    if pair:
        specs = [
            ModelSpec.model_validate({"id": name, "quant": quant})
            for name, quant in zip(pair, (old_quant, new_quant), strict=True)
        ]
        if specs[0] == specs[1]:
            raise InputError(f"OLD and NEW are the same model at the same numerics ({pair[0]}, {old_quant}).")
        return [Update(name="update", old=specs[0], new=specs[1])]
    found = [load_update(path) for path in files]
    names = [update.name for update in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two updates are called {twice!r}, and a name is a folder; name them differently.")
    return found
