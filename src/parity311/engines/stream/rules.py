"""Rules of thumb for a stream of complaints: a score of what is seen, and a bar per action.

Actions are ordered from the mildest to the strongest, so a rule is a score and as many bars as
there are actions beyond the first. The score is a table over the kinds a policy can tell apart;
the queue raises the bars, the coverage price lowers them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parity311.arrays import jax, jnp
from parity311.engines import heuristics
from parity311.engines.stream.process import (
    N_LEVELS,
    QUEUE_SLOTS,
    StreamParams,
    StreamShape,
    waiting_factors,
)
from parity311.engines.stream.worth import (
    capacity_shares,
    kind_shares,
    queue_loss,
    queue_shares,
    value_of_kinds,
)
from parity311.mdp.contract import Baseline, Policy
from parity311.mdp.equity import FEATURE_SCALE
from parity311.mdp.harness import Harness


class Reading(NamedTuple):
    """How one part of a kind is read off the observation: offset + Σ factor × feature."""

    factors: Mapping[str, float]
    offset: float = 0.0


class StreamLayout(NamedTuple):
    """What rules need to know of a domain's observation and actions."""

    shape: StreamShape
    readings: tuple[Reading, Reading, Reading]
    """of place, level and history"""
    strong_shares: Callable[[float], Sequence[float]]
    """share of complaints the crew can serve -> shares of the actions beyond the first visit"""
    opens: tuple[str, ...]
    """names of the features that say what is open at each place"""
    backlog: str = "backlog"
    """name of the feature that is the length of the queue, 0 to 1"""
    season: str = "season"
    crew: str = "crew_free"


class StreamRule(NamedTuple):
    """Take the strongest action whose bar the score exceeds; the mildest if none."""

    strides: jax.Array
    """(n_features,) what turns the observation into the number of a cell"""
    offset: jax.Array
    """() number of the cell where all features are zero"""
    scores: jax.Array
    """(n_kinds,) score of each cell; unused ones are padding"""
    slopes: jax.Array
    """(n_features,) by how much each feature adds to the score: the queue less, the price more"""
    bars: jax.Array
    """(n_actions - 1,) rising"""

    def __call__(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        """Decide."""
        del key
        cell = jnp.rint(jnp.dot(self.strides, observation) + self.offset).astype(jnp.int32)
        score = self.scores[jnp.clip(cell, 0, self.scores.shape[0] - 1)]
        score += jnp.dot(self.slopes, observation)
        return (score > self.bars).sum().astype(jnp.int32)

    def arrays(self, harness: Harness) -> dict[str, np.ndarray]:
        """The rule as named arrays."""
        return heuristics.ladder_arrays(
            np.asarray(self.slopes),
            self.bars,
            harness.n_actions,
            strides=self.strides,
            offset=self.offset,
            cell_scores=self.scores,
        )


class Seen(NamedTuple):
    """The kinds as a policy sees them."""

    strides: np.ndarray
    """(n_features,)"""
    offset: float
    cell: np.ndarray
    """(n_kinds,) which cell each kind falls into"""
    shares: np.ndarray
    """(n_kinds,) how often each kind comes in"""


def see_kinds(layout: StreamLayout, params: StreamParams, harness: Harness) -> Seen:
    """Number the cells of kinds that the harness's features can tell apart."""
    shape, names = layout.shape, harness.observation_names
    sizes = (shape.n_places, N_LEVELS, shape.n_histories)
    strides, offset = np.zeros(harness.n_features), 0.0
    cell, n_cells = np.zeros(shape.n_kinds, np.int64), 1
    for part in reversed(range(len(sizes))):
        reading = layout.readings[part]
        if all(name in names for name in reading.factors):
            for name, factor in reading.factors.items():
                strides[names.index(name)] += n_cells * factor
            offset += n_cells * reading.offset
            cell += n_cells * shape.kinds[:, part]
            n_cells *= sizes[part]
    return Seen(strides, offset, cell, kind_shares(shape, params))


def make_rule(
    layout: StreamLayout,
    params: StreamParams,
    harness: Harness,
    target: np.ndarray,
    action_shares: Sequence[float],
    *,
    queue_slope: float = 0.0,
    price_gain: float = 0.0,
) -> StreamRule:
    """Rule on the mean of a target (n_kinds,) over what looks alike.

    `action_shares` are the shares of complaints that should at least get action 1, 2, …, at an
    empty queue and price 0; they must not rise.
    """
    seen, n_kinds = see_kinds(layout, params, harness), layout.shape.n_kinds
    mass = np.bincount(seen.cell, seen.shares, minlength=n_kinds)
    total = np.bincount(seen.cell, seen.shares * target, minlength=n_kinds)
    scores = np.where(mass > 0, total / np.maximum(mass, 1e-12), target.min())
    slopes = np.zeros(harness.n_features)
    slopes[-1] = price_gain / FEATURE_SCALE
    if layout.backlog in harness.observation_names:
        slopes[harness.observation_names.index(layout.backlog)] = -queue_slope
    order = np.argsort(-scores)
    cumulative = np.cumsum(mass[order])
    bars = []
    for share in action_shares:
        place = min(int(np.searchsorted(cumulative, share - 1e-9)), len(order) - 1)
        bars.append(np.inf if share <= 0 else scores[order[place]] - 1e-5)
    numbers = (seen.strides, seen.offset, scores, slopes, np.array(bars))
    return StreamRule(*(jnp.asarray(x, jnp.float32) for x in numbers))


Maker = Callable[[Any, Harness], Policy]


def log_values(layout: StreamLayout, params: StreamParams) -> np.ndarray:
    """Logarithm of what a visit to each kind is worth."""
    return np.log(np.maximum(value_of_kinds(layout.shape, params), 1e-6))


def worth_of_kinds(
    layout: StreamLayout, params: StreamParams, preference: np.ndarray
) -> np.ndarray:
    """Reward of a visit now to each kind, before its cost, (n_kinds,)."""
    units = np.asarray(params.kinds, np.float64)[:, 1]
    per_day = preference[0] / float(params.speed_unit)
    per_day = per_day + preference[3] * units / float(params.keep_unit)
    return value_of_kinds(layout.shape, params) * per_day


def worthwhile_shares(
    layout: StreamLayout, params: StreamParams, harness: Harness
) -> tuple[float, ...]:
    """Shares of complaints for each action, at most what there is capacity for, none at a loss.

    Actions beyond the first visit are given to the worthiest as long as each adds more than it
    costs over the action before it (over nothing, for the first of them).
    """
    preference, shares = np.asarray(harness.domain.preference), capacity_shares(params)
    worth = worth_of_kinds(layout, params, preference)
    level, table = layout.shape.kinds[:, 1], params.actions
    wasted = 1.0 - np.asarray(params.kinds, np.float64)[:, 0]
    order = np.argsort(-log_values(layout, params))
    mass = kind_shares(layout.shape, params)[order]
    wanted, before = [shares.anybody], np.zeros(len(order))
    for number, room in enumerate(layout.strong_shares(shares.crew), start=2):
        hours = float(table.hours[number]) + float(table.wasted_hours[number]) * wasted
        cost = preference[1] * hours / float(params.cost_unit)
        net = worth * np.asarray(table.effect, np.float64)[number][level] - cost
        gained = np.append(0.0, np.cumsum(mass * (net - before)[order]))
        worthwhile = float(np.append(0.0, np.cumsum(mass))[int(np.argmax(gained))])
        wanted.append(min(room, worthwhile, wanted[-1]))
        before = net
    return tuple(wanted)


def tune_bar(
    layout: StreamLayout, params: StreamParams, harness: Harness, rule: StreamRule, n_round: int = 1
) -> StreamRule:
    """Set the bar of the first visit to what earns most from a queue fed by it.

    The queue alone is reckoned with, as a chain over its length: what comes in is what exceeds
    the bar, what goes out is what the round can do. Neither the crew nor what comes back is.
    """
    preference = np.asarray(harness.domain.preference)
    seen = see_kinds(layout, params, harness)
    score = np.asarray(rule.scores, np.float64)[seen.cell]
    queue = np.arange(QUEUE_SLOTS + 1)
    slope = 0.0
    if layout.backlog in harness.observation_names:
        place = harness.observation_names.index(layout.backlog)
        slope = -float(rule.slopes[place]) / QUEUE_SLOTS
    waiting = np.append(np.asarray(waiting_factors(params), np.float64).mean(axis=0), 0.0)
    cost = preference[1] * float(params.actions.hours[n_round]) / float(params.cost_unit)
    gain = worth_of_kinds(layout, params, preference)[:, None] * waiting - cost
    best, found = -np.inf, float(score.max())
    for bar in np.unique(np.concatenate([score - slope * n for n in (0, 1, 2, 4, 6)])) - 1e-5:
        is_ordered = (score[:, None] - slope * queue > bar) & (queue < QUEUE_SLOTS)
        ordered = seen.shares @ is_ordered
        earned = ((seen.shares[:, None] * is_ordered) * gain).sum(axis=0)
        rate = float(queue_shares(ordered, float(params.visits_per_step)) @ earned)
        if rate > best + 1e-9:
            best, found = rate, float(bar)
    return rule._replace(bars=rule.bars.at[0].set(found))


def score_rule(
    layout: StreamLayout, params: StreamParams, harness: Harness, price_gain: float = 0.0
) -> Policy:
    """The worthiest first: one bar, set to what earns most from the queue behind it."""
    target, wanted = log_values(layout, params), worthwhile_shares(layout, params, harness)
    rule = make_rule(layout, params, harness, target, wanted, price_gain=price_gain)
    return tune_bar(layout, params, harness, rule)


def index_rule(layout: StreamLayout, params: StreamParams, harness: Harness) -> Policy:
    """Order a visit where its worth, less what the queue ahead loses of it, exceeds a price."""
    target, wanted = log_values(layout, params), worthwhile_shares(layout, params, harness)
    slope = queue_loss(params)
    rule = make_rule(layout, params, harness, target, wanted, queue_slope=slope)
    return tune_bar(layout, params, harness, rule)


def today_rule(layout: StreamLayout, params: StreamParams, harness: Harness) -> Policy:
    """Today's rule: the crew, where there is one, for the gravest code, the round for the rest."""
    is_grave = (layout.shape.kinds[:, 1] == N_LEVELS - 1).astype(np.float64)
    grave = float(kind_shares(layout.shape, params) @ is_grave)
    n_strong = len(layout.strong_shares(grave))
    # An office without a crew has one bar: the round's.
    wanted = (1.0, grave, *[0.0] * n_strong)[: 1 + n_strong]
    return make_rule(layout, params, harness, is_grave, wanted)


def ranked_rule(
    layout: StreamLayout, target: Callable[[StreamParams], np.ndarray]
) -> Callable[[StreamParams, Harness], Policy]:
    """Maker of a rule that serves as many as there are visits, the highest target first."""

    def make(params: StreamParams, harness: Harness) -> Policy:
        shares = capacity_shares(params)
        wanted = (shares.anybody, *layout.strong_shares(shares.crew))
        return make_rule(layout, params, harness, target(params), wanted)

    return make


def stream_rules(layout: StreamLayout) -> dict[str, Maker]:
    """Makers of the rules that every stream domain has."""
    levels, histories = layout.shape.kinds[:, 1], layout.shape.kinds[:, 2]

    def uniform(params: StreamParams, harness: Harness) -> Policy:
        shares = capacity_shares(params)
        wanted = (1.0, shares.anybody, *layout.strong_shares(shares.crew), 0.0)
        chances = np.zeros(harness.n_actions)
        chances[: len(wanted) - 1] = -np.diff(wanted)
        return heuristics.at_random(chances)

    return {
        "balanced": partial(today_rule, layout),
        "never": lambda params, harness: heuristics.always(0),
        "no_dispatch": lambda params, harness: heuristics.always(0),
        "always": lambda params, harness: heuristics.always(1),
        "random": lambda params, harness: heuristics.at_random(np.ones(harness.n_actions)),
        "uniform": uniform,
        "emerg": ranked_rule(layout, lambda params: levels + 0.1 * histories),
        "tail": ranked_rule(layout, lambda params: histories + 0.1 * levels),
        "actionable": ranked_rule(
            layout, lambda params: np.asarray(params.kinds, np.float64)[:, 0]
        ),
        "score": partial(score_rule, layout),
        "dual_threshold": partial(score_rule, layout, price_gain=heuristics.PRICE_GAIN),
        "index": partial(index_rule, layout),
    }


def stream_baselines(expert: str, grave: str, recurrent: str) -> dict[str, Baseline]:
    """The paper's baselines in a domain that decides complaint by complaint.

    ``expert`` says what its expert does, ``grave`` what the gravest code gets today, ``recurrent``
    whom TAIL takes for the longest unserved.
    """
    said = {
        "balanced": f"{grave}, the usual visit for everything else",
        "tail": f"{recurrent} first, as many as there are visits",
        "emerg": "the gravest code first, as many as there are visits",
        "actionable": "the likeliest violation first, as many as there are visits",
        "uniform": "as many visits as there are, whoever complains: drawn by lot",
        "no_dispatch": "nobody goes: the mildest action, the same as Always Defer",
        "random": "every action with the same chance, whatever it costs",
        "always": "the usual visit for every complaint",
        "never": "the mildest action for every complaint",
        "expert": expert,
    }
    return {name: Baseline(name, words) for name, words in said.items()}


CANDIDATE_SHARES = (0.5, 0.75, 1.0, 1.25, 1.75, 2.5)
CANDIDATE_CREW = (0.5, 1.0, 2.0)
CANDIDATE_SLOPES = (0.0, 0.5, 1.0, 2.0)


def stream_candidates(
    layout: StreamLayout, params: StreamParams, harness: Harness
) -> list[StreamRule]:
    """Rules among which a search looks for the best known.

    Bars at several multiples of what the office can do, raised by the queue by several multiples
    of what waiting behind it loses.
    """
    shares, loss = capacity_shares(params), queue_loss(params)
    target = log_values(layout, params)
    return [
        make_rule(
            layout,
            params,
            harness,
            target,
            (
                min(wide * shares.anybody, 1.0),
                *layout.strong_shares(min(crew * shares.crew, 1.0)),
            ),
            queue_slope=slope * loss,
        )
        for wide in CANDIDATE_SHARES
        for crew in CANDIDATE_CREW
        for slope in CANDIDATE_SLOPES
    ]
