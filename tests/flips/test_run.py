"""Two tiny versions on the same items, end to end, against plain computations."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr

from safetyrepro.config import ModelSpec
from safetyrepro.engine.api import Decoding
from safetyrepro.errors import InputError
from safetyrepro.flips.collect import Collected, collect, versions_of
from safetyrepro.flips.file_task import choice_task, problem_task
from safetyrepro.flips.run import run_update, write_together
from safetyrepro.flips.signal_table import read_signal_tables
from safetyrepro.flips.task import Task
from safetyrepro.flips.trajectory import representation_drift, top_k_kl
from safetyrepro.flips.update import Update, load_update
from safetyrepro.progress import Progress
from tests.tiny import make_tiny_model

QUIET = Progress(None)
NEW_TOKENS = 24
CROSSED = (
    "kl",
    "jsd",
    "drift_old_trajectory",
    "drift_new_trajectory",
    "topk_kl_old_trajectory",
    "topk_kl_new_trajectory",
    "representation_drift",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("versions")
    made = {name: make_tiny_model(folder / name, seed=seed) for name, seed in (("v1", 0), ("v2", 1), ("same", 0))}
    made["other"] = make_tiny_model(folder / "other", family="gemma3")
    return made


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    folder = tmp_path_factory.mktemp("items")
    words = ("nurse", "engineer", "meeting", "station", "water", "capital")
    choices = [
        {
            "question": f"Which {word} was late, {number}?",
            "options": ["yes", "no", f"the {word}"],
            "answer": "ABC"[number % 3],
        }
        for number, word in enumerate(words)
    ]
    problems = [{"question": f"What is {n} plus {n}?", "answer": f"Twice {n} it is.\n#### {2 * n}"} for n in (3, 4)]
    for name, items in (("choices", choices), ("problems", problems)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    solve = problem_task(folder / "problems.jsonl", None, chat=False)
    solve.decoding = Decoding(max_tokens=NEW_TOKENS)
    return [choice_task(folder / "choices.jsonl", None, chat=False), solve]


def update(models: dict[str, Path], old: str, new: str, mode: Literal["exact", "shared"] = "exact") -> Update:
    return Update(
        name=f"{old}-to-{new}",
        old=ModelSpec(id=str(models[old]), quant="none", threads=1, mode=mode),
        new=ModelSpec(id=str(models[new]), quant="none", threads=1, mode=mode),
    )


def collected(
    models: dict[str, Path],
    old: str,
    new: str,
    tasks: Sequence[Task],
    *,
    one_at_a_time: bool = False,
    mode: Literal["exact", "shared"] = "exact",
) -> list[Collected]:
    with versions_of(update(models, old, new, mode), QUIET, one_at_a_time=one_at_a_time) as versions:
        return collect(versions, tasks, QUIET)


@pytest.fixture(scope="module", params=["exact", "shared"])
def forth(request: pytest.FixtureRequest, models: dict[str, Path], tasks: list[Task]) -> list[Collected]:
    return collected(models, "v1", "v2", tasks, mode=request.param)


class Plain:
    """A model as transformers loads it, asked token by token."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def behind(self, prompt: str, text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Log-probabilities (n, vocabulary) in place of the tokens of `text` behind `prompt`."""
        start, whole = len(self.ids(prompt)), self.ids(prompt + text)
        rows = []
        for place in range(start, len(whole)):
            with torch.no_grad():
                rows.append(self.model(torch.tensor([whole[:place]])).logits[0, -1].double().numpy())
        return log_softmax(np.array(rows), axis=-1)

    def nll(self, prompt: str, text: str) -> float:
        rows, ids = self.behind(prompt, text), self.ids(prompt + text)[len(self.ids(prompt)) :]
        return -float(np.mean([row[token] for row, token in zip(rows, ids, strict=True)]))


def test_signals_of_choices_against_plain_transformers(models: dict[str, Path], forth: list[Collected]) -> None:
    plain = {name: Plain(models[name]) for name in ("v1", "v2")}
    rows = forth[0].rows
    for old, new in zip(rows[::2], rows[1::2], strict=True):
        assert (old["model"], new["model"]) == ("v1", "v2")
        prompt, letters = old["prompt"], (" A", " B", " C")
        sums = {
            name: [
                -plain[name].nll(prompt, text) * len(plain[name].ids(prompt + text)[len(plain[name].ids(prompt)) :])
                for text in letters
            ]
            for name in plain
        }
        p, q = (np.exp(log_softmax(sums[name])) for name in ("v2", "v1"))
        assert old["confidence"] == pytest.approx(q.max(), abs=1e-4)
        assert new["margin"] == pytest.approx(np.diff(np.sort(sums["v2"]))[-1], abs=1e-3)
        assert new["kl"] == pytest.approx(rel_entr(p, q).sum(), rel=1e-3, abs=1e-5)
        assert old["answer"] == letters[int(np.argmax(sums["v1"]))]
        for side, row, owner, other in (("old", old, "v1", "v2"), ("new", new, "v2", "v1")):
            drift = plain["v2"].nll(prompt, row["answer"]) - plain["v1"].nll(prompt, row["answer"])
            assert new[f"drift_{side}_trajectory"] == pytest.approx(drift, abs=1e-3)
            generator, seen = plain[owner].behind(prompt, row["answer"]), plain[other].behind(prompt, row["answer"])
            expected = []
            for mine, theirs in zip(generator, seen, strict=True):
                top = np.argsort(mine)[::-1][:20]
                a, b = log_softmax(mine[top]), log_softmax(theirs[top])
                expected.append(rel_entr(np.exp(a), np.exp(b)).sum())
            assert new[f"topk_kl_{side}_trajectory"] == pytest.approx(np.mean(expected), rel=1e-3, abs=1e-5)


def test_written_answers_against_plain_transformers(
    models: dict[str, Path], forth: list[Collected], tasks: list[Task]
) -> None:
    plain = {name: Plain(models[name]) for name in ("v1", "v2")}
    old, new = forth[1].rows[:2]
    assert old["score"] in (0.0, 1.0)
    assert new["confidence"] < 0
    assert "margin" not in new
    prompt = torch.tensor([plain["v1"].ids(old["prompt"])])
    with torch.no_grad():
        written = plain["v1"].model.generate(prompt, max_new_tokens=NEW_TOKENS, do_sample=False)
    sums = {}
    for name in plain:
        with torch.no_grad():
            logprobs = torch.log_softmax(plain[name].model(written).logits[0].double(), dim=-1)
        start = prompt.shape[1]
        own = logprobs[start - 1 : -1].gather(-1, written[0, start:, None])[:, 0]
        sums[name] = float(own.mean())
    assert old["confidence"] == pytest.approx(sums["v1"], abs=1e-3)
    assert new["drift_old_trajectory"] == pytest.approx(sums["v1"] - sums["v2"], abs=1e-3)
    reasons = {(row["signal"], row["reason"]) for row in forth[1].undefined}
    assert reasons == {(name, "the task has no options to score") for name in ("kl", "jsd", "margin_old", "margin_new")}


@pytest.mark.parametrize("mode", ["exact", "shared"])
def test_a_version_against_itself_shows_nothing(
    models: dict[str, Path], tasks: list[Task], mode: Literal["exact", "shared"]
) -> None:
    for part in collected(models, "v1", "same", tasks, mode=mode):
        for old, new in zip(part.rows[::2], part.rows[1::2], strict=True):
            assert old["score"] == new["score"]
            assert old["answer"] == new["answer"]
            # An answer is seen in other company the second time, which rounds otherwise.
            for name in CROSSED:
                assert abs(new.get(name, 0.0)) < 1e-5, name
            assert new.get("kl", 0.0) == new.get("jsd", 0.0) == 0.0


def test_one_version_at_a_time_is_one_model_in_memory(
    models: dict[str, Path], tasks: list[Task], held_at_loads: list[int]
) -> None:
    collected(models, "v1", "v2", tasks, one_at_a_time=True)
    assert held_at_loads == [0, 0, 0]


def test_drift_is_antisymmetric(models: dict[str, Path], tasks: list[Task], forth: list[Collected]) -> None:
    back = collected(models, "v2", "v1", tasks, one_at_a_time=True)
    for there, again in zip(forth, back, strict=True):
        for one, two in zip(there.rows[1::2], again.rows[1::2], strict=True):
            assert one["drift_old_trajectory"] == pytest.approx(-two["drift_new_trajectory"], abs=1e-5)
            assert one["topk_kl_old_trajectory"] == pytest.approx(two["topk_kl_new_trajectory"], rel=1e-4, abs=1e-6)
            assert one["representation_drift"] == pytest.approx(two["representation_drift"], abs=1e-6)
            if "jsd" in one:
                assert one["jsd"] == pytest.approx(two["jsd"], abs=1e-5)


def test_another_vocabulary_leaves_token_divergence_undefined(models: dict[str, Path], tasks: list[Task]) -> None:
    part = collected(models, "v1", "other", tasks[:1])[0]
    reasons = {row["signal"]: row["reason"] for row in part.undefined}
    for side in ("old", "new"):
        assert reasons[f"topk_kl_{side}_trajectory"] == "the versions have different vocabularies"
    plain = {name: Plain(models[name]) for name in ("v1", "other")}
    old, new = part.rows[:2]
    assert new["prompt"] == "<bos>" + old["prompt"]
    text = old["answer"]
    per_byte = {
        name: plain[name].nll(prompt, text)
        * len(plain[name].ids(prompt + text)[len(plain[name].ids(prompt)) :])
        / len(text)
        for name, prompt in (("v1", old["prompt"]), ("other", new["prompt"]))
    }
    assert new["drift_old_trajectory"] == pytest.approx(per_byte["other"] - per_byte["v1"], abs=1e-3)
    assert math.isfinite(new["kl"])


def test_drift_by_hand() -> None:
    assert representation_drift(np.array([1.0, 0.0]), np.array([0.0, 2.0])) == 1.0
    assert representation_drift(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == pytest.approx(0)
    assert representation_drift(np.array([0.0, 0.0]), np.array([2.0, 2.0])) is None
    half = np.log([[0.25, 0.25]])
    assert top_k_kl(half, half) == 0
    assert top_k_kl(half, np.log([[0.1, 0.3]])) == pytest.approx(
        0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    )


def test_a_run_is_kept_and_reported(
    models: dict[str, Path], tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = update(models, "v1", "v2")
    first = run_update(pair, tasks, tmp_path, QUIET, one_at_a_time=False, redact=False)
    assert [entry["benchmark"] for entry in first.body["by_config"]] == ["choices", "problems"]
    assert {"task", "signal", "reason", "items"} == set(first.body["undefined"][0])
    page = (tmp_path / pair.name / "flips.html").read_text(encoding="utf-8")
    assert "the task has no options to score" in page
    together = write_together([first], tmp_path, QUIET)
    assert len(together["updates"]) == 2
    read = read_signal_tables([tmp_path / "signals.csv"])
    assert [(table.update, table.task) for table in read] == [(pair.name, "choices"), (pair.name, "problems")]
    for ours, theirs in zip(first.tables, read, strict=True):
        assert (ours.items, ours.clusters) == (theirs.items, theirs.clusters)
        assert ours.old_right.tolist() == theirs.old_right.tolist()
        for name, values in ours.signals.items():
            np.testing.assert_array_equal(theirs.signals[name], values)
    monkeypatch.setattr("safetyrepro.flips.run.versions_of", None)
    again = run_update(pair, tasks, tmp_path, QUIET, one_at_a_time=False, redact=False)
    assert again.body == first.body
    other = pair.model_copy(update={"old": pair.old.model_copy(update={"quant": "nf4"})})
    with pytest.raises(InputError, match="holds another run"):
        run_update(other, tasks, tmp_path, QUIET, one_at_a_time=False, redact=False)


def test_shipped_updates_can_be_read() -> None:
    folder = Path(__file__).parents[2] / "anchor_configs" / "updates"
    read = [load_update(path) for path in sorted(folder.glob("*.yaml"))]
    assert len({update.name for update in read}) == len(read) == 7
    assert sum(update.old.weights_sha256 == "unverified" for update in read) == 6
