"""A report of `judge meta`, read back to stand beside an audit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from safetyrepro.errors import InputError

NUMBERS = ("pearson", "spearman", "discordant_pairs")
INTERVALS = ("ci", "spearman_ci")


def read_meta(path: Path) -> dict[str, Any]:
    """The report, with what an audit needs of it checked.

    Raises:
        InputError: no such file, no JSON, or not what `judge meta --json` prints.
    """
    try:
        body = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; name what `judge meta --json` printed, or its judge-meta.json."
        ) from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({str(error)[:120]}).") from None
    if not isinstance(body, dict) or not isinstance(body.get("factors"), dict) or type(body.get("models")) is not int:
        raise InputError(f"{path}: is no report of `judge meta`; it should hold models and factors.")
    for name, factor in body["factors"].items():
        if not isinstance(factor, dict):
            raise InputError(f"{path}: factors.{name} is {factor!r:.80}, it should be an object.")
        for key in (*NUMBERS, *INTERVALS):
            value = factor.get(key)
            parts = value if key in INTERVALS and isinstance(value, list) and len(value) == 2 else [value]
            if value is not None and not (len(parts) == 1 + (key in INTERVALS) and all(_is_number(v) for v in parts)):
                raise InputError(
                    f"{path}: factors.{name}.{key} is {value!r:.80}, it should be a number, an interval or null."
                )
        factor.update({key: factor.get(key) for key in (*NUMBERS, *INTERVALS)})
    return body


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
