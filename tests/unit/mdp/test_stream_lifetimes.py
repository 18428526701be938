"""How long incidents last, from what visits find and from further reports."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from parity311.mdp.stream_book import Book
from parity311.mdp.stream_lifetimes import blend_lifetime, fit_decay


def visits(n: int, lifetime_days: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Kinds, waits that differ between kinds, and what visits find."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 6, n)
    wait = rng.exponential(10.0 + 4.0 * kind)
    chance = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.7])[kind]
    found = rng.random(n) < chance * np.exp(-wait / lifetime_days)
    return kind, found.astype(np.float64), wait


def book_of(kind: np.ndarray, found: np.ndarray, wait: np.ndarray) -> Book:
    ones = np.ones(len(kind))
    names = np.array([f"c{i}" for i in range(len(kind))])
    return Book(
        complaint_id=names, stratum=kind * 0, kind=kind, season=kind * 0, units=ones,
        n_extra=ones, open_days=ones, looked_days=wait, is_found=found, n_visits=ones,
        first_wait=wait, dates=(date(2023, 1, 1), date(2024, 1, 1)),
    )  # fmt: skip


@pytest.mark.parametrize("lifetime_days", [15.0, 60.0])
def test_the_decay_of_what_is_found_gives_the_lifetime(lifetime_days: float) -> None:
    found = fit_decay(*visits(20_000, lifetime_days))
    error = np.log(found.lifetime_days / lifetime_days)
    assert abs(error) < max(3.0 * found.log_sd, 0.15)


def test_waits_that_follow_the_kind_do_not_mislead_where_kinds_are_known() -> None:
    kind, found, wait = visits(20_000, 40.0)
    known = fit_decay(kind, found, wait).lifetime_days
    pooled = fit_decay(kind * 0, found, wait).lifetime_days
    assert abs(np.log(known / 40.0)) < abs(np.log(pooled / 40.0))


def test_few_visits_leave_the_weight_to_the_calibration() -> None:
    few, many = book_of(*visits(60, 40.0)), book_of(*visits(20_000, 40.0))
    pulls = [abs(np.log(blend_lifetime(book, 400.0) / 400.0)) for book in (few, many)]
    assert pulls[0] < pulls[1]
    assert blend_lifetime(many, 40.0) == pytest.approx(40.0, rel=0.2)
