"""How incidents end, from what visits find after a wait and from which cases follow."""

from __future__ import annotations

import numpy as np
import pytest

from parity311.estimation.incident_ends import (
    GRID_DAYS,
    GRID_WRITTEN,
    POOLED,
    USUAL_DAYS,
    EndsBelief,
    combine,
    mean_lifetime,
)
from parity311.estimation.visit_sequences import (
    EDGES_DAYS,
    FADING_LIVES,
    FOUND,
    NOTHING,
    SHUT,
    SHUT_THEN_FOUND,
    FurtherCases,
    Sequences,
    _indicators,
    _penalised,
    count_followed,
    follow_likelihood,
    profile_likelihood,
)

pytestmark = pytest.mark.slow

SURE = {0.75: (3_000_000.0, 1_000_000.0)}
"""The broken twin's belief: three quarters, whatever the records say."""


def play(
    n: int,
    lifetime_days: float | tuple[float, float],
    seed: int = 0,
    opens_when_over: float = 0.4,
    written_share: float = 1.0,
) -> Sequences:
    """Visits to made-up cases: graver codes are seen sooner and are actionable more often.

    Of two categories, each with a lifetime. A door opens with 0.8 while the incident is there; who
    did not open is seen again, mostly.
    """
    rng = np.random.default_rng(seed)
    code, category = rng.integers(0, 4, n), rng.integers(0, 2, n)
    ends = rng.exponential(np.broadcast_to(lifetime_days, 2)[category], n)
    first = rng.exponential(4.0 + 4.0 * code)
    second = first + rng.exponential(15.0, n)
    share = np.array([0.7, 0.55, 0.4, 0.25])[code]
    is_actionable = rng.random(n) < share

    def visit(days: np.ndarray) -> np.ndarray:
        is_there = days < ends
        gets_in = rng.random(n) < np.where(is_there, 0.8, opens_when_over)
        is_written = is_there & is_actionable & (rng.random(n) < written_share)
        return np.where(gets_in, np.where(is_written, FOUND, NOTHING), 2)

    result, again = visit(first), visit(second)
    is_seen_again = (result == 2) & (rng.random(n) < 0.9)
    result = np.where(result == 2, np.where(is_seen_again, SHUT_THEN_FOUND + again, SHUT), result)
    second = np.where(is_seen_again, second, first)
    return Sequences(code, np.array(["a", "b"])[category], first, second, result)


def follow(
    n: int,
    lifetime_days: float,
    written_share: float,
    seed: int = 0,
    report_days: float = 20.0,
    own_sd: float = 0.0,
) -> FurtherCases:
    """Cases of one category that were looked into, and what followed at their buildings.

    New incidents begin at a steady rate; one that goes on is reported again by half of the
    buildings, after `report_days` in the mean. Chances of incidents differ by `own_sd` in log odds.
    """
    rng = np.random.default_rng(seed)

    def draw_incidents() -> tuple[np.ndarray, np.ndarray]:
        log_odds = own_sd * rng.standard_normal(n)
        return rng.exponential(lifetime_days, n), rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))

    def write(is_there: np.ndarray, is_actionable: np.ndarray) -> np.ndarray:
        return is_there & is_actionable & (rng.random(n) < written_share)

    ends, is_actionable = draw_incidents()
    looked, closed = rng.exponential(3.0, n), rng.exponential(0.5, n)
    is_found = write(looked < ends, is_actionable)
    # From the closing on.
    left = np.where(is_found, -np.inf, ends - looked - closed)
    again = np.where(rng.random(n) < 0.5, rng.exponential(report_days, n), np.inf)
    again = np.where(again < left, again, np.inf)
    fresh = rng.exponential(400.0, n)
    next_days, is_same = np.minimum(again, fresh), again < fresh
    next_looked = rng.exponential(3.0, n)
    new_ends, is_new_actionable = draw_incidents()
    is_next_found = write(
        np.where(is_same, next_days + next_looked < left, next_looked < new_ends),
        np.where(is_same, is_actionable, is_new_actionable),
    )
    is_followed = next_days < EDGES_DAYS[-1]
    code = np.zeros(n, np.int64)
    return FurtherCases(
        np.full(n, "a"),
        code,
        is_found,
        looked,
        closed,
        np.minimum(next_days, EDGES_DAYS[-1]),
        is_followed,
        code,
        np.where(is_followed, next_looked, np.nan),
        is_next_found & is_followed,
    )


NOBODY = follow(400, 60.0, 0.8).take(np.zeros(400, bool))
"""No case that could be followed."""


def believe(seen: Sequences) -> EndsBelief:
    return combine(seen, NOBODY)


def alike(n: int, lifetime_days: float, seed: int = 0, **others: float) -> Sequences:
    """The same in one category."""
    seen = play(n, lifetime_days, seed, **others)
    return seen._replace(category=np.full(n, "a"))


@pytest.mark.parametrize("lifetime_days", [15.0, 60.0, 150.0])
def test_visits_give_the_lifetime(lifetime_days: float) -> None:
    found = believe(alike(4_000, lifetime_days))
    assert abs(np.log(found.mean().mean_days / lifetime_days)) < 2.5 * found.log_sd
    assert found.log_sd < 0.3


def test_the_spread_is_that_of_other_samples() -> None:
    """Over samples, errors are as large as they say: about one in twenty lies beyond two."""
    found = [believe(alike(1_000, 60.0, seed)) for seed in range(8)]
    errors = [(np.log(one.lifetime_days[:, 0]).mean() - np.log(60.0)) / one.log_sd for one in found]
    assert 0.4 < np.sqrt(np.mean(np.square(errors))) < 1.6


def test_categories_have_lifetimes_of_their_own() -> None:
    """One decay for both would follow the shorter one: the mean of rates, not of days."""
    seen = play(8_000, (8.0, 100.0))
    found = believe(seen)
    assert found.categories == ("a", "b")
    for days, true in zip(found.mean().days, (8.0, 100.0), strict=True):
        assert abs(np.log(days / true)) < 0.4
    together = believe(seen._replace(category=np.full(8_000, "a")))
    assert together.mean().mean_days < 0.75 * found.mean().mean_days


def test_small_categories_are_taken_together() -> None:
    seen = play(400, 40.0)
    seen = seen._replace(category=np.where(np.arange(400) < 350, "a", seen.category))
    few = seen._replace(category=np.array([f"c{i % 10}" for i in range(400)]))
    assert believe(few).categories == (POOLED,)
    assert believe(seen).categories == (POOLED, "a")
    ends = believe(seen).mean()
    np.testing.assert_array_equal(ends.days_of(np.array(["a", "b"])), ends.days[[1, 0]])


def test_dropping_doors_that_stayed_shut_would_lengthen_it() -> None:
    """The broken twin: where nobody is left to open once it is over, those looked into last."""
    seen = alike(4_000, 30.0, opens_when_over=0.2)
    whole, looked = believe(seen), believe(seen.take(seen.result <= NOTHING))
    assert abs(np.log(whole.mean().mean_days / 30.0)) < 3.0 * whole.log_sd
    assert np.log(looked.mean().mean_days / 30.0) > 3.0 * whole.log_sd


def test_waits_that_are_not_those_of_the_visits_tell_nothing() -> None:
    """The broken twin: shuffled, the same waits show no decay, and it seems to last for ever."""
    seen = alike(4_000, 15.0)
    order = np.random.default_rng(1).permutation(len(seen.code))
    mixed = seen._replace(first_days=seen.first_days[order], second_days=seen.second_days[order])
    assert believe(mixed).mean().mean_days > 10.0 * 15.0


def test_codes_that_wait_longer_and_matter_less_do_not_mislead() -> None:
    seen = alike(4_000, 60.0)
    blind = seen._replace(code=seen.code * 0)
    errors = [abs(np.log(believe(one).mean().mean_days / 60.0)) for one in (seen, blind)]
    assert errors[0] < 0.3 < errors[1]


def test_a_belief_that_is_wide_reckons_with_long_lives() -> None:
    """With next to no visits the mean of the days lies above their middle."""
    found = believe(alike(5, 40.0))
    assert found.mean().mean_days > 1.3 * np.median(found.lifetime_days)
    assert found.log_sd > 0.8


def test_slopes_are_those_of_the_likelihood() -> None:
    seen, rng = play(200, 30.0), np.random.default_rng(2)
    doors = _indicators(seen.category)
    design = np.column_stack([np.ones(200), _indicators(seen.code), doors])
    lasting = (np.exp(-seen.first_days / 30.0), np.exp(-seen.second_days / 30.0))
    given = (seen.result, lasting, design, doors)
    beta = 0.3 * rng.standard_normal(design.shape[1] + 3 + doors.shape[1])
    slope = _penalised(beta, *given)[1]
    for place, step in enumerate(1e-5 * np.eye(len(beta))):
        ends = [_penalised(beta + sign * step, *given)[0] for sign in (1.0, -1.0)]
        assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-4)


def test_the_likelihood_peaks_between_the_ends_of_the_grid() -> None:
    found = profile_likelihood(play(4_000, 60.0), GRID_DAYS)
    assert 0 < int(np.argmax(found)) < len(GRID_DAYS) - 1


def believe_written(written_share: float, belief: tuple[float, float] | None = None) -> EndsBelief:
    """From 4,000 visits and 8,000 cases, in which chances differ between incidents."""
    seen = alike(4_000, 60.0, written_share=written_share)
    further = follow(8_000, 60.0, written_share, own_sd=1.0)
    return combine(seen, further, *([belief] if belief else []))


@pytest.mark.parametrize("written_share", [0.55, 0.9])
def test_what_inspectors_let_pass_is_told_by_what_is_found_later(written_share: float) -> None:
    found = believe_written(written_share)
    assert found.mean().written_share == pytest.approx(written_share, abs=0.08)
    assert found.written_sd < 0.08


@pytest.mark.parametrize("written_share", [0.55, 0.9])
def test_a_share_that_is_taken_for_granted_does_not_follow(written_share: float) -> None:
    """The broken twin: three quarters assumed."""
    found = believe_written(written_share, SURE[0.75])
    assert abs(found.mean().written_share - written_share) > 0.12


def test_without_further_cases_the_share_is_what_was_believed() -> None:
    found = believe(alike(1_000, 60.0))
    assert found.mean().written_share == pytest.approx(0.77, abs=0.03)
    assert found.written_sd > 0.12


def test_reports_that_stop_early_do_not_shorten_lifetimes() -> None:
    """Who reports again does so soon: the excess says how long incidents last at least."""
    soon = follow(6_000, 60.0, 0.8, report_days=5.0)
    found = follow_likelihood(soon, GRID_DAYS, GRID_WRITTEN).max(axis=1)
    lasts, over = (int(np.argmin(np.abs(GRID_DAYS - days))) for days in (60.0, 3.0))
    assert found[lasts] > found[over] + 5.0
    assert found[lasts] > found.max() - 4.0


def test_taken_at_its_word_the_excess_would_shorten_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: an excess that fades as incidents end."""
    monkeypatch.setattr("parity311.estimation.visit_sequences.FADING_LIVES", FADING_LIVES[:1])
    soon = follow(6_000, 60.0, 0.8, report_days=5.0)
    found = follow_likelihood(soon, GRID_DAYS, GRID_WRITTEN).max(axis=1)
    lasts = int(np.argmin(np.abs(GRID_DAYS - 60.0)))
    assert found[lasts] < found.max() - 8.0


def test_cases_that_come_back_are_counted() -> None:
    """Half report again, after 20 days of 60 that are left: three eighths of what is there."""
    went_on = count_followed(follow(20_000, 60.0, 0.8), 60.0)
    assert went_on.n_followed / went_on.n_there == pytest.approx(0.375, rel=0.2)
    # Where every visit that finds something ends it, and the rest is over, none come back.
    over = count_followed(follow(20_000, 0.5, 1.0), 0.5)
    assert over.n_followed < 0.02 * 20_000


def test_draws_are_joint_and_repeat() -> None:
    found = believe(alike(1_000, 60.0))
    first, again, other = found.draw(1), found.draw(1), found.draw(2)
    assert first.mean_days == again.mean_days != other.mean_days
    drawn = [found.draw(seed) for seed in range(200)]
    assert np.std([np.log(one.mean_days) for one in drawn]) == pytest.approx(found.log_sd, rel=0.3)
    spread = np.std([one.written_share for one in drawn])
    assert spread == pytest.approx(found.written_sd, rel=0.3)


def test_without_a_visit_the_wide_belief_beforehand_is_all_there_is() -> None:
    nobody = np.zeros(4, bool)
    seen = play(4, 10.0).take(nobody)
    found = combine(seen, None)  # pyright: ignore[reportArgumentType]
    days = found.lifetime_days[:, 0]
    low, high = np.percentile(days, [5, 95])
    assert low < USUAL_DAYS / 4
    assert high > 4 * USUAL_DAYS
    assert np.median(days) == pytest.approx(USUAL_DAYS, rel=0.3)
    assert found.mean().mean_days > 0


def test_the_lifetime_of_the_reports_comes_before_any_belief() -> None:
    told = mean_lifetime({"mean_lifetime_days": 3.0}, "heat", None, None)  # pyright: ignore
    assert told == 3.0
