"""A cycle in every domain, on a small city: it ends with a state and the reasons for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity311.domains import all_domains
from parity311.evaluation import frontier
from parity311.lifecycle import cycle, trial
from parity311.lifecycle.cycle import run_cycle
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.registry import Registry
from parity311.records.store import Records

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("slug", list(all_domains()))
def test_a_cycle_ends_with_a_state_and_reasons(
    slug: str, served_records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "EPISODES", 8)
    monkeypatch.setattr(trial, "INDEPENDENT_EPISODES", 16)
    monkeypatch.setattr(frontier, "SETTLING_GAINS", (1.0,))
    found = run_cycle(
        CycleConfig(slug, "dual_threshold"), served_records.folder,
        database=str(tmp_path / "policies.db"), out=tmp_path / "cycles", by="A. Okafor",
    )  # fmt: skip
    assert found["outcome"] in (cycle.PROPOSED, cycle.HELD, cycle.REFUSED)
    assert found["reasons"]
    assert (found["version"] is None) == (found["outcome"] == cycle.REFUSED)
    assert (found["outcome"] == cycle.REFUSED) == (found["verdict"] == "FAIL")
    registry = Registry(tmp_path / "policies.db")
    assert registry.verify().problems == ()
