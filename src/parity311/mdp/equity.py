"""The equity term: coverage counters, prices and the feature a policy sees.

Coverage of a stratum is correct escalations over actionable incidents that began, reported or
not, so an incident nobody served always counts against its stratum. In the mode `dual` each
stratum has a price that rises while it is behind; a correct escalation earns the price of its
stratum. The price is an integral, so it reaches parity for any weight, and it outlives an episode.

The other modes pay for a disparity of coverage (`FORMS`): `potential` for its change over the
rolling window, `windowed` for its level there, `per_step` for its level in the single step, as
published: n of one step over N̂_t of the four weeks that end with it. Per step, doing nothing is
equitable and every escalation is punished; it is kept to be shown. All are scaled to correct
escalations.

What a served policy needs, prices, need and features, is computed in NumPy where it gets NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, namespace_of
from parity311.errors import unknown_name
from parity311.mdp.contract import COVERAGE_FEATURE, N_KNOWN_STRATA, N_STRATA, NOBODY, STRATUM_NAMES
from parity311.records.strata import INCOME, check_strata

PRICE_CAP = 1.5
"""Largest price, in correct escalations; the frontier over the weight comes from this clip."""

FEATURE_SCALE = 2.0
"""The policy sees twice its stratum's price: about the range of the other features."""

WINDOW_DAYS = 28.0
"""The paper's rolling window; in all modes but `per_step` the time constant of forgetting."""

DENOMINATORS = {
    "actionable": "estimated incidents that a visit would find actionable",
    "all": "all estimated incidents, as the paper divides",
}
"""What correct escalations are divided by, in words."""


@dataclass(frozen=True)
class EquityTerm:
    """Which equity term is paid, by name; the paper's is `PUBLISHED_TERM`.

    Examples
    --------
    >>> parity311.EquityTerm().equity_mode
    'dual'
    """

    equity_mode: str = "dual"
    """dual, potential, windowed, or per_step (as published)"""
    equity_form: str = "max_gap"
    """Disparity that the modes other than dual pay for: two_strata, max_gap or variance"""
    denominator: str = "actionable"
    """What correct escalations are divided by: actionable incidents, or all (as published)"""
    strata: str = INCOME
    """Groups that are compared: income5, or race5, which is recorded in the reward's statement"""

    def __post_init__(self) -> None:
        get_mode(self.equity_mode, self.equity_form)
        if self.denominator not in DENOMINATORS:
            raise unknown_name("denominator", self.denominator, DENOMINATORS)
        check_strata(self.strata)


class EquityParams(NamedTuple):
    """How the equity term is computed; every entry may carry a batch axis."""

    denominators: jax.Array
    """(6,) estimated actionable incidents per step: N̂ times the share actionable"""
    step_size: jax.Array
    """() η: price units per unit of shortfall and step"""
    price_cap: jax.Array
    """() largest absolute price"""
    target_gap: jax.Array
    """() δ: prices move only for strata further than δ/2 from the mean coverage; 0 = always"""
    is_visible: jax.Array
    """() 1 where the policy sees its coverage feature, that is where α₃ > 0"""
    window_steps: jax.Array
    """() time constant of the rolling counters"""
    discount: jax.Array
    """() γ of the agent that is paid: sets the scale of `potential` and `windowed`"""
    usual_reports: jax.Array
    """(6,) complaints per step with which the denominators were estimated; one where not given"""
    news_weight: jax.Array
    """() weight of one step's complaints beside all that was known before; 0 = need stays put"""
    posting_steps: jax.Array
    """() steps for which posted prices stay; 1 = they move at every step"""


class EquityState(NamedTuple):
    """What the equity term remembers; it persists across episodes."""

    prices: jax.Array
    """(6,) μ, centred over the known strata; the unknown stratum's price stays zero"""
    posted: jax.Array
    """(6,) the prices that are worked with: μ when it was last posted"""
    correct: jax.Array
    """(6,) correct escalations in the rolling window"""
    unserved: jax.Array
    """(6,) estimated actionable incidents in the rolling window that were not"""
    complaints: jax.Array
    """(6,) complaints since the start"""
    n_steps: jax.Array
    """() int32 steps since the start"""
    recent: jax.Array | None
    """(n_days, 6) complaints by day, a ring; None where the mode does not look at it"""


class EquityMode(NamedTuple):
    """One mode of the equity term."""

    feature_names: tuple[str, ...]
    """What the policy sees of it; what concerns the complaint in hand is last"""
    update: Callable[[EquityParams, EquityState, jax.Array], EquityState]
    """(params, state, correct escalations as the agency counts them (6,)) -> state"""
    reward: Callable[[EquityParams, EquityState, jax.Array], jax.Array]
    """(params, state before the step, credit (6,)) -> ()"""
    features: Callable[[EquityParams, EquityState, jax.Array], jax.Array]
    """(params, state, stratum (...) of the complaint in hand or `NOBODY`) -> (..., n names)"""
    n_days: int = 0
    """Days of complaints that are kept one by one; where there are any, what a step brought is
    heard before it is paid"""


def equity_params(
    need_per_step: jax.Array,
    *,
    steps_per_day: float | np.float32 | jax.Array = 1.0,
    step_size: float | jax.Array = 0.01,
    price_cap: float | jax.Array = PRICE_CAP,
    target_gap: float | jax.Array = 0.0,
    is_visible: float | jax.Array = 1.0,
    discount: float | jax.Array = 0.9,
    usual_reports: Any = None,
    news_weight: float | jax.Array = 0.0,
    posting_steps: float | jax.Array = 1.0,
) -> EquityParams:
    """Parameters of the equity term from a domain's need per step (6,).

    Where there is a `news_weight`, need follows complaints, whose usual number (6,) must be given.
    """
    usual = np.ones(N_STRATA) if usual_reports is None else usual_reports
    numbers = (step_size, price_cap, target_gap, is_visible, discount, news_weight, posting_steps)
    xp = namespace_of(need_per_step, steps_per_day, usual, *numbers)
    number = lambda value: xp.asarray(value, np.float32)  # noqa: E731
    return EquityParams(
        denominators=number(need_per_step),
        step_size=number(step_size),
        price_cap=number(price_cap),
        target_gap=number(target_gap),
        is_visible=number(is_visible),
        window_steps=number(steps_per_day) * WINDOW_DAYS,
        discount=number(discount),
        usual_reports=number(usual),
        news_weight=number(news_weight),
        posting_steps=number(posting_steps),
    )


def initial_equity(
    params: EquityParams, prices: jax.Array | None = None, n_days: int = 0
) -> EquityState:
    """Start with these prices (zero if not given) and a window in which nobody was served.

    ``n_days`` days before the start are kept one by one, each with as many complaints as usual.
    """
    xp = namespace_of(params.denominators, params.window_steps, prices)
    start = xp.zeros(N_STRATA, np.float32) if prices is None else prices
    start = xp.asarray(start, np.float32)
    return EquityState(
        prices=start,
        posted=start,
        correct=xp.zeros(N_STRATA, np.float32),
        unserved=params.denominators * params.window_steps,
        complaints=xp.zeros(N_STRATA, np.float32),
        n_steps=xp.int32(0),
        recent=xp.ones((n_days, 1), np.float32) * params.usual_reports * _steps_a_day(params)
        if n_days
        else None,
    )


def _steps_a_day(params: EquityParams) -> jax.Array:
    return params.window_steps / np.float32(WINDOW_DAYS)


def hear_complaints(params: EquityParams, state: EquityState, complaints: jax.Array) -> EquityState:
    """Count a step and the complaints (6,) that it brought."""
    heard = state.complaints + complaints
    recent = state.recent
    if recent is not None:
        xp = namespace_of(recent, complaints)
        today, yesterday = (_day_of(params, n) for n in (state.n_steps + 1, state.n_steps))
        # Day whose complaints each place of the ring holds, once those older than it are gone.
        held = today - (today - xp.arange(recent.shape[0])) % recent.shape[0]
        kept = xp.where((held > yesterday)[:, None], np.float32(0.0), recent)
        recent = kept + (held == today)[:, None] * complaints
    return state._replace(complaints=heard, n_steps=state.n_steps + 1, recent=recent)


def _day_of(params: EquityParams, n_steps: jax.Array) -> jax.Array:
    """Day, from 0 on, in which the last of so many steps ends; a step may be longer than a day."""
    # A little less, so that rounding starts no new day at the end of one.
    return namespace_of(params.window_steps).ceil(_days(params, n_steps) - np.float32(1e-3)) - 1.0


def _days(params: EquityParams, n_steps: jax.Array) -> jax.Array:
    xp = namespace_of(params.window_steps, n_steps)
    return xp.asarray(n_steps, np.float32) / _steps_a_day(params)


def reports_in_window(params: EquityParams, state: EquityState) -> jax.Array:
    """Complaints (6,) of the four weeks that end with the last step heard.

    Of the day in which they begin it counts the share that lies inside.
    """
    if state.recent is None:
        raise ValueError("these counters keep no days; start them with the mode's `n_days`")
    n_days = state.recent.shape[0]
    xp = namespace_of(state.recent, params.window_steps)
    today = _day_of(params, state.n_steps)
    passed = _days(params, state.n_steps) - today
    is_oldest = (today - xp.arange(n_days)) % n_days == n_days - 1
    weight = xp.where(is_oldest, 1.0 - passed, np.float32(1.0))
    return (weight[:, None] * state.recent).sum(axis=0)


def need_in_window(params: EquityParams, state: EquityState) -> jax.Array:
    """N̂_t (6,): incidents behind the complaints of the four weeks that end with the last step.

    Each complaint stands for as many incidents as in the estimate, which is the paper's C/ρ̂. What
    it leaves open: a stratum from which nothing was heard in four weeks counts as one complaint,
    since escalations per incident have no value where there is no incident.
    """
    heard = reports_in_window(params, state)
    xp = namespace_of(params.denominators, heard)
    heard = xp.maximum(heard, 1.0)
    behind_one = params.denominators / xp.maximum(params.usual_reports, 1e-9)
    whole = params.denominators * params.window_steps
    return xp.where(params.usual_reports > 0, heard * behind_one, whole)


def need_now(params: EquityParams, state: EquityState) -> jax.Array:
    """Actionable incidents per step, (6,): as estimated, times how far complaints are from usual.

    A stratum from which more is heard than in the years of the estimate, reporting as it did, has
    more incidents. The mean of a Gamma law that starts with 1 / `news_weight` steps as usual.
    """
    usual = namespace_of(params.usual_reports).maximum(params.usual_reports, 1e-9)
    heard = 1.0 + params.news_weight * state.complaints / usual
    return params.denominators * heard / (1.0 + params.news_weight * state.n_steps)


def rolling_coverage(state: EquityState) -> jax.Array:
    """Correct escalations over estimated actionable incidents in the window, (6,)."""
    seen = state.correct + state.unserved
    return state.correct / namespace_of(seen).maximum(seen, 1e-9)


def coverage_gap(coverage: jax.Array) -> jax.Array:
    """Largest difference between two known strata; coverage is (..., 6)."""
    known = coverage[..., :N_KNOWN_STRATA]
    return known.max(axis=-1) - known.min(axis=-1)


def relative_need_weights(denominators: jax.Array) -> jax.Array:
    """N̄ / N̂ by stratum, (6,): zero where a stratum has no need and for the unknown one."""
    xp, known = namespace_of(denominators), denominators[:N_KNOWN_STRATA]
    weights = xp.where(known > 0, known.mean() / xp.maximum(known, 1e-12), np.float32(0.0))
    return xp.append(weights, np.float32(0.0))


def count_step(params: EquityParams, state: EquityState, correct: jax.Array) -> EquityState:
    """Forget a little, then add this step's correct escalations and its share of the need."""
    keep = namespace_of(params.window_steps).exp(-1.0 / params.window_steps)
    return state._replace(
        correct=state.correct * keep + correct,
        unserved=state.unserved * keep + need_now(params, state) - correct,
    )


def _update_dual(params: EquityParams, state: EquityState, correct: jax.Array) -> EquityState:
    xp = namespace_of(params.denominators, state.prices, correct)
    weights = relative_need_weights(need_now(params, state))
    weighted = (correct * weights)[:N_KNOWN_STRATA]
    coverage = rolling_coverage(state)[:N_KNOWN_STRATA]
    is_beyond = xp.abs(coverage - coverage.mean()) >= params.target_gap / 2.0
    moved = state.prices[:N_KNOWN_STRATA] + params.step_size * is_beyond * (
        weighted.mean() - weighted
    )
    centred = xp.clip(moved - moved.mean(), -params.price_cap, params.price_cap)
    prices = xp.append(centred, np.float32(0.0))
    is_due = state.n_steps % params.posting_steps < 1.0
    posted = xp.where(is_due, prices, state.posted)
    return count_step(params, state, correct)._replace(prices=prices, posted=posted)


def _reward_dual(params: EquityParams, state: EquityState, credit: jax.Array) -> jax.Array:
    weighted = state.posted * relative_need_weights(need_now(params, state))
    return namespace_of(weighted, credit).dot(weighted, credit)


def _features_dual(params: EquityParams, state: EquityState, stratum: jax.Array) -> jax.Array:
    known = state.posted[:N_KNOWN_STRATA]
    xp = namespace_of(state.posted, stratum)
    price = xp.where(stratum == NOBODY, known.max() - known.min(), state.posted[stratum])
    return (FEATURE_SCALE * price * params.is_visible)[..., None]


DUAL = EquityMode((COVERAGE_FEATURE,), _update_dual, _reward_dual, _features_dual)


Form = Callable[["jax.Array", "jax.Array"], "jax.Array"]
"""A measure of disparity: correct escalations and need of each stratum (..., 6) -> (...)."""


def _ratio(correct: jax.Array, need: jax.Array) -> jax.Array:
    return correct / namespace_of(need).maximum(need, 1e-9)


def two_strata_gap(correct: jax.Array, need: jax.Array) -> jax.Array:
    """|n_high / N̂_high − n_low / N̂_low| (the paper's Eq. 9), quintiles pooled within a stratum.

    The paper's strata are quintiles 1–2 and 4–5 together, so counts and needs are added up before
    they are divided; a mean of quintile ratios would weigh a small quintile like a large one.
    """
    low = _ratio(correct[..., 0:2].sum(axis=-1), need[..., 0:2].sum(axis=-1))
    high = _ratio(correct[..., 3:5].sum(axis=-1), need[..., 3:5].sum(axis=-1))
    return abs(high - low)


def largest_gap(correct: jax.Array, need: jax.Array) -> jax.Array:
    """Largest difference of n / N̂ between two known strata (the paper's Eq. 10)."""
    return coverage_gap(_ratio(correct, need))


def coverage_variance(correct: jax.Array, need: jax.Array) -> jax.Array:
    """Variance of n / N̂ over the known strata with weights 1/K (the paper's Eq. 11).

    The sentence before the equation calls it "population-weighted", the equation gives every
    stratum 1/K. For strata that hold a fifth of the households each, which quintiles of income and
    of race do here, both say the same.
    """
    return _ratio(correct, need)[..., :N_KNOWN_STRATA].var(axis=-1)


FORMS: dict[str, Form] = {
    "two_strata": two_strata_gap,
    "max_gap": largest_gap,
    "variance": coverage_variance,
}
"""The paper's measures of disparity by name."""

DEFICIT_SCALE = 10.0
"""A stratum a tenth behind the mean shows as 1."""
RATE_NAMES = tuple(f"coverage_{name}" for name in STRATUM_NAMES[:N_KNOWN_STRATA])


def _unit(params: EquityParams) -> jax.Array:
    """Mean need of a stratum in a window: what turns coverage into correct escalations."""
    return params.denominators[:N_KNOWN_STRATA].mean() * params.window_steps


def _horizon(params: EquityParams) -> jax.Array:
    """1 − γ^D over a window of D steps."""
    return 1.0 - params.discount**params.window_steps


def _deficit(params: EquityParams, state: EquityState, stratum: jax.Array) -> jax.Array:
    coverage = rolling_coverage(state)
    known = coverage[:N_KNOWN_STRATA]
    ahead = known.mean() - coverage[stratum]
    behind = namespace_of(ahead, stratum).where(stratum == NOBODY, known.max() - known.min(), ahead)
    is_known = stratum < N_KNOWN_STRATA
    return DEFICIT_SCALE * behind * is_known * params.is_visible


def _features_deficit(params: EquityParams, state: EquityState, stratum: jax.Array) -> jax.Array:
    return _deficit(params, state, stratum)[..., None]


def _features_rates(params: EquityParams, state: EquityState, stratum: jax.Array) -> jax.Array:
    """Every stratum's rate and the gap too: without them the reward is a hidden offset."""
    rates = rolling_coverage(state)
    xp, deficit = namespace_of(rates), _deficit(params, state, stratum)[..., None]
    seen = xp.append(rates[:N_KNOWN_STRATA], coverage_gap(rates)) * params.is_visible
    wide = xp.broadcast_to(seen, (*deficit.shape[:-1], len(seen)))
    return xp.concatenate([wide, deficit], axis=-1)


def _in_window(form: Form, state: EquityState) -> jax.Array:
    return form(state.correct, state.correct + state.unserved)


def _potential(form: Form) -> EquityMode:
    def reward(params: EquityParams, state: EquityState, credit: jax.Array) -> jax.Array:
        before = _in_window(form, state)
        after = _in_window(form, count_step(params, state, credit))
        return (before - after) * _unit(params) / _horizon(params)

    return EquityMode(("coverage_deficit",), count_step, reward, _features_deficit)


def _windowed(form: Form) -> EquityMode:
    def reward(params: EquityParams, state: EquityState, credit: jax.Array) -> jax.Array:
        level = _in_window(form, count_step(params, state, credit))
        return -level * _unit(params) * (1.0 - params.discount) / _horizon(params)

    names = (*RATE_NAMES, "coverage_gap", "coverage_deficit")
    return EquityMode(names, count_step, reward, _features_rates)


def _per_step(form: Form) -> EquityMode:
    def reward(params: EquityParams, state: EquityState, credit: jax.Array) -> jax.Array:
        return -form(credit, need_in_window(params, state)) * _unit(params)

    # One day more than the window: it may begin in the middle of one.
    n_days = int(WINDOW_DAYS) + 1
    return EquityMode(("coverage_deficit",), count_step, reward, _features_deficit, n_days)


MODES: dict[str, Callable[[Form], EquityMode]] = {
    "dual": lambda form: DUAL,
    "potential": _potential,
    "windowed": _windowed,
    "per_step": _per_step,
}
"""Modes of the equity term by name; the form says which disparity all but `dual` pay for."""


@lru_cache
def get_mode(name: str, form: str = "max_gap") -> EquityMode:
    """Look up a mode of the equity term, or say which there are."""
    if name not in MODES:
        raise unknown_name("equity mode", name, MODES)
    if form not in FORMS:
        raise unknown_name("form of the equity term", form, FORMS)
    return MODES[name](FORMS[form])


USUAL_TERM = EquityTerm()
"""What is paid where nothing else is asked for."""
PUBLISHED_TERM = EquityTerm("per_step", "two_strata", "all")
"""The paper's equity term (its Eq. 9): one step's correct escalations over all estimated incidents
of the four weeks that end with it, low against high quintiles."""


def term_of(manifest: Mapping[str, Any]) -> EquityTerm:
    """The equity term of a policy; what earlier versions did not name was as by default."""
    return EquityTerm(
        **{name: manifest.get(name, usual) for name, usual in asdict(USUAL_TERM).items()}
    )
