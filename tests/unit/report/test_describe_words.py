"""The words of a city's page are counted, not known beforehand."""

from __future__ import annotations

from parity311.report.describe import _say_seasons
from parity311.report.pictures import Panel


def test_seasons_are_read_from_the_counts() -> None:
    even = [1 / 12] * 12
    summer = [0.0] * 5 + [0.3, 0.4, 0.3] + [0.0] * 4
    said = _say_seasons(
        [Panel("heat", {"complaints": even}), Panel("crane", {"complaints": summer})]
    )
    assert "100% of the complaints of crane, the most seasonal" in said
    assert "25% of those of heat, the least" in said
    assert "winter" not in said
    assert _say_seasons([Panel("heat", {"complaints": [0.0] * 12})]) == "No complaint was counted."
