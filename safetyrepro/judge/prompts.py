"""Judge prompts: a Jinja file with the blocks `system` and `user`, rendered in a sandbox with no access to anything.

Both blocks see `question`, `first`, `second` (the answers in the order shown) and `mark`, which is derived from the
three texts, so that none of them can hold it beforehand and pretend to end its part.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetyrepro.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).parent / "templates"
DEFAULT = "rubric"
LARGEST = 2**20


@dataclass(frozen=True)
class JudgePrompt:
    """A judge's prompt, ready to be filled in."""

    name: str
    sha256: str
    """Of the file's bytes."""
    template: Template

    def messages(self, question: str, first: str, second: str) -> list[dict[str, str]]:
        """The chat messages of one comparison.

        Raises:
            InputError: the template fails on these texts.
        """
        from jinja2 import TemplateError

        mark = hashlib.sha256("\0".join((question, first, second)).encode("utf-8", "surrogatepass")).hexdigest()[:8]
        values = {"question": question, "first": first, "second": second, "mark": mark}
        try:
            context = self.template.new_context(values)
            blocks = {name: "".join(self.template.blocks[name](context)).strip() for name in ("system", "user")}
        except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise InputError(f"Judge prompt {self.name}: cannot be filled in ({error}).") from None
        return [{"role": role, "content": text} for role, text in blocks.items() if text]


def load_prompt(path: Path | None) -> JudgePrompt:
    """Read a judge prompt; None is the rubric that ships with the package.

    Raises:
        InputError: no such file, no template, or a block or one of the three texts missing in it.
    """
    from jinja2 import StrictUndefined, TemplateError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    file = path or FOLDER / f"{DEFAULT}.jinja"
    try:
        data = file.read_bytes()
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; name a Jinja file with the blocks system and user.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as UTF-8 text ({error}).") from None
    if len(data) > LARGEST:
        raise InputError(f"{file}: is over {LARGEST} bytes; a judge prompt is a page of text.")
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    try:
        template = environment.from_string(text)
        used = meta.find_undeclared_variables(environment.parse(text))
    except TemplateError as error:
        raise InputError(f"{file}: no Jinja template ({error}).") from None
    lacking = [name for name in ("system", "user") if name not in template.blocks]
    lacking += [name for name in ("question", "first", "second") if name not in used]
    if lacking:
        raise InputError(
            f"{file}: {lacking[0]} is missing; a judge prompt has the blocks system and user, and uses question, first "
            "and second."
        )
    return JudgePrompt(file.stem, hashlib.sha256(data).hexdigest(), template)
