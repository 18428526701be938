from dataclasses import replace

import numpy as np
import pytest

from parity311.city.incidents import IncidentModel, nearest_year
from parity311.city.setting import CitySetting
from parity311.domains.heat import PROCESS as HEAT


@pytest.fixture(scope="module")
def model(setting: CitySetting) -> IncidentModel:
    return IncidentModel(HEAT, setting)


def borough_shares(model: IncidentModel) -> np.ndarray:
    borough = model.setting.tracts.borough[model.setting.buildings.tract]
    return np.bincount(borough, model.building_weights, minlength=5)


def test_declared_margins_hold_and_are_missed_without_raking(model: IncidentModel) -> None:
    declared = np.asarray(HEAT.places.borough_shares) / np.sum(HEAT.places.borough_shares)
    np.testing.assert_allclose(borough_shares(model), declared, atol=0.01)
    loose = replace(HEAT, places=replace(HEAT.places, borough_shares=None, quintile_rates=None))
    assert np.abs(borough_shares(IncidentModel(loose, model.setting)) - declared).max() > 0.02


def test_rates_by_quintile_follow_the_declaration(model: IncidentModel) -> None:
    tracts = model.setting.tracts
    by_tract = np.bincount(model.setting.buildings.tract, model.building_weights, tracts.n)
    renters = tracts.households * np.nan_to_num(tracts.share_renter)
    inside = [tracts.income_quintile == quintile for quintile in range(1, 6)]
    rates = np.array([by_tract[group].sum() / renters[group].sum() for group in inside])
    declared = np.asarray(HEAT.places.quintile_rates, dtype=float)
    np.testing.assert_allclose(rates / rates.sum(), declared / declared.sum(), atol=0.005)


def test_a_month_has_its_expected_incidents_and_shares(model: IncidentModel) -> None:
    weights = model.month_weights(model.year_weights(2024), 2024, 1)
    incidents = model.draw_month(2024, 1, weights)
    expected = model.expected_in_month(2024, 1) * weights[-1]
    assert abs(len(incidents.began) - expected) < 4 * np.sqrt(expected)
    lifetimes = incidents.natural_end - incidents.began
    assert abs(lifetimes.mean() - HEAT.hazard.lifetime_days) < 0.3
    declared = sum(entry.share * entry.actionable for entry in HEAT.categories)
    declared /= sum(entry.share for entry in HEAT.categories)
    assert abs(incidents.is_actionable.mean() - declared) < 0.02
    grave = incidents.hazard_index > 1.0
    assert incidents.is_actionable[grave].mean() > 1.5 * incidents.is_actionable[~grave].mean()


def test_the_chance_kept_is_the_one_that_was_drawn_from(model: IncidentModel) -> None:
    weights = model.month_weights(model.year_weights(2024), 2024, 1)
    incidents = model.draw_month(2024, 1, weights)
    chance, drawn = incidents.actionable_chance, incidents.is_actionable
    tenth = np.argsort(chance).argsort() * 10 // len(chance)
    mean = np.bincount(tenth, chance) / np.bincount(tenth)
    share = np.bincount(tenth, drawn) / np.bincount(tenth)
    limit = 4.0 * np.sqrt(mean * (1.0 - mean) / np.bincount(tenth))
    assert (np.abs(share - mean) < limit).all()
    mixed = np.bincount(tenth, np.random.default_rng(0).permutation(drawn)) / np.bincount(tenth)
    assert (np.abs(mixed - mean) > limit).any()


def test_no_heat_complaint_without_heating(model: IncidentModel) -> None:
    july = model.category_weights(2024, 7)
    assert [entry.code for entry, share in zip(HEAT.categories, july, strict=True) if share] == [
        "NO HOT WATER"
    ]
    assert model.category_weights(2024, 1).min() > 0


def test_cold_days_have_more_incidents(model: IncidentModel) -> None:
    weights = model.month_weights(model.year_weights(2024), 2024, 1)
    day = np.floor(model.draw_month(2024, 1, weights).began).astype(np.int64)
    first = day.min()
    counts = np.bincount(day - first, minlength=31)
    temperature = model.setting.weather.on(np.arange(first, first + 31))
    assert np.corrcoef(counts, temperature)[0, 1] < -0.6


def test_years_not_in_the_table_take_the_nearest() -> None:
    table = {2020: 1.0, 2023: 4.0}
    assert [nearest_year(table, year) for year in (2000, 2021, 2022, 2040)] == [1, 1, 4, 4]
