"""One field of a card: given with where it stands, unverified, not disclosed, or without meaning for this run.

A field is never left out and never guessed: where a run cannot show a value, the field says so in a fixed word that a
program can look for, with the reason beside it.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from safetyrepro.config import Strict

T = TypeVar("T")
Reason = Annotated[str, Field(min_length=1)]
Sha256 = TypeAliasType("Sha256", Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")])
Texts = TypeAliasType("Texts", tuple[str, ...])
Counts = TypeAliasType("Counts", tuple[Annotated[int, Field(ge=0)], ...])


class Part(Strict):
    """A part of a card: strict, frozen, without NaN or infinity."""

    model_config = ConfigDict(allow_inf_nan=False)


class Given(Part, Generic[T]):
    """A value that the run holds."""

    state: Literal["given"]
    value: T
    source: Reason
    """What of the run says it: a file, its records, or a third party's log."""


class Unverified(Part, Generic[T]):
    """A value that nothing given beforehand confirms, or a hash that was marked so and never resolved."""

    state: Literal["unverified"]
    value: T | Literal["unverified"]
    reason: Reason


class NotDisclosed(Part):
    """What the run cannot show."""

    state: Literal["not disclosed"]
    value: Literal["not disclosed"]
    reason: Reason


class NotApplicable(Part):
    """What this run has none of."""

    state: Literal["not applicable"]
    value: None
    reason: Reason


Fact = TypeAliasType(
    "Fact",
    Annotated[Given[T] | Unverified[T] | NotDisclosed | NotApplicable, Field(discriminator="state")],
    type_params=(T,),
)


AnyFact = Given[Any] | Unverified[Any] | NotDisclosed | NotApplicable


def held(fact: AnyFact) -> bool:
    """Whether a field has a value, confirmed or not."""
    return isinstance(fact, Given) or (isinstance(fact, Unverified) and fact.value != "unverified")


def given(value: T, source: str) -> Given[T]:
    """A field with its value and what says it."""
    return Given(state="given", value=value, source=source)


def unverified(value: T | None, reason: str) -> Unverified[T]:
    """A field that nothing confirms; None stands for a hash that nobody resolved."""
    return Unverified(state="unverified", value="unverified" if value is None else value, reason=reason)


def not_disclosed(reason: str) -> NotDisclosed:
    """A field that the run cannot show."""
    return NotDisclosed(state="not disclosed", value="not disclosed", reason=reason)


def not_applicable(reason: str) -> NotApplicable:
    """A field that means nothing for this run."""
    return NotApplicable(state="not applicable", value=None, reason=reason)
