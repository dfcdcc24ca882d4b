"""A meta-benchmark's composition: which benchmark belongs to which factor, and in which columns its value stands."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from safetyrepro.errors import InputError
from safetyrepro.strict_yaml import load_model

REFERENCE = "sos-bench"
_FORBID = ConfigDict(extra="forbid", frozen=True)


class Benchmark(BaseModel):
    """One benchmark of a factor."""

    model_config = _FORBID

    name: str = Field(min_length=1)
    """Also the column of a plain table that holds its value, where no pattern matches."""
    columns: tuple[str, ...] = ()
    """Patterns (`*`, `?`) of the columns whose mean is its value; every one must match."""
    or_columns: tuple[str, ...] = ()
    """The same, where `columns` match nothing: its parts, for instance."""
    scale: float | None = Field(default=None, gt=0)
    """What a full score is in these columns; None: 1, or 100 where a value is over 1."""
    invert: bool = False
    """Whether a high value is bad: the value is then 1 minus it."""


class TrainingStep(BaseModel):
    """One model made from another."""

    model_config = _FORBID

    start: str = Field(min_length=1)
    end: str = Field(min_length=1)
    step: str = Field(min_length=1)
    method: str = ""


class Composition(BaseModel):
    """Factors, and what is known of the models."""

    model_config = _FORBID

    name: str = Field(min_length=1)
    source: str = ""
    factors: dict[str, tuple[Benchmark, ...]] = Field(min_length=1)
    strata: dict[str, tuple[str, ...]] = {}
    """Per base model the patterns of model names, compared without case."""
    steps: tuple[TrainingStep, ...] = ()
    claim: str = ""
    """What the source says of the steps, for the report to set beside the changes."""

    @model_validator(mode="after")
    def _distinct(self) -> Composition:
        names = [benchmark.name for group in self.factors.values() for benchmark in group]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"factors: benchmark {twice!r} stands twice; give it to one factor")
        empty = next((factor for factor, group in self.factors.items() if not group), None)
        if empty is not None:
            raise ValueError(f"factors.{empty} names no benchmark")
        return self

    def stratum(self, model: str) -> str | None:
        """The first stratum whose pattern the model's name matches."""
        folded = model.casefold()
        for stratum, patterns in self.strata.items():
            if any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns):
                return stratum
        return None


def load_composition(path: Path | None) -> Composition:
    """Read a composition; None is the reference one, which ships with the package.

    Raises:
        InputError: naming file, line and field.
    """
    if path is None:
        from safetyrepro import anchor_configs

        path = Path(next(iter(anchor_configs.__path__))) / "judges" / f"{REFERENCE}.yaml"
    return load_model(path, Composition)


def factors_from_options(options: tuple[str, ...]) -> Composition:
    """A composition from `NAME=COLUMN,COLUMN` texts; a column with `-` in front is one where a high value is bad.

    Raises:
        InputError: a text of another form, a factor without column, a column twice.
    """
    factors: dict[str, tuple[Benchmark, ...]] = {}
    for option in options:
        name, sign, listed = option.partition("=")
        columns = [column.strip() for column in listed.split(",") if column.strip().lstrip("-")]
        if not sign or not name.strip() or not columns:
            raise InputError(f"--factor is {option!r}, it should be NAME=COLUMN,COLUMN (such as safety=xstest,bbq).")
        if name.strip() in factors:
            raise InputError(f"--factor {name.strip()} is given twice; name all its columns in one.")
        factors[name.strip()] = tuple(
            Benchmark(name=column.removeprefix("-").strip(), invert=column.startswith("-")) for column in columns
        )
    try:
        return Composition(name="the command line", factors=factors)
    except ValueError as error:
        raise InputError(f"--factor: {_reason(error)}.") from None


def _reason(error: ValueError) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return str(error)
