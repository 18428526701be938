from dataclasses import replace

import pytest

from parity311.city.measures import BUILDINGS_DEPARTMENT
from parity311.city.process import ComplaintProcess, describe_parameters
from parity311.city.profiles import DOB_COMPLAINTS
from parity311.domains import all_domains
from parity311.errors import InputError

PROCESSES = {slug: domain.process for slug, domain in all_domains().items()}


@pytest.mark.parametrize("slug", sorted(PROCESSES))
def test_every_parameter_has_unit_and_source(slug: str) -> None:
    parameters = describe_parameters(PROCESSES[slug])
    assert len(parameters) >= 20
    for path, entry in parameters.items():
        assert entry["unit"], path
        assert entry["source"], path


def test_a_parameter_without_source_is_refused() -> None:
    with pytest.raises(InputError, match="gives no source"):
        describe_parameters(replace(PROCESSES["heat"], sources={}))


def test_the_department_s_domains_add_up_to_its_complaints() -> None:
    for year in range(2017, 2027):
        total = 0.0
        for slug in BUILDINGS_DEPARTMENT:
            process = PROCESSES[slug]
            assert isinstance(process, ComplaintProcess)
            total += process.volume.complaints[year]
        assert total == pytest.approx(DOB_COMPLAINTS[year], rel=0.005)


@pytest.mark.parametrize("slug", sorted(PROCESSES))
def test_declared_shares_are_shares(slug: str) -> None:
    process = PROCESSES[slug]
    assert process.slug == slug
    if not isinstance(process, ComplaintProcess):
        return
    assert sum(process.volume.month_shares) == pytest.approx(1.0, abs=0.03)
    assert sum(process.hazard.code_shares) == pytest.approx(1.0)
    assert sum(process.service.weekday_slots) == pytest.approx(1.0, abs=1e-6)
    codes = [entry.code for entry in process.categories]
    assert len(set(codes)) == len(codes)
    assert sum(entry.share for entry in process.categories) == pytest.approx(1.0, abs=0.01)
    for entry in process.categories:
        assert 0 < entry.actionable < 1
        assert 0 <= entry.no_access < 1
        assert entry.referral + entry.other < 0.5
