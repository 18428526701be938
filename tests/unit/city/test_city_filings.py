from datetime import date

import numpy as np
import pytest

from parity311.city.filing_office import work_filings
from parity311.city.filings import DefectChain, draw_filings, fit_chain
from parity311.city.incumbent import severity_then_first_in
from parity311.city.setting import CitySetting
from parity311.domains.boiler import PROCESS as BOILER

PRONENESS = np.random.default_rng(3).normal(0.0, 0.5, 40_000)


def simulate(chain: DefectChain, n_years: int = 12) -> tuple[float, dict[int, float]]:
    """Share of defects, and share by years since the last one."""
    generator = np.random.default_rng(4)
    state = chain.draw_states(generator, PRONENESS)
    defects, states = [], []
    for _ in range(n_years):
        found = generator.random(len(state)) < chain.chance(PRONENESS, state)
        defects.append(found)
        states.append(state)
        state = chain.advance(state, found)
    defect, before = np.concatenate(defects), np.concatenate(states)
    return float(defect.mean()), {k: float(defect[before == k].mean()) for k in (1, 2, 5)}


def matches_declaration(chain: DefectChain) -> bool:
    share, after = simulate(chain)
    table = BOILER.defect_after_years
    close = all(abs(after[years] - table[years]) < 0.02 for years in after)
    return close and abs(share - BOILER.defect_share) < 0.006


def test_chain_has_the_declared_chances_and_starts_at_rest() -> None:
    chain = fit_chain(BOILER, PRONENESS)
    assert matches_declaration(chain)
    naive = DefectChain(chain.edges, chain.shift + 0.4, chain.stationary)
    assert not matches_declaration(naive), "the check must see chances that are too high"


@pytest.fixture(scope="module")
def filings(setting: CitySetting):
    return draw_filings(BOILER, setting, date(2022, 1, 1))


def test_filings_are_as_many_as_declared_and_fewer_where_neglected(setting, filings) -> None:
    n_years = 3
    expected = BOILER.filings[2023] * setting.scale * n_years
    registered = setting.buildings.boilers.sum() * n_years
    assert filings.is_filed.sum() == pytest.approx(min(expected, 0.985 * registered), rel=0.02)
    neglect = setting.neglect[filings.building]
    assert filings.is_filed[neglect > 1].mean() < filings.is_filed[neglect < -1].mean()
    assert filings.is_defective[neglect > 1].mean() > filings.is_defective[neglect < -1].mean()


def test_late_fees_come_with_defects(filings) -> None:
    assert filings.late_180[filings.is_defective].mean() > 3 * filings.late_180.mean()


def test_prior_defects_are_visited_first_and_only_filings(setting, filings) -> None:
    visits = work_filings(BOILER, setting, date(2022, 1, 1), severity_then_first_in).visits
    visited = np.isfinite(visits.visit_time)
    assert not visited[~filings.is_filed].any()
    assert (visits.visit_time[visited] > filings.time[visited]).all()
    assert visited[visits.has_prior].mean() > visited[~visits.has_prior].mean() + 0.2
    share = visited.sum() / filings.is_filed.sum()
    assert share == pytest.approx(BOILER.visits_per_filing, abs=0.04)
    found = visits.outcome == 0
    assert filings.is_defective[found].all()
