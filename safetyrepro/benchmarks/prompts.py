"""Prompt templates: Jinja files below `templates/<benchmark>/`, rendered in a sandbox with no access to anything.

A template has two blocks. `instruction` opens the prompt, once, in front of all shots; `item` is one question up to
where its answer starts. Both see `question`, `context`, `options` (pairs of letter and text; empty where the prompt
does not list them), `free` (whether the model is asked to write an answer), `generated` (whether it really writes one),
`worked` (whether this is a worked example), `chat` (whether the model's chat template is applied) and `shots` (how many
worked examples there are).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.benchmarks.base import Item
from safetyrepro.benchmarks.extraction import letters
from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template

    from safetyrepro.config import Config

FOLDER = Path(__file__).parent / "templates"


def names(benchmark: str) -> tuple[str, ...]:
    """Names of a benchmark's templates."""
    return tuple(sorted(path.stem for path in (FOLDER / benchmark).glob("*.jinja")))


def lists_options(config: Config) -> bool:
    """Whether the prompt lists the options with letters: for letters scored by likelihood, and for free answers."""
    return config.scoring.path == "free" or config.scoring.candidate == "letter"


def render(benchmark: str, item: Item, shots: Sequence[tuple[Item, str]], config: Config) -> str:
    """The prompt of `item` behind its shots, each with its answer, parted by blank lines; no whitespace at its end.

    Raises:
        InputError: the benchmark has no template of that name.
    """
    template = _template(benchmark, config.prompt.template)
    parts = [_block(template, "instruction", item, config)]
    parts += [f"{_block(template, 'item', shot, config, worked=True)} {answer}".strip() for shot, answer in shots]
    parts.append(_block(template, "item", item, config))
    return "\n\n".join(part for part in parts if part)


@cache
def _template(benchmark: str, name: str) -> Template:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if name not in names(benchmark):
        raise InputError(f"prompt.template is {name!r}; {benchmark} has {', '.join(names(benchmark))}.")
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(FOLDER / benchmark),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.jinja")


def _block(template: Template, name: str, item: Item, config: Config, *, worked: bool = False) -> str:
    generated = config.scoring.path == "free"
    listed = zip(letters(len(item.options)), item.options, strict=True) if lists_options(config) else ()
    context = template.new_context(
        {
            "question": item.question,
            "context": item.context,
            "options": tuple(listed),
            "free": generated or (config.prompt.ask == "always" and lists_options(config)),
            "generated": generated,
            "worked": worked,
            "chat": config.chat_template.enabled,
            "shots": config.shots.count,
        }
    )
    return "".join(template.blocks[name](context)).strip()
