"""Each class alone is found and nothing else; where its cause is absent it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetyrepro.crosspkg.divergence import CLASSES, DETECTORS
from tests.crosspkg.divergence.cases import CASES, Case
from tests.crosspkg.divergence.rows import classes

by_name = pytest.mark.parametrize("planted", CASES, ids=lambda planted: planted.name)


@by_name
def test_the_planted_class_is_found_and_no_other(planted: Case, tmp_path: Path) -> None:
    assert classes(tmp_path, planted.a, planted.b) == planted.expected


@by_name
def test_the_other_way_round_it_is_the_same_class(planted: Case, tmp_path: Path) -> None:
    assert classes(tmp_path, planted.b, planted.a) == planted.expected


@by_name
def test_without_the_cause_nothing_is_found(planted: Case, tmp_path: Path) -> None:
    assert classes(tmp_path, planted.a, planted.twin) == set()


def test_every_class_has_a_case_and_a_detector() -> None:
    assert set().union(*(planted.expected for planted in CASES)) == set(CLASSES)
    assert {name for detector in DETECTORS for name in detector.classes} == set(CLASSES)
