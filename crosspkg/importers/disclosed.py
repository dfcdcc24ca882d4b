"""What a log says of itself besides its rows: model, data, prompt, decoding, seeds, machine, code, for its card.

Only what the log states; a key that it does not hold is left out, so that nobody takes a default for a statement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from safetyrepro.crosspkg.importers.values import finite, sequence, text_of, whole

LONGEST = 4_000
"""Characters of a text that are kept."""


def said(**facts: Any) -> dict[str, Any]:
    """The facts that a log holds, as text of bounded length.

    Args:
        facts: `model_revision`, `quantisation`, `compute_dtype`, `model_arguments`, `dataset`, `dataset_revision`,
            `template`, `template_sha256`, `chat_template`, `extraction`, `hardware`, `code_commit` as the log has
            them; `seeds` and `software` as mappings; `decoding` as `decoding` gives it. None, empty text and empty
            mappings say nothing.
    """
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if value is None or value in ("", {}, []):
            continue
        if name == "decoding":
            found[name] = value
        elif name in ("seeds", "software"):
            found[name] = json.dumps(value, ensure_ascii=False, sort_keys=True)
        else:
            found[name] = (text_of(value) or "")[:LONGEST]
    return found


def decoding(*, top_p: Any = None, max_tokens: Any = None, stop: Any = None) -> dict[str, Any]:
    """What a log says of decoding besides the temperature, which its rows hold; what is no proper value is left out."""
    stops = [stop] if isinstance(stop, str) else stop
    found = {
        "top_p": finite(top_p) if top_p is not None else None,
        "max_tokens": whole(max_tokens) if max_tokens is not None else None,
        "stop": [(text_of(one) or "")[:LONGEST] for one in sequence(stops)] if isinstance(stops, list) else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def seeds(facts: Mapping[str, Any]) -> dict[str, int]:
    """Those of `facts` that are seeds: whole numbers."""
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    }


def text_sha256(text: Any) -> str | None:
    """SHA-256 of a text as UTF-8; None for what is no text."""
    return hashlib.sha256((text_of(text) or "").encode()).hexdigest() if isinstance(text, str) else None
