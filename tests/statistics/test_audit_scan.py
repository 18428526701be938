"""The scan over intersections: rare false alarms, and it finds a subgroup nobody listed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.unit.audit.audit_city import make_inputs

from parity311.audit.patterns import Scan, scan_subgroups
from parity311.audit.strata import make_grouping

pytestmark = pytest.mark.slow

N_TRIALS = 120


def scan(seed: int, **options) -> Scan:
    inputs = make_inputs(seed, **options)
    groupings = [
        make_grouping(name, inputs.places, inputs.cells.language)
        for name in ("income5", "race_majority", "language", "channel")
    ]
    return scan_subgroups(
        inputs.cells,
        groupings,
        n_tracts=inputs.places.n_tracts,
        n_draws=300,
        rng=np.random.default_rng(seed),
    )


def test_false_alarms_and_the_twin_without_correction() -> None:
    seen = [scan(seed).subgroups[0] for seed in range(N_TRIALS)]
    assert np.mean([group.p_value < 0.05 for group in seen]) <= 0.10
    uncorrected = [2 * stats.norm.sf(abs(group.z)) for group in seen]
    assert np.mean(np.array(uncorrected) < 0.05) > 0.5


def test_an_intersection_is_found() -> None:
    seen = [scan(seed, subgroup_factor=0.6).subgroups[0] for seed in range(30)]
    named = [g for g in seen if g.name == "Q1 (lowest income) · es" and g.p_value < 0.05]
    assert len(named) >= 25
    assert all(group.difference < 0 for group in named)


def test_small_intersections_are_counted_not_tested() -> None:
    seen = scan(0, n_tracts=30)
    assert seen.n_too_small > 0
    assert all(group.n_cases >= 50 and group.n_tracts >= 10 for group in seen.subgroups)
