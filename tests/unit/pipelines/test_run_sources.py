"""A run takes its domains through a city of every scenario, or through one folder of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity311.pipelines import run as whole_way
from parity311.pipelines.run import RunConfig, run_pipeline
from parity311.records.store import Records, open_records


class Taken(Exception):
    """Everything was taken as far as it is asked here."""


@pytest.mark.parametrize("n_domains", [1, 2])
def test_every_domain_meets_every_scenario(
    n_domains: int, tiny_records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, taken = [], []

    def ensure(config: RunConfig, participation: str, capacity: str, *_: Any) -> Records:
        asked.append((participation, capacity))
        return open_records(tiny_records)

    def take(domain: Any, records: Records, *_: Any) -> None:
        taken.append((domain.slug, asked[-1]))
        if len(taken) == n_domains * len(whole_way.SCENARIOS):
            raise Taken

    monkeypatch.setattr(whole_way, "ensure_city", ensure)
    monkeypatch.setattr(whole_way, "add_city", lambda run, records: None)
    monkeypatch.setattr(whole_way, "take_domain", take)
    domains = ("boiler", "heat")[:n_domains]
    with pytest.raises(Taken):
        run_pipeline(
            RunConfig(domains=domains), runs=tmp_path / "runs", cities=tmp_path,
            progress=lambda *_: None,
        )  # fmt: skip
    assert asked == [("strong", "scarce"), ("measured", "calibrated")]
    assert taken == [(slug, scenario) for scenario in asked for slug in domains]
