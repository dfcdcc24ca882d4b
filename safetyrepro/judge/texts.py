"""Adds surface features to a verdict table from the answers' texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from safetyrepro.errors import InputError
from safetyrepro.judge.answers import read_answers
from safetyrepro.judge.surface import surface
from safetyrepro.judge.verdicts import FEATURES, VerdictTable, originals


def with_features(table: VerdictTable, paths: Sequence[Path]) -> VerdictTable:
    """The table with the features of both answers, for the rows whose answers were not edited.

    Args:
        table: with `model_a` and `model_b`.
        paths: files of answers.

    Raises:
        InputError: a model in two files, or no row whose two answers are there.
    """
    texts: dict[tuple[str, str], dict[str, int]] = {}
    for path in paths:
        for answer in read_answers(path):
            if (answer.model, answer.item_id) in texts:
                raise InputError(f"{path}: {answer.model} answers {answer.item_id!r} in another file already.")
            texts[answer.model, answer.item_id] = surface(answer.text)
    frame = table.frame.copy()
    found = 0
    for index, row in originals(frame).iterrows():
        sides = {side: texts.get((row[f"model_{side}"], row["item_id"])) for side in "ab"}
        if all(sides.values()):
            found += 1
            for side, features in sides.items():
                for name in FEATURES:
                    frame.at[index, f"{name}_{side}"] = float((features or {})[name])
    if not found:
        models = sorted({model for model, _ in texts})
        raise InputError(
            f"--answers: no row of the verdict table has both of its answers there (models in them: "
            f"{', '.join(models)}); its item_id, model_a and model_b must be theirs."
        )
    return replace(table, frame=frame, features=FEATURES)
