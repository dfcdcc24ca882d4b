"""What two runners can differ in, and which of it the classes found between them touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from safetyrepro.crosspkg.attribution import Hybrid

TEXT = "the prompt's text"
TEMPLATE = "special tokens and chat template"
SHOTS = "the shots"
CANDIDATES = "what is scored"
DECODING = "decoding"
PATH = "the scoring path"
EXTRACTION = "extraction"
METRIC = "normalisation and metric"
COMPONENTS = (TEXT, TEMPLATE, SHOTS, CANDIDATES, DECODING, PATH, EXTRACTION, METRIC)
SENT = frozenset({TEXT, TEMPLATE, SHOTS, CANDIDATES, DECODING, PATH})
"""Components that change what the model is asked: another one needs the model, or outputs that are stored."""
_OF_FAMILY = {
    "bos": TEMPLATE,
    "chat_template": TEMPLATE,
    "prompt": TEXT,
    "shots": SHOTS,
    "candidate": CANDIDATES,
    "decoding": DECODING,
    "extraction": EXTRACTION,
    "metric": METRIC,
}
_OF_CLASS = {
    "scoring.path": PATH,
    "scoring.normalisation": METRIC,
    "suite.version": EXTRACTION,
    "gold.order": TEXT,
    "gold.leak": CANDIDATES,
    "truncation.sent": TEXT,
    "truncation.output": DECODING,
    "extraction.echo": EXTRACTION,
}
_NONE = frozenset({"decoding.no_effect", "metric.weighting"})


@dataclass(frozen=True)
class Choice:
    """Of which side each component is: `a` or `b`."""

    text: str
    template: str
    shots: str
    candidates: str
    decoding: str
    path: str
    extraction: str
    metric: str


def differing(classes: Iterable[str]) -> tuple[str, ...]:
    """The components that classes of divergence touch, in a fixed order.

    Another scoring path brings its candidates, its decoding and its reading with it: they have no counterpart on the
    other side and are no components of their own then.
    """
    found = {_OF_CLASS.get(name) or _OF_FAMILY.get(name.partition(".")[0]) for name in classes if name not in _NONE}
    if PATH in found:
        found -= {CANDIDATES, DECODING, EXTRACTION, METRIC}
    return tuple(component for component in COMPONENTS if component in found)


def choice(hybrid: Hybrid, differs: Iterable[str]) -> Choice:
    """Of which side each component of a hybrid is; what does not differ is B's."""
    sides = {component: "a" if component in hybrid else "b" for component in COMPONENTS}
    if PATH in set(differs):
        for follows in (CANDIDATES, DECODING, EXTRACTION, METRIC):
            sides[follows] = sides[PATH]
    return Choice(
        text=sides[TEXT],
        template=sides[TEMPLATE],
        shots=sides[SHOTS],
        candidates=sides[CANDIDATES],
        decoding=sides[DECODING],
        path=sides[PATH],
        extraction=sides[EXTRACTION],
        metric=sides[METRIC],
    )
