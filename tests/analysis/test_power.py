"""Minimum detectable difference and planner: by hand, as each other's inverse, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from safetyrepro.analysis.power import Discordance, discordance, items_needed, minimum_detectable


def test_items_by_hand() -> None:
    """5 points at 20% discordance: (1.959964 sqrt(.2) + .841621 sqrt(.2 - .0025))^2 / .0025 = 625.9."""
    by_hand = (1.959964 * math.sqrt(0.2) + 0.841621 * math.sqrt(0.1975)) ** 2 / 0.0025
    assert items_needed(0.05, 0.2) == math.ceil(by_hand)
    assert items_needed(0.05, 0.2, design_effect=2) == math.ceil(2 * by_hand)
    assert items_needed(0.05, 0.2, critical=3.0) > items_needed(0.05, 0.2)


@pytest.mark.parametrize(("difference", "share"), [(0.0, 0.2), (0.3, 0.2), (-0.1, 0.2), (0.1, 1.5)])
def test_impossible_differences_are_refused(difference: float, share: float) -> None:
    with pytest.raises(ValueError, match="difference is"):
        items_needed(difference, share)


def test_planner_and_mde_are_inverse() -> None:
    found = minimum_detectable(Discordance(1000, 0.3, 0.3, 1.0))
    assert found is not None
    assert items_needed(found, 0.3) == 1000
    adjusted = minimum_detectable(Discordance(1000, 0.3, 0.3, 1.0), critical=3.1)
    clustered = minimum_detectable(Discordance(1000, 0.3, 0.3, 4.0))
    assert adjusted is not None
    assert adjusted > found
    assert clustered == pytest.approx(2 * found, rel=0.05)


def test_too_little_discordance_detects_nothing() -> None:
    assert minimum_detectable(Discordance(50, 0.02, 0.02, 1.0)) is None
    assert minimum_detectable(Discordance(50, 0.0, 0.0, 1.0)) is None


def test_power_by_simulation() -> None:
    n, share = 400, 0.25
    difference = minimum_detectable(Discordance(n, share, share, 1.0))
    assert difference is not None
    rng = np.random.default_rng(9)
    up, down = (share + difference) / 2, (share - difference) / 2
    counts = rng.multinomial(n, [up, down, 1 - share], size=20_000)
    z = (counts[:, 0] - counts[:, 1]) / np.sqrt(np.maximum(1, counts[:, 0] + counts[:, 1]))
    assert (np.abs(z) >= 1.96).mean() == pytest.approx(0.8, abs=0.02)


def test_discordance_by_hand() -> None:
    items = np.array([[1.0, 1, -1, 0], [0, 0, np.nan, 1]])
    sums = np.array([[2.0, 0], [-1, 1]])
    found = discordance(items, sums)
    assert found is not None
    assert found.n_items == 3.5
    assert found.share == pytest.approx((3 / 4 + 1 / 3) / 2)
    assert found.reach == found.share
    assert found.design_effect == pytest.approx((4 + 1 + 0 + 1) / 4)
    assert discordance(np.full((1, 2), np.nan), np.zeros((2, 1))) is None
