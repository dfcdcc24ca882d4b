"""The judge's own gateway: a log, a key that the suite never sees, and nothing where no judge is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from safetyrepro.adapters.base import Job
from safetyrepro.config import Arm, config_id
from safetyrepro.crosspkg.judging import KEY_VARIABLE, judge_of
from safetyrepro.engine.api import Engine
from safetyrepro.gateway import Gateway, read_wire
from tests.adapters.cells import cell_of
from tests.adapters.scripted import Replying

XSTEST: dict[str, Any] = {"benchmark": {"name": "xstest", "items": {"count": 2}}, "metric": "accuracy"}
JOB = Job({}, (), 2, judged=True)


def test_the_suite_asks_a_loopback_url_and_the_key_stays_here(
    tiny_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gateway(Replying(tiny_engine, lambda _: "GRADE: C")) as court:
        elsewhere = court.open_run("elsewhere", tmp_path / "elsewhere.jsonl")
        monkeypatch.setenv(KEY_VARIABLE, elsewhere.token)
        judge = {"url": elsewhere.base_url, "model": "some/judge"}
        cell = cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, **XSTEST, judge=judge)
        with judge_of(cell, JOB, tmp_path) as told:
            assert elsewhere.token not in told.values()
            answer = httpx.post(
                f"{told['SAFETYREPRO_JUDGE_URL']}/chat/completions",
                json={"model": "judge", "max_tokens": 8, "messages": [{"role": "user", "content": "Grade it."}]},
                headers={"Authorization": f"Bearer {told['SAFETYREPRO_JUDGE_TOKEN']}"},
            )
    assert answer.json()["choices"][0]["message"]["content"] == "GRADE: C"
    (row,) = read_wire(tmp_path / "judge.jsonl")
    assert (row.status, row.request["messages"][0]["content"]) == (200, "Grade it.")
    (forwarded,) = read_wire(tmp_path / "elsewhere.jsonl")
    assert forwarded.request["model"] == "some/judge"
    assert elsewhere.token not in (tmp_path / "judge.jsonl").read_text(encoding="utf-8")


def test_no_judge_is_served_where_none_is_asked(tiny_engine: Engine, tmp_path: Path) -> None:
    cell = cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, **XSTEST)
    with judge_of(cell, JOB, tmp_path) as told:
        assert told == {}
    judged = cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, **XSTEST, judge={"url": "http://x/v1", "model": "j"})
    with judge_of(judged, replace(JOB, judged=False), tmp_path) as told:
        assert told == {}
    assert list(tmp_path.iterdir()) == []


def test_the_judges_name_is_part_of_the_config_and_its_url_is_not(tiny_engine: Engine) -> None:
    def identity(**judge: str) -> str:
        return config_id(cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, **XSTEST, judge=judge or None).config)

    assert identity(url="http://a/v1", model="j") == identity(url="https://b/v1", model="j")
    assert len({identity(), identity(url="http://a/v1", model="j"), identity(url="http://a/v1", model="k")}) == 3


@pytest.mark.parametrize("url", ["", "ftp://host/v1", "http://user:key@host/v1", "https://host/v1?key=1", "host/v1"])
def test_a_url_holds_no_key_and_is_one(tiny_engine: Engine, url: str) -> None:
    with pytest.raises(ValidationError, match="judge"):
        cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, **XSTEST, judge={"url": url, "model": "j"})


def test_nobody_judges_another_benchmark(tiny_engine: Engine) -> None:
    with pytest.raises(ValidationError, match="judge is for xstest"):
        cell_of("helm", "0.5.16", tiny_engine, Arm.NOMINAL, judge={"url": "http://x/v1", "model": "j"})
