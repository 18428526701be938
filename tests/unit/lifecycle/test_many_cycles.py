"""Cycles of many cities: each by itself, one report over all."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from parity311.city.build import build_city
from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.lifecycle import trial
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.many_cycles import read_cities, run_cycles
from parity311.lifecycle.registry import Registry


@pytest.mark.slow
def test_a_city_that_fails_costs_no_other_and_shares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "EPISODES", 16)
    build_city(
        [get_domain("snad").process], "small", 5, "strong", "scarce", workers=1,
        date_from=date(2024, 1, 1), date_to=date(2025, 2, 1), out=tmp_path / "albany",
    )  # fmt: skip
    listed = tmp_path / "cities.toml"
    listed.write_text(
        f'[cities.albany]\nrecords = "{tmp_path / "albany"}"\n'
        f'[cities.boise]\nrecords = "{tmp_path / "nowhere"}"\n'
    )
    found = run_cycles(
        CycleConfig("snad", "dual_threshold"), ["snad"], read_cities(listed),
        out=tmp_path / "cycles", registry=tmp_path / "registry", by="A. Okafor", reason="",
        where=Workplace(n_workers=1), progress=lambda *_: None,
    )  # fmt: skip
    first, second = found["cycles"]
    assert first["outcome"] in ("proposed", "held")
    assert second["outcome"] == "failed"
    assert "nowhere" in second["reasons"][0]
    report = Path(found["report"]).read_text()
    assert "| albany | snad |" in report
    assert "| boise | snad | failed |" in report
    assert len(Registry(tmp_path / "registry" / "albany.db").policies()) == 1
    assert not (tmp_path / "registry" / "boise.db").exists()
    assert (tmp_path / "cycles" / "albany" / "snad").is_dir()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no city"),
        ("cities = 3", "names no city"),
        ('[cities."../x"]\nrecords = "a"', "no name of a city"),
        ("[cities.a]\ndomains = ['heat']", "records"),
        ("[cities.a]\nrecords = 'x'\n[cities.b]\nrecords = 'x'", "the same records"),
        ("[cities.a", "not TOML"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "cities.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_cities(tmp_path / "cities.toml")
