"""Records as a run leaves them, with what these tests need filled in."""

from __future__ import annotations

import dataclasses

from safetyrepro.records import Record
from tests.test_tables import record


def recorded(item_id: str, score: float, model: str, response: str | None = None) -> Record:
    return dataclasses.replace(
        record(item_id, score),
        model=model,
        benchmark="xstest",
        response=response,
        wire_ids=(),
        candidates=(),
        gold=(),
        extra={},
        choice=None,
        suite_score=None,
        n_prompt_tokens=None,
    )
