"""Linking reports where the source marks no duplicates."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.errors import InputError
from parity311.reporting.duplicates import LinkRule, cluster_within, link_reports, score_links

DAY = np.array([0.0, 3.0, 20.0, 1.0, 2.0])
BUILDING = np.array(["a", "a", "a", "a", "b"])
CATEGORY = np.array(["heat", "heat", "heat", "leak", "heat"])


def test_same_building_same_problem_while_open() -> None:
    linked = link_reports(DAY, CATEGORY, LinkRule(max_days=14.0), building=BUILDING)
    assert linked[0] == linked[1]
    assert len(set(linked[[0, 2, 3, 4]])) == 4


def test_a_closed_incident_takes_no_more_reports() -> None:
    closed = np.array([2.0, np.nan, np.nan, np.nan, np.nan])
    linked = link_reports(DAY, CATEGORY, LinkRule(), building=BUILDING, closed_day=closed)
    assert linked[0] != linked[1]
    open_rule = LinkRule(until_closed=False)
    linked = link_reports(DAY, CATEGORY, open_rule, building=BUILDING, closed_day=closed)
    assert linked[0] == linked[1]


def test_any_problem_where_asked() -> None:
    rule = LinkRule(same_problem=False)
    linked = link_reports(DAY, CATEGORY, rule, building=BUILDING)
    assert linked[0] == linked[1] == linked[3]


def test_within_a_distance() -> None:
    # About 11 m and 1.1 km north of the first.
    coordinates = np.array([[-73.9, 40.8], [-73.9, 40.8001], [-73.9, 40.81]])
    assert list(cluster_within(coordinates, 50.0)) == [0, 0, 2]
    rule = LinkRule(distance_metres=50.0)
    linked = link_reports(np.zeros(3), np.full(3, "x"), rule, coordinates=coordinates)
    assert linked[0] == linked[1] != linked[2]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="no building"):
        link_reports(DAY, CATEGORY, LinkRule())
    with pytest.raises(InputError, match="longitude and latitude"):
        link_reports(DAY, CATEGORY, LinkRule(distance_metres=10.0), building=BUILDING)
    with pytest.raises(InputError, match="positive"):
        LinkRule(max_days=0.0)


def test_scores_by_hand() -> None:
    score = score_links(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 6]))
    # Three linked pairs, one of them real; two real pairs, one of them linked.
    assert score.precision == pytest.approx(1 / 3)
    assert score.recall == pytest.approx(1 / 2)
    alone = score_links(np.arange(3), np.arange(3))
    assert np.isnan(alone.precision)
    assert np.isnan(alone.recall)
