"""What a detector says, and what a class of divergence can explain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from safetyrepro.crosspkg.divergence.comparison import Comparison
    from safetyrepro.crosspkg.divergence.pair import Pair

Explains = Literal["output", "reading", "score", "nothing"]
"""What of an item a class can be the cause of: another output (and all after it), another reading of the same output,
another score of the same reading, or nothing."""

CLASSES: dict[str, Explains] = {
    "bos.double": "output",
    "bos.missing": "output",
    "bos.server_side": "output",
    "chat_template.applied": "output",
    "chat_template.system_prompt": "output",
    "chat_template.dynamic": "output",
    "prompt.boilerplate": "output",
    "prompt.option_layout": "output",
    "prompt.whitespace": "output",
    "shots.count": "output",
    "shots.source": "output",
    "shots.order": "output",
    "shots.contamination": "output",
    "candidate.object": "output",
    "candidate.whitespace": "output",
    "candidate.token_boundary": "output",
    "decoding.temperature": "output",
    "decoding.top_p": "output",
    "decoding.max_tokens": "output",
    "decoding.stop": "output",
    "decoding.seed": "output",
    "decoding.default": "output",
    "decoding.no_effect": "nothing",
    "scoring.path": "output",
    "scoring.normalisation": "reading",
    "extraction.rule": "reading",
    "extraction.position": "reading",
    "extraction.failure": "reading",
    "extraction.echo": "output",
    "gold.offset": "score",
    "gold.order": "output",
    "gold.value": "score",
    "gold.leak": "output",
    "metric.definition": "score",
    "metric.weighting": "nothing",
    "truncation.sent": "output",
    "truncation.output": "output",
    "dataset.revision": "output",
    "dataset.items": "nothing",
    "numerics.dtype": "output",
    "numerics.batch": "output",
    "nondeterminism": "output",
    "cache.reuse": "output",
    "suite.version": "reading",
    "unexplained": "nothing",
}
"""Every class id and what it can explain."""
RANK: dict[Explains, int] = {"nothing": 0, "score": 1, "reading": 2, "output": 3}


@dataclass(frozen=True)
class Finding:
    """One class that is there."""

    id: str
    items: tuple[str, ...]
    evidence: Mapping[str, Any]
    undone: Callable[[Pair], bool | None] | None = field(default=None, compare=False)
    """Whether an item's difference vanishes when this cause alone is undone by re-scoring; None where that cannot be
    told. Without it the class needs the model to be undone."""


@dataclass(frozen=True)
class Detector:
    """A rule with a name."""

    name: str
    classes: tuple[str, ...]
    looks_at: str
    """One line for `diff --list`."""
    detect: Callable[[Comparison], Iterable[Finding]]
