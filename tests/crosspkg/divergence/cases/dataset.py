"""The data."""

from __future__ import annotations

import copy
from typing import Any

from tests.crosspkg.divergence.cases.case import case, metas
from tests.crosspkg.divergence.rows import free, set_prompt


@case("dataset.revision")
def a_stated_revision() -> Any:
    a = free()
    return a, metas(a, dataset_revision="r2"), copy.deepcopy(a)


@case("dataset.revision")
def one_question_in_other_words() -> Any:
    a = free()
    b = copy.deepcopy(a)
    set_prompt(b[3], b[3]["request"]["prompt"].replace("penguins", "albatrosses"))
    return a, b, copy.deepcopy(a)


@case("dataset.items")
def other_items() -> Any:
    a = free()
    return a[:10], a[2:], copy.deepcopy(a[:10])
