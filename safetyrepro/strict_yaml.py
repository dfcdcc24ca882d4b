"""YAML read into a pydantic model, with errors that name the file, the line and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from safetyrepro.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[str | int, ...]


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice and any alias, and leaves dates as text.

    A config has no use for aliases, and nested ones make a small file expand without bound.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"alias *{event.anchor}: write the value out", event.start_mark
            )
        return super().compose_node(parent, index)


_UniqueKeyLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _construct_unique(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is not text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:map", _construct_unique)


def load_model(path: Path, model: type[Model]) -> Model:
    """Read the YAML file `path` and validate it strictly as `model`.

    Raises:
        InputError: naming file, line, field, the value found and what would be right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name a YAML config, such as those in anchor_configs/.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}).") from None
    try:
        node = yaml.compose(text, Loader=_UniqueKeyLoader)
        loader = _UniqueKeyLoader(text)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InputError(f"{path}{_yaml_problem(error)}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be a config.") from None
    if not isinstance(value, dict):
        keys = ", ".join(name for name, field in _fields(model).items() if field.is_required())
        found = "is empty" if value is None else f"found {_shown(value)}"
        raise InputError(f"{path}: {found}, it should be YAML with keys and values; needed here: {keys}.")
    try:
        plain = json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: holds a value that is no plain text, number, list or mapping ({error}).") from None
    try:
        return model.model_validate_json(plain)
    except ValidationError as error:
        raise InputError(_first_problem(path, node, error, model)) from None


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f", line {mark.line + 1}, column {mark.column + 1}: not valid YAML: {error.problem or error.context}."
    return f": not valid YAML: {' '.join(str(error).split())}."


def _named_in(reason: str, location: Location) -> Location:
    """`location` and the field that a cross-field reason opens with (`decoding.temperature is over 0 ...`)."""
    steps = reason.split(" ", 1)[0].rstrip(":").split(".")
    return (*location, *(int(step) if step.isascii() and step.isdecimal() else step for step in steps))


def _line(node: yaml.Node | None, location: Location) -> int | None:
    """The line (from 1) of the node at `location`, or of the nearest one above it."""
    line = None if node is None else node.start_mark.line + 1
    for step in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _shown(value: Any) -> str:
    """A value in at most about 80 characters; a text that is cut keeps its closing quote."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    if len(shown) <= 80:
        return shown
    return f"{json.dumps(value[:60], ensure_ascii=False)}..." if isinstance(value, str) else shown[:77] + "..."


def _known_keys(model: type[BaseModel], location: Location) -> list[str]:
    current: Any = model
    for step in location[:-1]:
        if isinstance(step, int):
            continue
        if not (isinstance(current, type) and issubclass(current, BaseModel)) or step not in current.model_fields:
            return []
        current = current.model_fields[step].annotation
        for argument in getattr(current, "__args__", ()):
            if isinstance(argument, type) and issubclass(argument, BaseModel):
                current = argument
    return sorted(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _first_problem(path: Path, node: yaml.Node | None, error: ValidationError, model: type[BaseModel]) -> str:
    problems = error.errors(include_url=False)
    first = problems[0]
    location: Location = first["loc"]
    reason = first["msg"].removeprefix("Value error, ")
    line = _line(node, _named_in(reason, location) if first["type"] == "value_error" else location)
    where = f"{path}" + (f", line {line}" if line is not None else "")
    field = ".".join(str(step) for step in location)
    more = f" ({len(problems) - 1} more after this one)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        known = ", ".join(_known_keys(model, location))
        return f"{where}: unknown key {field!r}; known here: {known}{more}."
    if first["type"] == "missing":
        return f"{where}: key {field!r} is missing{more}."
    if first["type"] == "value_error":
        return f"{where}: {field + ': ' if field else ''}{reason}{more}."
    found = f"{where}: {field} is {_shown(first['input'])}"
    if reason.startswith("Input should be "):
        return f"{found}, it should be {reason.removeprefix('Input should be ')}{more}."
    return f"{found}: {reason.replace('Tuple should', 'the list should')}{more}."
