"""The page on under-reporting says what the commands printed, and nothing by hand."""

from __future__ import annotations

import re

import pytest

from docs import under_reporting


def test_the_page_and_its_pictures_are_up_to_date() -> None:
    assert under_reporting.PAGE.read_text() == under_reporting.render()
    for name, draw in under_reporting.DRAWN.items():
        assert (under_reporting.PICTURES / f"{name}.svg").read_text() == draw(), name


def test_no_block_is_left_unfilled() -> None:
    assert not re.search(r"\[\[\w+\]\]", under_reporting.render())


def test_a_number_written_by_hand_is_noticed() -> None:
    page = under_reporting.PAGE.read_text()
    changed = re.sub(r"\+(\d+\.\d)%", "+0.1%", page, count=1)
    assert changed != page
    assert changed != under_reporting.render()


def test_the_published_share_is_right_near_a_rate_of_0_7145_only() -> None:
    """C²/R equals the incidents where λ² = 1 − e^−λ."""
    import numpy as np

    rate = np.array([0.3, 0.7145, 2.0])
    need = rate / under_reporting.published_share(rate)
    assert need[1] == pytest.approx(1.0, abs=1e-3)
    assert need[0] < 0.5 < 2.0 < need[2]
