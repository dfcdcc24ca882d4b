"""Answers that are hard to look at, and what is held in memory meanwhile, on tiny versions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import safetyrepro.engine
from safetyrepro.config import ModelSpec
from safetyrepro.engine.api import Decoding, Generated
from safetyrepro.engine.observing.observer import Observer
from safetyrepro.errors import InputError
from safetyrepro.flips.collect import collect, versions_of
from safetyrepro.flips.file_task import ProblemTask, choice_task, problem_task
from safetyrepro.flips.outlook import CUT_WITHIN, NOTHING_WRITTEN, Signals, crossed_signals
from safetyrepro.flips.passes import TOO_LONG, Asked, Side, crossing_items, own_items
from safetyrepro.flips.run import run_update
from safetyrepro.flips.task import Task
from safetyrepro.flips.update import Update
from safetyrepro.progress import Progress
from tests.tiny import make_tiny_model

QUIET = Progress(None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("looked-at") / "v1")


@pytest.fixture(scope="module")
def side(folder: Path) -> Iterator[Side]:
    engine = safetyrepro.engine.load(ModelSpec(id=str(folder), quant="none", threads=1))
    yield Side(engine, Observer(engine))
    engine.close()


def choices(folder: Path, questions: Sequence[str], name: str = "choices") -> Task:
    path = folder / f"{name}.jsonl"
    items = [{"question": question, "options": ["yes", "no"], "answer": "A"} for question in questions]
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return choice_task(path, None, chat=False)


def problems(folder: Path) -> ProblemTask:
    path = folder / "problems.jsonl"
    path.write_text(json.dumps({"question": "What is 2 plus 2?", "answer": "#### 4"}) + "\n", encoding="utf-8")
    task = problem_task(path, None, chat=False)
    task.decoding = Decoding(max_tokens=24)
    return task


def update(old: Path, new: Path) -> Update:
    specs = [ModelSpec(id=str(path), quant="none", threads=1) for path in (old, new)]
    return Update(name="pair", old=specs[0], new=specs[1])


@pytest.fixture
def signals_of(side: Side, tmp_path: Path) -> Callable[[Sequence[int], str], Signals]:
    """Signals of a model against itself, told that the vocabularies differ, on a given answer."""

    def signals(ids: Sequence[int], text: str) -> Signals:
        task = problems(tmp_path)
        questions = tuple(task.questions(side.engine.tokenizer))
        generated = Generated(tuple(ids), text, "stop", (-1.0,) * len(ids), ((),) * len(ids))
        own = own_items(side, task, Asked(questions, (generated,)), [0])[0][0]
        crossing = crossing_items(side, questions, [own.trajectory], same_vocabulary=False)[0]
        return crossed_signals(own, own, crossing, crossing, same_vocabulary=False)

    return signals


def test_an_end_token_is_no_part_of_a_text(
    side: Side, signals_of: Callable[[Sequence[int], str], Signals], tmp_path: Path
) -> None:
    text, tokenizer = " The answer is 4", side.engine.tokenizer
    prompt = problems(tmp_path).questions(tokenizer)[0].prompt
    ids = tokenizer.encode(prompt + text)[len(tokenizer.encode(prompt)) :]
    (end,) = tokenizer.encode("<|im_end|>")
    stop = tokenizer.encode(prompt + text + "\n\n")[len(tokenizer.encode(prompt)) :]
    assert stop[: len(ids)] == ids
    for written in (ids, [*ids, end], stop):
        found = signals_of(written, text)
        assert found.values["drift_old_trajectory"] == pytest.approx(0, abs=1e-5)
        assert found.values["drift_new_trajectory"] == pytest.approx(0, abs=1e-5)


def test_a_text_that_is_empty_or_ends_within_a_token_has_no_drift(
    side: Side, signals_of: Callable[[Sequence[int], str], Signals]
) -> None:
    (end,) = side.engine.tokenizer.encode("<|im_end|>")
    empty = signals_of([end], "")
    assert empty.undefined["drift_old_trajectory"] == empty.undefined["topk_kl_old_trajectory"] == NOTHING_WRITTEN
    token = next(i for i in range(300, 480) if len(side.engine.tokenizer.decode([i])) > 3)
    cut = side.engine.tokenizer.decode([token])[:2]
    assert signals_of([token], cut).undefined["drift_new_trajectory"] == CUT_WITHIN


def test_an_answer_that_the_other_version_cannot_take_is_undefined(folder: Path, tmp_path: Path) -> None:
    task = problems(tmp_path)
    room = len(task.questions(safetyrepro.engine.load(ModelSpec(id=str(folder), quant="none")).tokenizer)[0].ids)
    short = tmp_path / "short"
    shutil.copytree(folder, short)
    config = json.loads((short / "config.json").read_text(encoding="utf-8"))
    (short / "config.json").write_text(json.dumps({**config, "max_position_embeddings": room + 3}), encoding="utf-8")
    for old, new, signal in ((folder, short, "drift_old_trajectory"), (short, folder, "drift_new_trajectory")):
        with versions_of(update(old, new), QUIET, one_at_a_time=False) as versions:
            part = collect(versions, [task], QUIET)[0]
        reasons = {row["signal"]: row["reason"] for row in part.undefined}
        assert reasons[signal] == TOO_LONG
        assert reasons[signal.replace("drift", "topk_kl")] == TOO_LONG


def test_an_item_that_a_model_cannot_be_given_is_named(folder: Path, tmp_path: Path) -> None:
    added = tmp_path / "added"
    shutil.copytree(folder, added)
    body = json.loads((added / "tokenizer.json").read_text(encoding="utf-8"))
    beyond = {"id": 5000, "content": "<image_soft_token>", "special": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    body["added_tokens"].append({**beyond, **flags})
    (added / "tokenizer.json").write_text(json.dumps(body), encoding="utf-8")
    task = choices(tmp_path, ["Is it so?", "Is it <image_soft_token>?"])
    with (
        versions_of(update(added, added), QUIET, one_at_a_time=False) as versions,
        pytest.raises(InputError, match=r"choices, item \S+: Token id \d+ is outside the model's vocabulary"),
    ):
        collect(versions, [task], QUIET)
    long = choices(tmp_path, ["why " * 3000], name="long")
    with (
        versions_of(update(folder, folder), QUIET, one_at_a_time=False) as versions,
        pytest.raises(InputError, match=r"long, item \S+: An item has \d+ tokens, the model takes 2048"),
    ):
        collect(versions, [long], QUIET)


def test_a_task_is_kept_though_the_next_one_fails(folder: Path, tmp_path: Path) -> None:
    tasks = [choices(tmp_path, ["Is it so?"]), choices(tmp_path, ["why " * 3000], name="long")]
    out = tmp_path / "out"
    with pytest.raises(InputError, match="long, item"):
        run_update(update(folder, folder), tasks, out, QUIET, one_at_a_time=False, redact=False)
    assert (out / "pair" / "1-choices" / "run.json").is_file()
    with pytest.raises(InputError, match="choices: the same items are asked twice"):
        run_update(update(folder, folder), tasks[:1] * 2, out, QUIET, one_at_a_time=False, redact=False)
