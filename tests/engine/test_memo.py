"""The memo holds no more than it may."""

from __future__ import annotations

from dataclasses import dataclass

from safetyrepro.engine.memo import Memo


@dataclass(frozen=True)
class Result:
    nbytes: int


def test_the_least_recently_used_goes_first() -> None:
    memo: Memo[Result] = Memo(100)
    for key in "abc":
        memo.put(key, Result(33))
    assert memo.get("a") == Result(33)
    memo.put("d", Result(33))
    assert [key for key in "abcd" if memo.get(key)] == ["a", "c", "d"]
    assert memo.hits == 4


def test_what_is_too_large_is_not_kept() -> None:
    memo: Memo[Result] = Memo(100)
    memo.put("a", Result(60))
    memo.put("b", Result(101))
    assert memo.get("b") is None
    assert memo.get("a") == Result(60)
