"""The comparison table of one domain: every rule and every agent on later dates, under the truth.

Policies are made from what the agency could see (estimated params) and scored on what really
happens (true params). Prices of coverage start where they have settled in the estimated process,
because they outlive an episode. All policies have the same capacity: in a queue by the process
itself, elsewhere by a threshold: the order in which cases are visited is learned from the records,
how many of them are is what the inspectors can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from parity311.engines.heuristics import CaseTable, QueueRule, Threshold
from parity311.engines.table.rules import hold_to_capacity
from parity311.errors import InputError
from parity311.evaluation import ceiling, metrics
from parity311.evaluation.rollout import CHUNK, Contender, Episodes, evaluate
from parity311.evaluation.titles import EQUITY_MARK, TODAY
from parity311.mdp.contract import EQUITY, N_KNOWN_STRATA, N_STRATA, Policy
from parity311.mdp.equity import PRICE_CAP, USUAL_TERM, EquityTerm, relative_need_weights
from parity311.mdp.harness import Harness
from parity311.training.loop import Trained

SETTLING_ROUNDS = 4
"""Rounds of episodes in which coverage prices settle."""

RESPONSE_RANGE = (0.4, 4.0)
"""By how much a unit of price may change a stratum's log coverage; outside it is noise."""

N_SELECTING = 2 * CHUNK
"""Episodes on which the best known policy of a queue is chosen."""

DUAL = "dual_threshold"
_play = partial(evaluate, with_saved=False)
"""Figures are of what came of an episode, not of what agents learned from."""

WITHOUT_EQUITY = "score"
"""Rule against which the price of the rules' equity is measured."""


def compare_policies(
    harness: Harness,
    estimated: Any,
    true: Any,
    trained: Sequence[Trained] = (),
    *,
    n_episodes: int = 64,
    key: jax.Array,
    preference: Sequence[float] = (0.5, 0.5, 0.0, 0.0),
    on_scored: Callable[[Sequence[Contender], Episodes], None] | None = None,
) -> list[dict[str, Any]]:
    """Compare every rule of the domain, the given agents and the ceiling.

    Parameters
    ----------
    harness
        The domain with the observation the policies see.
    estimated, true
        Params from the records, and of what really happens later.
    trained
        Agents trained in the estimated process.
    n_episodes
        Episodes every policy plays; the same for all.
    preference
        Weights under which the published reward is scored; the equity weight is left out.
    on_scored
        Given the policies as they were held to capacity and their scored episodes, to be kept.

    Returns
    -------
    One record per policy (agents: one per preference, averaged over seeds), plain numbers only.
    """
    if n_episodes < 2:
        raise InputError(f"{n_episodes} episodes were asked for; intervals need at least 2.")
    key_settle, key_search, key_select, key_score = jax.random.split(key, 4)
    flow = later_flow(harness, estimated, true)
    contenders = rule_contenders(harness, estimated) + agent_contenders(harness, trained)
    contenders.append(replace(_named(contenders, DUAL), name="static_thresholds"))
    weights = np.asarray(preference)
    keys_search = jax.random.split(key_search, CHUNK)
    contenders.append(best_contender(harness, flow, true, keys_search, weights))
    # Where an episode is cheap, prices settle on many.
    n_settling = CHUNK if flow is None else 8 * CHUNK
    keys_settle = jax.random.split(key_settle, n_settling)
    contenders = settle_prices(harness, estimated, contenders, keys_settle)
    contenders = [hold_contender(harness, flow, one) for one in contenders]
    equity = harness.equity_params(estimated)
    keys = jax.random.split(key_score, n_episodes)
    episodes = _play(harness, true, contenders, keys, equity=equity)
    if on_scored is not None:
        on_scored(contenders, episodes)
    n_believed = max(n_episodes // 2 // CHUNK * CHUNK, min(n_episodes, CHUNK))
    believed = _play(harness, estimated, contenders, keys[:n_believed], equity=equity)
    top = "ceiling"
    if not is_exact(harness):
        keys_select = jax.random.split(key_select, N_SELECTING)
        trial = _play(harness, true, contenders, keys_select, equity=equity)
        top = best_name(contenders, trial, weights)
    return _records(harness, flow, contenders, episodes, believed, weights, top)


def best_name(contenders: Sequence[Contender], trial: Any, preference: np.ndarray) -> str:
    """Name of the policy that does best in a trial, learned policies included.

    The trial's episodes are not those that are scored: the best of many on the very episodes it
    was chosen on looks better than it is.
    """
    names = list(dict.fromkeys(one.name for one in contenders))
    resampled = metrics.Resampled(trial.reward.shape[1], n_resamples=2)
    reward = {}
    for name in names:
        places = [i for i, one in enumerate(contenders) if one.name == name]
        reward[name] = metrics.score(trial, places, resampled, preference).reward[0]
    return max(names, key=lambda name: reward[name])


def _named(contenders: Sequence[Contender], name: str) -> Contender:
    return next(one for one in contenders if one.name == name)


def check_comparable(term: EquityTerm) -> None:
    """Refuse a term under which rules cannot be played beside agents.

    A rule that follows coverage prices reads them where a policy of another mode sees how far its
    stratum is behind, which is no price.
    """
    if term.equity_mode != USUAL_TERM.equity_mode:
        raise InputError(
            f"Equity mode {term.equity_mode!r} was asked for; agents are compared with rules that "
            f"follow the coverage prices of {USUAL_TERM.equity_mode!r}, which no other mode has. "
            "Use that one here; `train` and `sweep` know all of them."
        )


def rule_contenders(harness: Harness, estimated: Any) -> list[Contender]:
    """The domain's rules, made from the estimated process."""
    return [
        Contender(name, make(estimated, harness), is_priced=name == DUAL)
        for name, make in harness.domain.heuristics.items()
    ]


def agent_contenders(harness: Harness, trained: Sequence[Trained]) -> list[Contender]:
    """Every trained agent; with two actions as a margin, so that capacity can hold it."""
    found = []
    for batch in trained:
        for index in range(batch.n_agents):
            weight = float(batch.preferences[index, EQUITY])
            name = batch.agent.name + (f"{EQUITY_MARK}{weight:.2f}" if weight > 0 else "")
            policy: Policy = batch.policy(index)
            if harness.domain.play.cases is not None:
                margin = Partial(batch.agent.margin, batch.weights(index))
                policy = Threshold(margin, jnp.float32(0.0), jnp.float32(0.5))
            prices = batch.prices[index] if weight > 0 else None
            found.append(Contender(name, policy, prices, is_priced=weight > 0))
    return found


def settle_prices(
    harness: Harness, estimated: Any, contenders: Sequence[Contender], keys: jax.Array
) -> list[Contender]:
    """Find where coverage prices settle in the estimated process, at capacity.

    Prices are held fixed for a round of episodes and then moved by the relative shortfall of each
    stratum: the rest point of the online rule, found without its noise. Static thresholds are the
    dual ones with their prices frozen there. Everybody plays in every round, so that rounds and
    the scoring share one compiled program.
    """
    settled = list(contenders)
    cases = harness.domain.play.cases
    table = cases(estimated) if cases is not None else None
    equity = harness.equity_params(estimated)
    weights = np.asarray(relative_need_weights(equity.denominators))
    responses = np.ones(len(settled))
    before = np.zeros((len(settled), N_KNOWN_STRATA))
    for _ in range(SETTLING_ROUNDS):
        settled = [hold_contender(harness, table, one) for one in settled]
        frozen = [replace(one, price_step=0.0) for one in settled]
        episodes = _play(harness, estimated, frozen, keys, equity=equity)
        served = (np.asarray(episodes.tally.counted).sum(axis=1) * weights)[:, :N_KNOWN_STRATA]
        shortfall = 1.0 - served / np.maximum(served.mean(axis=1, keepdims=True), 1e-9)
        for place, one in enumerate(settled):
            if one.is_priced:
                # After a round, what it changed says how strongly coverage follows prices.
                moved = before[place] / responses[place]
                responses[place] = _response(
                    moved, before[place] - shortfall[place], responses[place]
                )
                prices = _move_prices(one.prices, shortfall[place] / responses[place])
                settled[place] = replace(one, prices=prices)
        before = shortfall
    prices = _named(settled, DUAL).prices
    return [
        replace(one, prices=prices, price_step=0.0) if one.name == "static_thresholds" else one
        for one in settled
    ]


def _response(moved: np.ndarray, closed: np.ndarray, old: float) -> float:
    """Shortfall closed per unit of price moved, from one round to the next; (5,) each."""
    if np.abs(moved).max() < 0.05:
        return old
    return float(np.clip(moved @ closed / (moved @ moved), *RESPONSE_RANGE))


def _move_prices(prices: np.ndarray | None, change: np.ndarray) -> np.ndarray:
    """Prices (6,) after a change of the known ones (5,); centred, clipped."""
    old = np.zeros(N_STRATA) if prices is None else prices
    moved = old[:N_KNOWN_STRATA] + change
    return np.append(np.clip(moved - moved.mean(), -PRICE_CAP, PRICE_CAP), 0.0)


def later_flow(harness: Harness, estimated: Any, true: Any) -> CaseTable | None:
    """The cases that come in later, with the visits that were decided on before.

    Capacity binds on the flow that is really there: an office that has used up its visits raises
    its threshold, for which it need only see the complaints, not what is behind them.
    """
    cases = harness.domain.play.cases
    if cases is None:
        return None
    return cases(true)._replace(capacity_share=cases(estimated).capacity_share)


def hold_contender(harness: Harness, table: CaseTable | None, contender: Contender) -> Contender:
    """Set the threshold of a margin so that it makes as many visits as there are."""
    if table is None or not isinstance(contender.policy, Threshold):
        return contender
    held = hold_to_capacity(contender.policy.margin, table, harness, contender.prices)
    return replace(contender, policy=held)


def is_exact(harness: Harness) -> bool:
    """Whether the domain's ceiling is computed; elsewhere the best known stands for it.

    Value iteration is exact for who sees the whole state, which is the domain's default set.
    """
    domain = harness.domain
    sees_all = harness.observation_set in ("", domain.default_observation_set)
    return domain.ceiling.startswith("exact") and (domain.play.cases is not None or sees_all)


def best_contender(
    harness: Harness, flow: CaseTable | None, true: Any, keys: jax.Array, preference: np.ndarray
) -> Contender:
    """The ceiling: exact where it can be computed, else the best rule a search finds."""
    play = harness.domain.play
    if flow is not None:
        return Contender("ceiling", ceiling.bayes_rule(flow, harness))
    if play.solve is not None and is_exact(harness):
        return Contender("ceiling", play.solve(true, harness, preference))
    if play.candidates is None:
        raise InputError(
            f"Domain {harness.domain.slug!r} gives neither its cases nor rules to search; one of "
            "them is needed for a ceiling."
        )
    candidates: list[QueueRule] = play.candidates(true, harness)
    episodes = _play(
        harness,
        true,
        [Contender(f"candidate_{i}", rule) for i, rule in enumerate(candidates)],
        keys,
    )
    reward = np.asarray(episodes.tally.published_reward).mean(axis=1)
    best = int(np.argmax(reward @ preference))
    return Contender("searched", candidates[best])


def _records(
    harness: Harness,
    flow: CaseTable | None,
    contenders: Sequence[Contender],
    episodes: Any,
    believed: Any,
    preference: np.ndarray,
    top: str,
) -> list[dict[str, Any]]:
    n_episodes = episodes.reward.shape[1]
    n_cases = None if flow is None else len(flow.stratum)
    n_believed = believed.reward.shape[1]
    resampled = metrics.Resampled(n_episodes, n_drawn=n_episodes * harness.horizon, n_cases=n_cases)
    limit = np.inf if flow is None else 1.05 * flow.capacity_share
    names = list(dict.fromkeys(one.name for one in contenders))
    places = {n: [i for i, one in enumerate(contenders) if one.name == n] for n in names}
    scored = {n: metrics.score(episodes, places[n], resampled, preference) for n in names}
    as_believed = metrics.Resampled(n_believed)
    expected = {n: metrics.score(believed, places[n], as_believed, preference) for n in names}
    records = []
    for name in names:
        own = scored[name]
        reference = _reference(name, scored)
        record: dict[str, Any] = {
            "domain": harness.domain.slug,
            "policy": name,
            "n_agents": len(places[name]),
            "is_within_capacity": True,
            "price_floor": None,
            **metrics.summarise(own, resampled, None if flow is None else flow.need),
            **metrics.compare_with(own, scored[reference], resampled),
            "against_today": metrics.compare_with_today(own, scored[TODAY], resampled),
            **metrics.share_of_way(own, scored[TODAY], scored[top], resampled),
            "ceiling": top if is_exact(harness) else f"best known: {top}",
            "reference": reference,
            "believed_reward": float(expected[name].reward[0]),
            "prices": _mean_prices(contenders, places[name]),
        }
        if flow is not None and any(contenders[place].is_priced for place in places[name]):
            record["price_floor"] = _price_floor(harness, flow, record["coverage_gap"]["value"])
        if record["visits_per_complaint"]["value"] > limit:
            record.update(share_of_way=None, is_within_capacity=False)
        records.append(record)
    return records


def _price_floor(harness: Harness, flow: CaseTable, gap: float) -> float | None:
    """Least share of correct escalations that this gap costs at this capacity, under the truth."""
    chances = ceiling.bayes_chances(flow, harness)
    n_visits = flow.capacity_share * len(chances)
    _, price = ceiling.least_price(chances, flow.stratum, flow.need, n_visits, max(gap, 0.0))
    return float(price) if np.isfinite(price) else None


def _reference(name: str, scored: dict[str, Any]) -> str:
    """Policy without equity that a policy's price is measured against: its own kind's."""
    own_kind = name.split(EQUITY_MARK)[0]
    return own_kind if own_kind in scored and own_kind != name else WITHOUT_EQUITY


def _mean_prices(contenders: Sequence[Contender], places: Sequence[int]) -> list[float]:
    prices = [contenders[i].prices for i in places]
    known = [np.zeros(N_STRATA) if price is None else price for price in prices]
    return [float(x) for x in np.mean(known, axis=0)]
