"""Inspect AI's log as the runner leaves it (`log.json`): the part that records are made from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from safetyrepro.errors import SuiteFailure

NAME = "log.json"
JUDGE = "openai-api/judge/"
"""How the model names of a judge begin."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What Inspect's accuracy makes of a score's letter: correct, partial, incorrect, no answer."""


class Call(BaseModel):
    """A request as it was posted, and its response."""

    request: dict[str, Any]
    response: dict[str, Any] | None = None
    error: bool | None = None

    @property
    def key(self) -> str | None:
        """The id that Inspect sends with the request as header `x-irid`; older releases do not with raw prompts."""
        key = self.request.get("extra_headers", {}).get("x-irid")
        return None if key is None else str(key)

    @property
    def asked(self) -> str:
        """What the request asks, as text to compare requests by."""
        return asked(self.request)

    @property
    def answer_id(self) -> str | None:
        """The response's own id."""
        answer = (self.response or {}).get("id")
        return None if answer is None else str(answer)

    @property
    def told(self) -> str | None:
        """What the server said of a request that it did not answer."""
        message = (self.response or {}).get("message") if self.error else None
        return None if message is None else str(message)

    @property
    def choice(self) -> dict[str, Any] | None:
        """The response's first choice; None where there was none."""
        choices = (self.response or {}).get("choices")
        return choices[0] if choices and not self.error else None


def asked(request: Mapping[str, Any]) -> str:
    """The prompt or the messages of a request's body, as text to compare requests by."""
    return json.dumps(request.get("prompt", request.get("messages")), sort_keys=True)


class Event(BaseModel):
    """An event of a sample's transcript; model calls are what matters here."""

    event: str
    model: str | None = None
    call: Call | None = None


class Problem(BaseModel):
    """An error that Inspect caught."""

    message: str

    @property
    def cause(self) -> str:
        """The message; of an error in the wrapping of Inspect's retries, the error's own name."""
        wrapped = re.search(r"^RetryError\(.* raised (\w+)>\)$", self.message)
        return wrapped[1] if wrapped else self.message


class SampleScore(BaseModel):
    """A scorer's word on a sample."""

    value: str | float | bool | None
    """None or no number where the sample is unscored."""
    answer: str | None = None
    reason: str | None = None
    explanation: str | None = None

    @property
    def number(self) -> float | None:
        """The value as Inspect's mean counts it; None where it leaves the sample out."""
        if self.value is None:
            return None
        value = LETTERS.get(self.value) if isinstance(self.value, str) else float(self.value)
        return None if value is None or math.isnan(value) else value


class OutputChoice(BaseModel):
    """A reply as Inspect holds it."""

    stop_reason: str


class Output(BaseModel):
    """A sample's last model output; no choices where there was none."""

    choices: list[OutputChoice] = []


class LoggedSample(BaseModel):
    """An item as Inspect ran it."""

    id: str
    choices: list[str] | None = None
    target: str | list[str]
    output: Output = Output()
    scores: dict[str, SampleScore] | None = None
    error: Problem | None = None
    events: list[Event]

    @property
    def calls(self) -> list[Call]:
        """Calls of the evaluated model in the order in which they were made."""
        return self._calls(judge=False)

    @property
    def judge_refusal(self) -> str | None:
        """Why the judge gave no reply; None where it gave one, or was not asked."""
        for call in self._calls(judge=True):
            if call.choice is None:
                return call.told or "no reply"
            if call.choice.get("finish_reason") == "content_filter":
                return "its content filter withheld the reply"
        return None

    def _calls(self, *, judge: bool) -> list[Call]:
        models = [event for event in self.events if event.event == "model" and (JUDGE in (event.model or "")) == judge]
        return [event.call for event in models if event.call is not None]

    @property
    def score(self) -> SampleScore | None:
        """The one scorer's word; None where the sample was not scored."""
        return next(iter((self.scores or {}).values()), None)

    @property
    def filtered(self) -> bool:
        """Whether the server's content filter withheld the answer."""
        return any(choice.stop_reason == "content_filter" for choice in self.output.choices)

    @property
    def gold(self) -> tuple[str, ...]:
        """The target, letter by letter."""
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)


class ScoreSummary(BaseModel):
    """How many samples a scorer's mean is over."""

    scored_samples: int


class Results(BaseModel):
    """The evaluation's totals."""

    scores: list[ScoreSummary]


class Plan(BaseModel):
    """What was run; `config` holds the generation options in force."""

    config: dict[str, Any]


class Log(BaseModel):
    """A whole log."""

    status: str
    plan: Plan
    results: Results | None = None
    error: Problem | None = None
    samples: list[LoggedSample] | None = None


def read_logs(out_dir: Path, version: str) -> dict[Path, Log]:
    """Read the logs of a finished run, one for each of its tasks.

    Args:
        out_dir: Where the runner left them.
        version: The release that wrote them, for messages.

    Raises:
        SuiteFailure: no log, one that is cut short or of another shape, or an evaluation that did not succeed.
    """
    paths = [out_dir / NAME, *sorted(out_dir.glob("log-*.json"))]
    return {path: _read(path, version) for path in paths}


def _read(path: Path, version: str) -> Log:
    try:
        log = Log.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise SuiteFailure(f"{path}: Inspect AI left no log.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        raise SuiteFailure(f"{path}: not a log of Inspect AI {version}: {field}: {first['msg']}.") from None
    except (ValueError, RecursionError) as error:
        raise SuiteFailure(f"{path}: cut short or damaged, no complete JSON ({error}).") from None
    if log.status != "success":
        message = log.error.cause if log.error else "no error given"
        raise SuiteFailure(f"{path}: Inspect AI ended with status {log.status!r}: {message}.")
    return log
