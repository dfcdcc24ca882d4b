"""The command line: one file a command group, each imported only when it is called."""

from __future__ import annotations

import errno
import importlib
import io
import keyword
import sys
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "anchor": ("safetyrepro.cli.anchor", "Run one config through every suite, and report how far they disagree."),
    "card": ("safetyrepro.cli.card", "Write a run's GRID card, or say what a card leaves open."),
    "diff": ("safetyrepro.cli.diff", "Name what differs between two runs of the same evaluation."),
    "doctor": ("safetyrepro.cli.doctor", "Check the installation, or what numerics change in a model's sums."),
    "envelope": ("safetyrepro.cli.envelope", "Plan a grid of configurations, seal it, run it, verify it."),
    "export": ("safetyrepro.cli.export", "Write records as a score table, or in the schema of Every Eval Ever."),
    "import": ("safetyrepro.cli.imports", "Turn logs that a suite wrote elsewhere into records."),
    "flips": ("safetyrepro.cli.flips", "Say which items an update makes worse, and which signal would have told."),
    "grid": ("safetyrepro.cli.grid", "Say whether a ranking survives the configuration grid."),
    "judge": ("safetyrepro.cli.judge", "Ask a judge, audit its verdicts, compare its scores with concrete factors."),
    "models": ("safetyrepro.cli.models", "Fetch and list the small models that need no hub."),
    "serve": ("safetyrepro.cli.serve", "Serve a model to any suite, with a wire log."),
    "suites": ("safetyrepro.cli.suites", "Build and list the suites' environments."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and one-liners without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        attribute = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="safetyrepro")
def cli() -> None:
    """Is "model A is safer than model B" a property of the models, or of the harness that scored them?

    \b
    Example:
      safetyrepro models pull smollm2-135m-instruct
      safetyrepro anchor run anchor_configs/anchors/truthfulqa-mc1-pocket.yaml --out out
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors meant for the user are one sentence and exit code 2."""
    from safetyrepro.errors import SafetyReproError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # data may hold what no terminal's encoding has
    try:
        result: Any = cli.main(args=arguments, prog_name="safetyrepro", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SafetyReproError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("Stopped; run the same command again to go on.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename}: "
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "make room and run the same command again" if full else "make it readable or writable, or name another"
        click.echo(f"Error: {named}{error.strerror or error}; {advice}.", err=True)
        sys.exit(2)
    sys.exit(result if isinstance(result, int) else 0)
