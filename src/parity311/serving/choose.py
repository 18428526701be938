"""Which cases a policy would have visited, in which order: the one place where that is decided.

A domain decides about one case at a time, or about the whole office. Of the first kind every open
case is put to the policy twice: alone, which ranks it by how much a visit is preferred, and again
with the cases ranked before it in line. Of the second kind the policy chooses what the office does
for the next part of the day, again and again until the day's visits are spent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.agents.forward import score_actions_numpy
from parity311.mdp.contract import N_STRATA
from parity311.serving.refusals import NOT_REFUSED, find_refusals

if TYPE_CHECKING:
    from parity311.records.journal import Cases, Journal
    from parity311.serving.served import ServedPolicy


@dataclass(frozen=True)
class Routing:
    """What a policy makes of n open cases, (n,) each, in the order the cases were given."""

    action: np.ndarray
    """position among the policy's actions; of the whole office where it decides about that"""
    is_visit: np.ndarray
    """whether somebody should go, as far as visits reach"""
    place: np.ndarray
    """place in the order to work them, 0 first"""
    margin: np.ndarray
    """value of the action less that of the best of the other kind (visit or not), in the policy's
    own values"""
    agreement: np.ndarray
    """share of the policy's voters that take the same action; NaN without voters"""
    refusal: np.ndarray
    """number of the reason why today's rule decides instead, `refusals.NOT_REFUSED` where none"""
    today_place: np.ndarray
    """place in the order of today's rule"""
    price_effect: np.ndarray
    """1 where the coverage price makes it a visit, -1 where it takes one away, else 0"""
    observation: np.ndarray
    """(n, n_features) what the policy saw; of an office, of its first decision"""


def choose(policy: ServedPolicy, journal: Journal, cases: Cases, n_visits: int) -> Routing:
    """Put these open cases in order, with so many visits to make."""
    by_case = policy.sight.rank is None
    found = order_cases(policy, journal, cases, n_visits, has_votes=True)
    if policy.prices.any():
        unpriced = order_cases(policy, journal, cases, n_visits, np.zeros(N_STRATA))
        # Of an office it shows in who is reached at all.
        goes = [one.is_visit & (by_case | (one.place < n_visits)) for one in (found, unpriced)]
        found = replace(found, price_effect=goes[0].astype(int) - goes[1].astype(int))
    return found


def order_cases(
    policy: ServedPolicy,
    journal: Journal,
    cases: Cases,
    n_visits: int,
    prices: np.ndarray | None = None,
    *,
    has_votes: bool = False,
    beside: Cases | None = None,
) -> Routing:
    """The same without what the coverage prices changed; other prices (6,) may be given.

    Voters are asked only where `has_votes` says so. `beside` are open cases that nobody can visit
    today: an office that decides as a whole has them in its line.
    """
    known = policy.prices if prices is None else prices
    if policy.sight.rank is None:
        return _choose_cases(policy, journal, cases, known, has_votes)
    return _choose_for_office(policy, journal, cases, n_visits, known, has_votes, beside)


def _choose_cases(
    policy: ServedPolicy,
    journal: Journal,
    cases: Cases,
    prices: np.ndarray,
    has_votes: bool,
) -> Routing:
    worth, alone = worth_alone(policy, journal, cases, prices)
    order = _by_worth(policy, cases, worth)
    ahead = np.empty(cases.n)
    wanted = worth[order] > 0
    ahead[order] = np.cumsum(wanted) - wanted
    found = _decide_behind(policy, journal, cases, prices, alone, worth, ahead)
    return _ask_voters(policy, found) if has_votes else found


def choose_one(
    policy: ServedPolicy,
    journal: Journal,
    case: Cases,
    wanted: np.ndarray,
    wanted_unpriced: np.ndarray,
) -> Routing:
    """What becomes of one new case beside visits already wanted, whose worths (n,) are rising.

    The second ones are those wanted without coverage prices, against which their effect is told.
    """
    # Both with the coverage prices and without, as two cases side by side.
    lines = [wanted, wanted_unpriced][: 1 + int(policy.prices.any())]
    prices = np.stack([policy.prices, np.zeros(N_STRATA)][: len(lines)])
    copies = case.take(np.zeros(len(lines), np.int64))
    worth, alone = worth_alone(policy, journal, copies, prices)
    ahead = np.array(
        [len(line) - np.searchsorted(line, one) for line, one in zip(lines, worth, strict=True)],
        np.float64,
    )
    both = _decide_behind(policy, journal, copies, prices, alone, worth, ahead)
    effect = both.is_visit[:1].astype(int) - both.is_visit[-1:].astype(int)
    first = Routing(**{name: values[:1] for name, values in vars(both).items()})
    place = ahead[:1].astype(np.int64)
    return _ask_voters(policy, replace(first, place=place, price_effect=effect))


@dataclass(frozen=True)
class OfficeRouting:
    """What an office does now, with its open cases in line."""

    view: Any
    observation: np.ndarray
    """(1, n_features) what the policy saw"""
    action: int
    margin: float
    agreement: np.ndarray
    """(1,) as in `Routing`"""
    refusal: np.ndarray
    """(1,) as in `Routing`"""


def choose_for_now(policy: ServedPolicy, journal: Journal, cases: Cases) -> OfficeRouting:
    """What the office does about these open cases for the next part of the day."""
    view, raw = policy.observe(journal, cases, np.zeros(cases.n))
    seen, values, taken, refusal = _decide(policy, journal, raw[None], np.zeros(1))
    action = int(taken[0])
    return OfficeRouting(
        view=view,
        observation=seen,
        action=action,
        margin=_lead(values[0], action),
        agreement=_agreement(policy, seen, taken, np.array([False])),
        refusal=refusal,
    )


def _decide(
    policy: ServedPolicy, journal: Journal, raw: np.ndarray, ahead: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Decide by observations (n, n_features), or let today's rule where the policy should not.

    Returns what was seen with what is not known taken as typical, the policy's values, the actions
    (n,) and why a policy was refused (n,).
    """
    seen = _known(policy, raw)
    values = policy.values(seen)
    action = values.argmax(axis=-1)
    refusal = find_refusals(policy, journal, raw, ahead, action)
    is_refused = refusal != NOT_REFUSED
    if is_refused.any():
        rule = score_actions_numpy(policy.package.rule, seen).argmax(axis=-1)
        action = np.where(is_refused, rule, action)
    return seen, values, action, refusal


def choose_beside(
    policy: ServedPolicy, journal: Journal, cases: Cases, case: Cases, office: OfficeRouting
) -> Routing:
    """What becomes of one new case where the office decides: by what it does now.

    The case stands in the line of the others; it is visited if it comes up among the day's visits.
    """
    sight, params = policy.sight, policy.package.params
    assert sight.rank is not None
    everybody = cases.join(case)
    priority = sight.rank(params, office.view, office.action, policy.prices, journal, everybody)
    place = int((priority[:-1] >= priority[-1]).sum())
    is_visit = bool(np.isfinite(priority[-1]))
    return Routing(
        action=np.array([office.action]),
        is_visit=np.array([is_visit]),
        place=np.array([place]),
        margin=np.array([office.margin]),
        agreement=office.agreement,
        refusal=office.refusal,
        today_place=np.zeros(1, np.int64),
        price_effect=np.zeros(1, int),
        observation=office.observation,
    )


def _decide_behind(
    policy: ServedPolicy,
    journal: Journal,
    cases: Cases,
    prices: np.ndarray,
    alone: np.ndarray,
    worth: np.ndarray,
    ahead: np.ndarray,
) -> Routing:
    """Decide about cases with so many ahead of each; `alone` is what was seen with nobody ahead.

    Voters are not asked yet. Prices are (6,), or (n, 6) where they differ by case.
    """
    _, raw = policy.observe(journal, cases, ahead, prices)
    seen, values, action, refusal = _decide(policy, journal, raw, ahead)
    is_refused = refusal != NOT_REFUSED
    today = today_order(policy, cases, alone)
    is_visit = policy.escalates[action]
    ranked = _places(_by_worth(policy, cases, worth))
    place = _places(np.lexsort((ranked, ~is_visit)))
    if is_refused.any():
        # A case that today's rule decides stands where that rule has it.
        key = np.where(is_refused, _places(today) - 0.5, place)
        place = _places(np.lexsort((key, ~is_visit)))
    margin = visit_margin(policy, values)
    return Routing(
        action=action,
        is_visit=is_visit,
        place=place,
        margin=np.where(is_refused, np.nan, np.where(is_visit, margin, -margin)),
        agreement=np.full(cases.n, np.nan),
        refusal=refusal,
        today_place=_places(today),
        price_effect=np.zeros(cases.n, int),
        observation=seen,
    )


def _choose_for_office(
    policy: ServedPolicy,
    journal: Journal,
    cases: Cases,
    n_visits: int,
    prices: np.ndarray,
    has_votes: bool,
    beside: Cases | None,
) -> Routing:
    sight, params = policy.sight, policy.package.params
    assert sight.rank is not None
    n = cases.n

    def look(chosen: Cases) -> tuple[Any, np.ndarray]:
        everybody = chosen if beside is None else chosen.join(beside)
        return policy.observe(journal, everybody, np.zeros(everybody.n), prices)

    action, margin = np.zeros(n, np.int64), np.full(n, np.nan)
    agreement = np.full(n, np.nan)
    refusal = np.full(n, NOT_REFUSED)
    is_visit = np.zeros(n, bool)
    left, order, first = np.arange(n), [], None
    taken, due = 0, 0.0
    shares = np.asarray(sight.day_shares)
    seen = np.zeros((0, len(policy.observation_names)), np.float32)
    for share in shares / shares.sum():
        chosen = cases.take(left)
        view, raw = look(chosen)
        shown, scores, taken_now, refused = _decide(policy, journal, raw[None], np.zeros(1))
        seen, values, here, why = shown[0], scores[0], int(taken_now[0]), int(refused[0])
        first = seen if first is None else first
        action[left], margin[left], refusal[left] = here, _lead(values, here), why
        if has_votes:
            voted = _agreement(policy, seen[None], np.array([here]), np.array([False]))
            agreement[left] = voted[0]
        due += share * n_visits * (sight.effort(here) if sight.effort else 1.0)
        n_now = min(round(due), n_visits) - taken
        priority = sight.rank(params, view, here, prices, journal, chosen)
        picked = np.argsort(-priority, kind="stable")[: max(n_now, 0)]
        picked = picked[np.isfinite(priority[picked])]
        taken += len(picked)
        order.append(left[picked])
        is_visit[left[picked]] = True
        left = np.delete(left, picked)
        if not len(left):
            break
    # Who is not reached waits, in the order of the last decision and then of today's rule.
    today = today_order(policy, cases)
    if len(left):
        chosen = cases.take(left)
        view, _ = look(chosen)
        priority = sight.rank(params, view, int(action[left[0]]), prices, journal, chosen)
        order.append(left[np.lexsort((_places(today)[left], -priority))])
    place = _places(np.concatenate(order)) if order else np.zeros(0, np.int64)
    return Routing(
        action=action,
        is_visit=is_visit,
        place=place,
        margin=margin,
        agreement=agreement,
        refusal=refusal,
        today_place=_places(today),
        price_effect=np.zeros(n, int),
        observation=np.repeat((seen if first is None else first)[None], n, axis=0),
    )


def _known(policy: ServedPolicy, seen: np.ndarray) -> np.ndarray:
    """Observations with what is not known taken as typical, so that today's rule can decide."""
    is_known = np.isfinite(seen)
    if is_known.all():
        return seen
    typical = policy.package.seen.get("typical", np.zeros(seen.shape[-1]))
    return np.where(is_known, seen, typical).astype(np.float32)


def worth_alone(
    policy: ServedPolicy, journal: Journal, cases: Cases, prices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a visit to each case is worth with nobody ahead, (n,), and what is seen then."""
    alone = _known(policy, policy.observe(journal, cases, np.zeros(cases.n), prices)[1])
    margin = visit_margin(policy, policy.values(alone))
    return worth_now(policy, journal, cases, margin), alone


def visit_margin(policy: ServedPolicy, values: np.ndarray) -> np.ndarray:
    """How much the best visit is preferred to the best action without one, (n,)."""
    goes = np.where(policy.escalates, values, -np.inf).max(axis=-1)
    stays = np.where(policy.escalates, -np.inf, values).max(axis=-1)
    margin = goes - stays
    # Without an action of one kind there is nothing to prefer.
    return np.where(np.isfinite(margin), margin, values.max(axis=-1))


def _by_worth(policy: ServedPolicy, cases: Cases, worth: np.ndarray) -> np.ndarray:
    """Positions in the order of worth, then of code and arrival; today's rule has its own order."""
    if policy.is_todays_rule:
        return np.lexsort((cases.began, cases.code))
    return np.lexsort((cases.began, cases.code, -worth))


def worth_now(
    policy: ServedPolicy, journal: Journal, cases: Cases, margin: np.ndarray
) -> np.ndarray:
    """What a visit is preferred by, less where the incident may have ended since it was heard."""
    lasts = policy.sight.lasts
    if lasts is None:
        return margin
    return np.where(margin > 0, margin * lasts(policy.package.params, journal, cases), margin)


def _lead(values: np.ndarray, action: int) -> float:
    """Value of an action less that of the best other."""
    others = np.delete(values, action)
    return float(values[action] - others.max()) if len(others) else 0.0


def today_order(policy: ServedPolicy, cases: Cases, seen: np.ndarray | None = None) -> np.ndarray:
    """Cases as today's rule works them: what it ranks first, the graver code, the oldest."""
    rule = policy.package.rule
    worth = np.zeros(cases.n)
    if rule and seen is not None:
        worth = np.round(visit_margin(policy, score_actions_numpy(rule, seen)), 5)
    return np.lexsort((cases.began, -worth, cases.code))


def _ask_voters(policy: ServedPolicy, choice: Routing) -> Routing:
    """The choice with the share of the voters that agree."""
    is_refused = choice.refusal != NOT_REFUSED
    found = _agreement(policy, choice.observation, choice.action, is_refused)
    return replace(choice, agreement=found)


def _agreement(
    policy: ServedPolicy, seen: np.ndarray, action: np.ndarray, is_refused: np.ndarray
) -> np.ndarray:
    voters = policy.package.voters
    if not voters:
        return np.full(len(action), np.nan)
    votes = [score_actions_numpy(voter, seen).argmax(axis=-1) == action for voter in voters]
    return np.where(is_refused, np.nan, np.mean(votes, axis=0))


def _places(order: np.ndarray) -> np.ndarray:
    """Place of each in an order of positions, (n,)."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
