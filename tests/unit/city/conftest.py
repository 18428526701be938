"""A tiny city for the generator's own tests: 100 tracts, one year, three domains."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from parity311.city.build import build_city, draw_setting
from parity311.city.incumbent import WaitingCases
from parity311.city.presets import Preset
from parity311.city.setting import CitySetting
from parity311.domains.boiler import PROCESS as BOILER
from parity311.domains.crane import PROCESS as CRANE
from parity311.domains.heat import PROCESS as HEAT

TINY = Preset("tiny", 100, date(2024, 1, 1), date(2025, 1, 1), 2, 0.0)


@pytest.fixture(scope="session")
def tiny_setting() -> Callable[..., CitySetting]:
    """Give the tiny city's setting in a scenario."""

    def draw(participation: str = "measured", capacity: str = "calibrated") -> CitySetting:
        return draw_setting(TINY, 5, participation, capacity, TINY.date_from, TINY.date_to)

    return draw


@pytest.fixture(scope="session")
def setting(tiny_setting: Callable[..., CitySetting]) -> CitySetting:
    return tiny_setting()


@pytest.fixture(scope="session")
def small_city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Preset small, seven months, domains heat, crane and boiler."""
    out = tmp_path_factory.mktemp("city") / "small"
    return build_city(
        (BOILER, CRANE, HEAT), "small", 5, date_from=date(2024, 1, 1), date_to=date(2024, 8, 1),
        out=out,
    )  # fmt: skip


@pytest.fixture(scope="session")
def waiting_by_hand() -> Callable[..., WaitingCases]:
    """Make waiting cases of these codes and, if given, ages."""

    def make(severity: list[int], age_days: list[float] | None = None) -> WaitingCases:
        zeros = np.zeros(len(severity), dtype=np.int32)
        return WaitingCases(
            day=0,
            severity=np.array(severity, dtype=np.int8),
            age_days=np.array(age_days or zeros, dtype=np.float64),
            category=zeros.astype(np.int8),
            tract=zeros,
            stratum=zeros.astype(np.int8),
            units=zeros,
            n_attempts=zeros.astype(np.int16),
            n_prior_cases=zeros,
            n_prior_violations=zeros,
            flags=np.zeros((len(severity), 0), dtype=np.bool_),
        )

    return make
