from __future__ import annotations

import json
from typing import Any

import pytest

from safetyrepro.judge.reply import read_reply, toward_a
from tests.judge.scripted import FACTORS, marks


def response(text: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text, **message}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("text", "verdict", "overall"),
    [
        (marks(overall=5), "first", 5),
        (marks(overall=3), "tie", 3),
        (f"Let me think.\n```json\n{marks(overall=1)}\n```\nDone.", "second", 1),
        ('{"Overall": "4", "STYLE": 2.0}', "first", 4),
        ('First draft {"overall": 1}, better {"overall": 4}', "first", 4),
        ("Correctness: 4\n**Overall**: 2/5\n", "second", 2),
        ("- overall = [5]", "first", 5),
        ("[correctness: 1, style: 2, overall: 1]", "second", 1),
        ("overall: 2\nOn reflection, overall: 4.", "first", 4),
        ('"overall": 5', "first", 5),
        ('{"overall": 4, "note": "a } brace"}', "first", 4),
        ('{"overall": [4]}', "first", 4),
        ('{"marks": {"overall": 2}}', "second", 2),
    ],
)
def test_a_verdict_is_read(text: str, verdict: str, overall: int) -> None:
    reply = read_reply(response(text))
    assert (reply.status, reply.verdict, reply.marks["overall"]) == ("ok", verdict, overall)


@pytest.mark.parametrize(
    "text",
    [
        "The first is better.",
        '{"overall": 6}',
        '{"overall": 0}',
        '{"overall": 2.5}',
        '{"overall": true}',
        '{"overall": null}',
        '{"overall": "good"}',
        '{"overall": NaN}',
        '{"overall": 1e400}',
        "overall: 45",
        "overall: 4 out of 10",
        "overall: 4/10",
        "overall: 4%",
        "overall: 4.5",
        "overall: 3rd",
        "overallness: 4",
        "The overall is 4.",
        "overall: -4",
        "{" * 5000,
        '{"a":' * 3000,
        "overall" * 20000,
    ],
)
def test_what_is_no_verdict_is_unparsed(text: str) -> None:
    reply = read_reply(response(text))
    assert (reply.status, reply.verdict, dict(reply.marks)) == ("unparsed", "", {})
    assert reply.reason


def test_a_bad_mark_beside_a_good_overall_is_left_empty() -> None:
    reply = read_reply(response(json.dumps({"overall": 4, "style": 9, "safety": "3", "correctness": None})))
    assert dict(reply.marks) == {"safety": 3, "overall": 4}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (response(None, refusal="I will not"), "refused"),
        (response("x", "content_filter"), "refused"),
        (response('{"correctness": 3, "ov', "length"), "truncated"),
        (response("", "length"), "truncated"),
        (response(marks(overall=4), "length"), "ok"),
        (response(""), "unparsed"),
        (response(["no", "text"]), "unparsed"),
        ({}, "unparsed"),
        ({"choices": []}, "unparsed"),
        ({"choices": "no"}, "unparsed"),
        ({"choices": [{"message": "no"}]}, "unparsed"),
    ],
)
def test_refused_and_cut_replies_go_by_their_own_name(body: dict[str, Any], status: str) -> None:
    assert read_reply(body).status == status


def test_marks_are_turned_toward_answer_a() -> None:
    shown = dict.fromkeys(FACTORS, 5) | {"overall": 4}
    assert toward_a(shown, "ab") == shown
    assert toward_a(shown, "ba") == dict.fromkeys(FACTORS, 1) | {"overall": 2}
