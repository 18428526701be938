from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from parity311.city.incidents import IncidentModel, Incidents
from parity311.city.process import ComplaintProcess, Flag
from parity311.city.reports import ReportModel, Reports, flag_intercept
from parity311.city.setting import TRACT_SD, CitySetting
from parity311.domains.complaint_triage import PROCESS as TRIAGE
from parity311.domains.heat import PROCESS as HEAT
from parity311.records.store import open_records
from parity311.reporting import as_published as published
from parity311.reporting.areas import areas_from_records
from parity311.reporting.weekly import weekly_from_records


def draw(process: ComplaintProcess, setting: CitySetting) -> tuple[ReportModel, Incidents, Reports]:
    model = IncidentModel(process, setting)
    reporting = ReportModel(model)
    incidents = model.draw_month(2024, 1, model.month_weights(model.year_weights(2024), 2024, 1))
    return reporting, incidents, reporting.draw_month(incidents, 2024, 1)


def shares_agree(reported: np.ndarray, chance: np.ndarray) -> bool:
    """Whether a mean of yes/no draws agrees with the mean of their chances."""
    error = np.sqrt((chance * (1 - chance)).sum()) / len(chance)
    return bool(abs(reported.mean() - chance.mean()) < 4 * error)


def test_chance_of_a_report_is_the_one_of_rate_and_lifetime(setting: CitySetting) -> None:
    reporting, incidents, reports = draw(HEAT, setting)
    reported = np.zeros(len(incidents.began), dtype=bool)
    reported[reports.incident] = True
    rate, lifetime = reporting.rates(incidents), HEAT.hazard.lifetime_days
    assert shares_agree(reported, rate * lifetime / (1 + rate * lifetime))
    assert not shares_agree(reported, rate * lifetime / (2 + rate * lifetime)), "half the life"


def test_reports_lie_within_the_life_of_their_incident(setting: CitySetting) -> None:
    _, incidents, reports = draw(HEAT, setting)
    assert (reports.time >= incidents.began[reports.incident] - 1e-6).all()
    assert (reports.time <= incidents.natural_end[reports.incident] + 1e-6).all()


def test_zero_inflation_silences_what_follows_the_first(setting: CitySetting) -> None:
    silent = replace(HEAT, reporting=replace(HEAT.reporting, zero_inflation=1.0))
    assert np.bincount(draw(silent, setting)[2].incident).max() == 1
    assert np.bincount(draw(HEAT, setting)[2].incident).max() > 3


def test_scenarios_differ_in_the_gradient_alone(
    tiny_setting: Callable[..., CitySetting],
) -> None:
    effects = {
        name: tiny_setting(name).log_reporting_effect("heat") for name in ("measured", "strong")
    }
    tracts = tiny_setting().tracts
    weights = tracts.households / tracts.households.sum()
    means = {}
    for name, effect in effects.items():
        assert abs(weights @ effect) < 1e-3, "the city reports as much in both"
        means[name] = [
            np.average(
                effect[tracts.income_quintile == q], weights=weights[tracts.income_quintile == q]
            )
            for q in range(1, 6)
        ]
    assert np.exp(means["strong"][4] - means["strong"][0]) == pytest.approx(3.0)
    assert np.exp(means["measured"][4] - means["measured"][0]) < 1.35
    within = [effects["strong"][tracts.income_quintile == q].std() for q in range(1, 6)]
    assert np.mean(within) == pytest.approx(TRACT_SD, rel=0.25)


def test_codes_have_their_declared_shares(setting: CitySetting) -> None:
    reports = draw(HEAT, setting)[2]
    shares = np.bincount(reports.code, minlength=4) / len(reports.code)
    np.testing.assert_allclose(shares, HEAT.hazard.code_shares, atol=0.03)


def test_intake_is_noisier_where_english_is_limited(setting: CitySetting) -> None:
    _, incidents, reports = draw(HEAT, setting)
    tract = setting.buildings.tract[incidents.building[reports.incident]]
    limited = np.nan_to_num(setting.tracts.share_limited_english)[tract]
    wrong = reports.category != incidents.category[reports.incident]
    high = limited > np.median(limited)
    assert wrong[high].mean() > wrong[~high].mean()
    assert (reports.language[high] > 0).mean() > (reports.language[~high] > 0).mean()


def test_what_the_agency_finds_itself_has_one_report_through_its_own_channel(
    setting: CitySetting,
) -> None:
    _, incidents, reports = draw(TRIAGE, setting)
    proactive = np.array([entry.is_proactive for entry in TRIAGE.categories])[incidents.category]
    counts = np.bincount(reports.incident, minlength=len(proactive))
    assert (counts[proactive] == 1).all()
    assert ((reports.channel == 3) == proactive[reports.incident]).all()


def test_flag_share_holds_over_all() -> None:
    base = flag_intercept(Flag("x", 0.3, 1.5), 0.2)
    share = 0.8 / (1 + np.exp(-base)) + 0.2 / (1 + np.exp(-base - 1.5))
    assert share == pytest.approx(0.3, abs=1e-6)


def test_published_need_at_a_step_hardly_hangs_on_whose_share_it_takes(small_city: Path) -> None:
    """What the paper's programme says of it: ρ̂ of all weeks on C of four, or ρ̂ of the four too."""
    records = open_records(small_city)
    areas = areas_from_records(records)
    weekly = weekly_from_records(records, "heat", areas, date(2024, 1, 1), date(2024, 8, 1))
    reports, repeats = weekly.in_windows(4)
    step, area = np.nonzero(reports.T)
    assert areas.median_income is not None
    columns = [*(areas.covariates[name] for name in published.PROXY_SHARES), areas.median_income]
    design = published.proxy_design(columns, areas.households)[area]
    found = published.measure_propensity(reports[area, step], repeats[area, step], design, 4)
    incidents = reports[area, step] * published.clipped_factor(found.value)
    for quintiles in ((1, 2), (4, 5)):
        own = np.isin(areas.income_quintile[area], quintiles)
        need, heard = (np.bincount(step[own], one[own]) for one in (incidents, reports[area, step]))
        by_all_weeks = heard * need.sum() / heard.sum()
        assert (abs(need / by_all_weeks - 1) < 0.1).mean() >= 0.9
        assert need.sum() > 1.2 * heard.sum(), "there is a correction to speak of"
