"""Pages of results are what their kept figures give: no number was written by hand."""

from __future__ import annotations

import json

import pytest

from docs import real_data, round_trip

KEPT = json.loads(round_trip.FIGURES.read_text())


def test_the_page_of_the_round_trip_is_made_from_its_figures() -> None:
    assert round_trip.page(KEPT) == round_trip.PAGE.read_text()


def test_the_page_of_real_rows_is_made_from_its_figures() -> None:
    figures = json.loads(real_data.FIGURES.read_text())
    assert real_data.page(figures) == real_data.PAGE.read_text()


def test_another_figure_would_be_another_page() -> None:
    """The check itself: a figure that was changed shows."""
    changed = json.loads(json.dumps(KEPT))
    changed["portals"][0]["domains"][0]["estimate"]["total"] *= 2.0
    assert round_trip.page(changed) != round_trip.PAGE.read_text()


@pytest.mark.parametrize("portal", KEPT["portals"], ids=lambda one: one["shape"])
def test_every_portal_gave_all_rows_back(portal: dict) -> None:
    assert portal["kept"] == portal["rows_in"]
