"""A cycle in every domain, on a small city: it ends with a state and the reasons for it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from parity311.city.build import build_city
from parity311.domains import all_domains
from parity311.evaluation import frontier
from parity311.lifecycle import cycle, trial
from parity311.lifecycle.cycle import run_cycle
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.registry import Registry
from parity311.records.store import Records, open_records

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def long_records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A year and a half of every domain: rare ones need it to be estimated at all."""
    return open_records(
        build_city(
            [domain.process for domain in all_domains().values()], "small", 5, "strong", "scarce",
            workers=1, date_from=date(2023, 1, 1), date_to=date(2024, 7, 1),
            out=tmp_path_factory.mktemp("cycles") / "city",
        )
    )  # fmt: skip


@pytest.mark.parametrize("slug", list(all_domains()))
def test_a_cycle_ends_with_a_state_and_reasons(
    slug: str, long_records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "EPISODES", 8)
    monkeypatch.setattr(trial, "INDEPENDENT_EPISODES", 16)
    monkeypatch.setattr(frontier, "SETTLING_GAINS", (1.0,))

    found = run_cycle(
        CycleConfig(slug, "dual_threshold"), long_records.folder,
        database=str(tmp_path / "policies.db"), out=tmp_path / "cycles", by="A. Okafor",
    )  # fmt: skip
    assert found["outcome"] in (cycle.PROPOSED, cycle.HELD, cycle.REFUSED)
    assert found["reasons"]
    assert (found["version"] is None) == (found["outcome"] == cycle.REFUSED)
    assert (found["outcome"] == cycle.REFUSED) == (found["verdict"] in ("FAIL", cycle.NOT_AUDITED))
    registry = Registry(tmp_path / "policies.db")
    assert registry.verify().problems == ()
