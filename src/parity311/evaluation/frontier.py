"""A menu of preferences, what each of them leads to, and which of them nothing else beats.

Policies come from what the agency could see and are played in what really happens. Coverage prices
settle in the estimated process first, because they outlive an episode, and go on adapting. A point
is speed, cost and the coverage gap in the long run; beside it stand recall, visits and the price of
equity: correct escalations given up against policies without an equity term at equal visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity311.errors import InputError
from parity311.evaluation.compare import TODAY, rule_contenders
from parity311.evaluation.rollout import CHUNK, Contender, Episodes, evaluate
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA
from parity311.mdp.equity import EquityParams, coverage_gap, relative_need_weights
from parity311.mdp.harness import Harness
from parity311.resampling import ANY, mean_interval
from parity311.training.frontier import additive_epsilon, find_nondominated, hypervolume
from parity311.training.loop import Trained

SETTLING_GAINS = (2.0, 1.0, 0.5, 0.25, 0.25)
"""By how much prices move in an episode for a stratum that is not served at all, round by round.
At their own pace they would take years where visits are scarce: shortfalls are thousandths a step.
"""
EPISODES_SETTLING = CHUNK
EPISODES_SCORED = {True: 8 * CHUNK, False: 4 * CHUNK}
"""By whether steps are independent, so that episodes are cheap and say little each"""
GAP_LEVELS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
TARGET_GAP = 0.05
"""Gap at which the price of equity is read off: the audit's τ"""
NEAR_TODAY = 0.25
"""Policies whose visits differ by at most this share from today's rule stand for its capacity"""
SMALLEST_REFERENCE = 0.01
"""Share of the most that policies without equity find, below which a price is not defined."""


@dataclass(frozen=True)
class Outcomes:
    """What policies lead to in the long run; every array is (policies, seeds)."""

    speed: np.ndarray
    """published reward a step, more is better"""
    cost: np.ndarray
    """the same; minus the cost"""
    gap: np.ndarray
    """largest difference in true coverage between two income quintiles"""
    recall: np.ndarray
    """correct escalations over actionable incidents that anybody reported"""
    visits: np.ndarray
    """visits per complaint"""
    correct: np.ndarray
    """correct escalations a step"""

    @property
    def points(self) -> np.ndarray:
        """(seeds, policies, 3) speed, cost and minus the gap: more is better in each."""
        return np.stack([self.speed.T, self.cost.T, -self.gap.T], axis=-1)

    def take(self, places: Sequence[int] | np.ndarray) -> Outcomes:
        """Some of the policies."""
        chosen = np.asarray(places)
        return Outcomes(*(getattr(self, one.name)[chosen] for one in fields(self)))


@dataclass(frozen=True)
class Frontier:
    """A menu with what it leads to, and the rules of thumb played beside it."""

    menu: np.ndarray
    """(n, 4) preferences"""
    learned: Outcomes
    """(n, seeds)"""
    rule_names: tuple[str, ...]
    rules: Outcomes
    """(rules, seeds)"""

    @property
    def reference(self) -> np.ndarray:
        """(3,) the componentwise worst of the rules: what volumes are measured from."""
        return self.rules.points.mean(axis=0).min(axis=0)

    @property
    def ideal(self) -> np.ndarray:
        """(3,) the componentwise best of everybody's mean points."""
        both = [self.rules.points.mean(axis=0), self.learned.points.mean(axis=0)]
        return np.concatenate(both).max(axis=0)

    @property
    def today(self) -> int:
        """Place of today's rule among the rules."""
        return self.rule_names.index(TODAY)


def play_frontier(
    harness: Harness,
    estimated: Any,
    true: Any,
    menu: np.ndarray,
    trained: Trained,
    *,
    seed: int = 0,
    equity_options: Mapping[str, Any] | None = None,
    on_seed: Any = None,
) -> Frontier:
    """Play every agent and every rule; agents of one seed share episodes, other seeds have others.

    Parameters
    ----------
    menu
        (n, 4) preferences; `trained` has each of them with every seed, in `train`'s order.
    seed
        Of the test episodes.
    equity_options
        Settings of the equity term other than the domain's.
    on_seed
        Told (seeds played, seeds in all).
    """
    n_seeds = trained.n_agents // len(menu)
    if n_seeds * len(menu) != trained.n_agents:
        raise InputError(f"{trained.n_agents} agents do not make {len(menu)} preferences.")
    rules = rule_contenders(harness, estimated)
    played = []
    for number in range(n_seeds):
        learned = [
            Contender(
                f"point_{place}",
                trained.policy(place * n_seeds + number),
                is_priced=bool(weights[EQUITY] > 0),
            )
            for place, weights in enumerate(menu)
        ]
        key = jax.random.fold_in(jax.random.key(seed), number)
        played.append(_play(harness, estimated, true, rules + learned, key, equity_options or {}))
        if on_seed is not None:
            on_seed(number + 1, n_seeds)
    names = [each.name for each in fields(Outcomes)]
    whole = Outcomes(*(np.stack([getattr(one, name) for one in played], axis=1) for name in names))
    n_rules = len(rules)
    today = [one.name for one in rules].index(TODAY)
    whole = replace(whole, speed=level_by(whole.speed, today), cost=level_by(whole.cost, today))
    return Frontier(
        menu=np.asarray(menu),
        learned=whole.take(np.arange(n_rules, n_rules + len(menu))),
        rule_names=tuple(one.name for one in rules),
        rules=whole.take(np.arange(n_rules)),
    )


def level_by(values: np.ndarray, place: int) -> np.ndarray:
    """Take from every seed (policies, seeds) what its episodes did to the policy at this place.

    A hard winter slows everybody down; what is left between seeds is how policies differ from that
    one, which is what an interval is wanted of. Means over seeds stay as they are.
    """
    return values - values[place] + values[place].mean()


def _play(
    harness: Harness,
    estimated: Any,
    true: Any,
    contenders: list[Contender],
    key: jax.Array,
    options: Mapping[str, Any],
) -> Outcomes:
    """Settle prices in the estimated process, then score in the true one; arrays (policies,)."""
    key_settle, key_score = jax.random.split(key)
    is_cheap = harness.domain.play.cases is not None
    equity = harness.equity_params(estimated, **options)
    settled = settle_prices(harness, estimated, contenders, equity, key_settle)
    keys = jax.random.split(key_score, EPISODES_SCORED[is_cheap])
    return _outcomes(evaluate(harness, true, settled, keys, equity=equity, with_saved=False))


def settle_prices(
    harness: Harness,
    estimated: Any,
    contenders: Sequence[Contender],
    equity: EquityParams,
    key: jax.Array,
) -> list[Contender]:
    """Let coverage prices find where they rest in the estimated process, faster than they would.

    The rule of the prices is their own, cap and target gap included; only its step is larger at
    first, in proportion to how little a policy serves in a step.
    """
    settled = list(contenders)
    weights = np.asarray(relative_need_weights(equity.denominators))[:N_KNOWN_STRATA]
    steps = np.full(len(settled), float(equity.step_size))
    # The first round only says how much is served.
    for gain, key_round in zip(
        (*SETTLING_GAINS, 0.0), jax.random.split(key, 1 + len(SETTLING_GAINS)), strict=True
    ):
        moving = [
            replace(one, price_step=float(step)) for one, step in zip(settled, steps, strict=True)
        ]
        keys = jax.random.split(key_round, EPISODES_SETTLING)
        seen = evaluate(harness, estimated, moving, keys, equity=equity, with_saved=False)
        served = np.asarray(seen.tally.counted)[:, :, :N_KNOWN_STRATA].mean(axis=1) * weights
        # In an episode a stratum that is served not at all falls short by the mean of all.
        steps = np.maximum(gain / np.maximum(served.mean(axis=1), 1e-6), float(equity.step_size))
        prices = np.asarray(seen.mean_prices).mean(axis=1)
        settled = [
            replace(one, prices=prices[place]) if one.is_priced else one
            for place, one in enumerate(settled)
        ]
    return settled


def _outcomes(episodes: Episodes) -> Outcomes:
    """Outcomes (policies,) of scored episodes."""
    tally = episodes.tally
    total = lambda values: np.asarray(values, np.float64).sum(axis=1)  # noqa: E731
    n_steps = episodes.n_steps * np.shape(tally.hours)[1]
    correct, actionable = total(tally.correct), total(tally.actionable)
    coverage = np.divide(correct, actionable, out=np.zeros_like(correct), where=actionable > 0)
    reward = total(tally.published_reward) / n_steps
    return Outcomes(
        speed=reward[:, 0],
        cost=reward[:, 1],
        gap=np.asarray(coverage_gap(jnp.asarray(coverage[:, :N_KNOWN_STRATA])), np.float64),
        recall=correct.sum(axis=1) / np.maximum(total(tally.reported_actionable).sum(axis=1), 1e-9),
        visits=total(tally.visits).sum(axis=1) / np.maximum(total(tally.complaints).sum(1), 1e-9),
        correct=correct.sum(axis=1) / n_steps,
    )


def price_of_equity(frontier: Frontier) -> np.ndarray:
    """Share of correct escalations given up at equal visits, (policies, seeds).

    What is given up is measured from the concave hull of the policies without an equity term: a
    mixture of two of them makes any number of visits between theirs. NaN where these visits find
    next to nothing: a share of that is not defined.
    """
    learned = frontier.learned
    without = np.flatnonzero(frontier.menu[:, EQUITY] == 0)
    if len(without) == 0:
        return np.full(learned.gap.shape, np.nan)
    price = np.empty(learned.gap.shape)
    for seed in range(learned.gap.shape[1]):
        hull = _concave_hull(learned.visits[without, seed], learned.correct[without, seed])
        best = np.interp(learned.visits[:, seed], hull[:, 0], hull[:, 1])
        is_enough = best > SMALLEST_REFERENCE * hull[:, 1].max()
        price[:, seed] = 1.0 - np.divide(
            learned.correct[:, seed], best, out=np.full_like(best, np.nan), where=is_enough
        )
    return price


def _concave_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Upper hull of points and the origin, up to the highest; rows of x and y."""
    points = sorted({(0.0, 0.0), *zip(x.tolist(), y.tolist(), strict=True)})
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    highest = max(range(len(hull)), key=lambda place: hull[place][1])
    return np.asarray(hull[: highest + 1])


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0.0


def find_best(frontier: Frontier) -> np.ndarray:
    """Which preferences no other and no rule beats, by their mean points; (n,) bool."""
    learned = frontier.learned.points.mean(axis=0)
    rules = frontier.rules.points.mean(axis=0)
    return find_nondominated(np.concatenate([learned, rules]))[: len(learned)]


def find_knee(frontier: Frontier, is_best: np.ndarray) -> int:
    """Place of the unbeaten point nearest to the ideal, each objective in shares of its range."""
    points = frontier.learned.points.mean(axis=0)
    best = points[is_best]
    low, high = best.min(axis=0), best.max(axis=0)
    far = (high - points) / np.where(high > low, high - low, 1.0)
    distance = np.where(is_best, np.sqrt((far**2).sum(axis=1)), np.inf)
    return int(np.argmin(distance))


def measure_volume(frontier: Frontier, box: Frontier | None = None) -> np.ndarray:
    """Share of the box between reference and ideal that the menu dominates, (seeds,).

    `box` gives the box, where it is another frontier's.
    """
    low, size = _box(box or frontier)
    return np.array(
        [hypervolume((points - low) / size, np.zeros(3)) for points in frontier.learned.points]
    )


def measure_epsilon(frontier: Frontier) -> np.ndarray:
    """What must be added for the menu to cover every rule, in shares of the box, (seeds,).

    Below zero: it covers them with room to spare.
    """
    low, size = _box(frontier)
    learned, rules = frontier.learned.points, frontier.rules.points
    return np.array(
        [
            additive_epsilon((mine - low) / size, (theirs - low) / size)
            for mine, theirs in zip(learned, rules, strict=True)
        ]
    )


def _box(frontier: Frontier) -> tuple[np.ndarray, np.ndarray]:
    size = frontier.ideal - frontier.reference
    return frontier.reference, np.where(size > 0, size, 1.0)


def near_today(frontier: Frontier) -> np.ndarray:
    """Which preferences make about as many visits as today's rule, (n,) bool; all if none does."""
    near = is_near_today(frontier)
    return near if near.any() else np.ones(len(near), bool)


def is_near_today(frontier: Frontier) -> np.ndarray:
    """Which preferences make about as many visits as today's rule, (n,) bool; perhaps none."""
    today = frontier.rules.visits[frontier.today].mean()
    visits = frontier.learned.visits.mean(axis=1)
    return np.abs(visits / max(today, 1e-9) - 1.0) <= NEAR_TODAY


def cheapest_at(
    frontier: Frontier, price: np.ndarray, gap: float, seeds: Sequence[int] | None = None
) -> int | None:
    """Preference with the least price whose gap is at most this, near today's visits.

    Judged by the mean over these seeds, or over all.
    """
    over = list(range(price.shape[1])) if seeds is None else list(seeds)
    means = price[:, over].mean(axis=1)
    reaches = near_today(frontier) & (frontier.learned.gap[:, over].mean(axis=1) <= gap)
    reaches &= np.isfinite(means)
    if not reaches.any():
        return None
    return int(np.argmin(np.where(reaches, means, np.inf)))


def read_at(frontier: Frontier, price: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Price and gap (seeds,) of the cheapest preference that reaches a gap; NaN where none does.

    For each seed the preference is chosen on the others, whose episodes are others too: the best of
    many on the very episodes it was chosen on looks cheaper than it is.
    """
    n_seeds = price.shape[1]
    found = np.full((2, n_seeds), np.nan)
    for seed in range(n_seeds):
        others = [other for other in range(n_seeds) if other != seed] or [seed]
        place = cheapest_at(frontier, price, gap, others)
        if place is not None:
            found[:, seed] = price[place, seed], frontier.learned.gap[place, seed]
    return found[0], found[1]


def summarise_values(
    values: np.ndarray, limits: tuple[float, float] = ANY
) -> dict[str, float | None]:
    """Mean over seeds with its 95 % interval; nothing where no seed has a value."""
    known = values[np.isfinite(values)]
    bounds = mean_interval(known, limits) or [None, None]
    value = float(known.mean()) if len(known) else None
    return {"value": value, "lower": bounds[0], "upper": bounds[1]}
