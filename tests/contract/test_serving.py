"""What serving decides about cases on record, the simulator's own functions decide too.

The view that serving has of a case is put into the domain's state; what the harness shows of it,
and what the policy decides in JAX, have to be what was served in NumPy.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.conftest import slow_but
from tests.served import PRICES, make_package, random_network

from parity311.agents.package import read_package, write_package
from parity311.domains import all_domains, get_domain
from parity311.domains.drone import decision as drone
from parity311.domains.drone.sight import borough_of
from parity311.domains.elevator import modes as elevator
from parity311.domains.elevator.observation import look_at as look_at_boards
from parity311.domains.elevator.params import place_of as board_of
from parity311.domains.ert import SHAPE as ERT_SHAPE
from parity311.domains.ert import choose_visits as choose_ert_visits
from parity311.domains.heat import office as heat_office
from parity311.domains.heat.decision import START_DAY
from parity311.domains.housing.decision import choose_visits as choose_housing_visits
from parity311.domains.housing.observation import look_at as look_at_categories
from parity311.domains.housing.sight import category_of
from parity311.domains.housing.state import SHAPE as HOUSING_SHAPE
from parity311.engines.backlog.process import take_in_order
from parity311.engines.heuristics import Threshold
from parity311.estimation.backlog_view import cells_of
from parity311.mdp.contract import N_STRATA
from parity311.mdp.equity import initial_equity
from parity311.mdp.harness import Harness, Running
from parity311.records.journal import Cases, Journal
from parity311.records.journal_reader import read_journal
from parity311.records.store import Records, open_records
from parity311.serving.choose import Routing, choose, order_cases
from parity311.serving.policy import LoadedPolicy
from parity311.serving.recommend import open_cases
from parity311.serving.refusals import NOT_REFUSED

SLUGS = [slug for slug, domain in all_domains().items() if domain.sight is not None]
OFFICES = [slug for slug in SLUGS if get_domain(slug).sight.rank is not None]  # type: ignore[union-attr]
WEEK = [datetime(2024, 4, 8, 9) + timedelta(days=day) for day in range(7)]
CAPACITY = 40
QUICK = ("snad", "ert")


@cache
def harness_of(slug: str) -> Harness:
    """Every action there is, so that priced ones are served too."""
    return Harness(get_domain(slug), action_set="extended")


@cache
def example_of(slug: str) -> Any:
    return get_domain(slug).play.example()


@cache
def morning(folder: Path, slug: str, moment: datetime) -> Journal:
    """A journal, read once."""
    return read_journal(open_records(folder), slug, moment)


def as_state(start: Any, view: Any, n: int | None) -> Any:
    """A view as a state in JAX; what a policy does not see is that of an episode's start."""
    if hasattr(start, "_fields"):
        seen = lambda name: None if view is None else getattr(view, name)  # noqa: E731
        return type(start)(*(as_state(getattr(start, f), seen(f), n) for f in start._fields))
    shape = start.shape if n is None else (n, *start.shape)
    if view is None:
        return jnp.broadcast_to(start, shape)
    assert np.shape(view) == shape
    return jnp.asarray(view, start.dtype)


def fill_office(view: Any, stratum: jax.Array, code: jax.Array) -> Any:
    """Heat offices, each with one complaint to classify and so many incidents in line."""
    whole = jnp.clip(jnp.asarray(view.queued, jnp.float32), 0, heat_office.N_ROWS - 1)
    row = jnp.arange(heat_office.N_ROWS)

    def fill(queued, beyond, kind, n_reports, day, stratum, code):
        office = heat_office.empty_office()
        status = jnp.where((row > 0) & (row <= queued), heat_office.QUEUED, heat_office.FREE)
        first = lambda value, other: jnp.where(row == 0, value, other)  # noqa: E731
        return office._replace(
            status=first(heat_office.INTAKE, status),
            kind=first(kind, office.kind),
            n_reports=first(n_reports, office.n_reports),
            stratum=first(stratum, office.stratum),
            urgency=first(code, office.urgency),
            # The part of an incident that a share of the city's line leaves.
            n_extra=first(beyond, 0.0),
            now=jnp.float32(day - START_DAY),
        )

    return jax.vmap(fill)(
        jnp.floor(whole), jnp.asarray(view.queued, jnp.float32) - jnp.floor(whole),
        jnp.asarray(view.kind, jnp.int32), jnp.asarray(view.n_reports, jnp.int32),
        jnp.asarray(view.day_of_year, jnp.float32), stratum, code,
    )  # fmt: skip


def states_of(
    slug: str, params: Any, view: Any, stratum: jax.Array, code: jax.Array
) -> tuple[Any, Any]:
    """The simulator's params and states, (n,) or one of the whole office, behind a view."""
    start, n = harness_of(slug).domain.play.initial_state(jax.random.key(0), params), len(code)
    if slug == "boiler":
        rows = params._replace(features=jnp.asarray(view, jnp.float32), stratum=stratum)
        return rows, type(start)(jnp.arange(n))
    if slug == "heat":
        full = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *x.shape)), start)
        office = fill_office(view, stratum, code)
        return params, full._replace(office=office, warmth=jnp.asarray(view.warmth, jnp.float32))
    if slug == "elevator":
        backlog = as_state(start.backlog, view, None)
        return params, start._replace(backlog=backlog, seen=look_at_boards(params, backlog))
    if slug == "housing":
        backlog = as_state(start.backlog, view.backlog, None)
        trail = as_state(start.trail, view.trail, None)
        seen = look_at_categories(params, backlog, trail)
        return params, start._replace(backlog=backlog, trail=trail, seen=seen)
    return params, as_state(start, view, None if slug in OFFICES else n)


def apply_network(weights: Any, observation: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(observation @ weights["weight_0"] + weights["bias_0"])
    return jnp.argmax(hidden @ weights["weight_1"] + weights["bias_1"])


@partial(jax.jit, static_argnums=0)
def look_behind(
    slug: str, given: Any, equity: Any, view: Any, stratum: jax.Array, code: jax.Array
) -> tuple[Any, jax.Array]:
    """States behind a view, and what the harness shows of them with the prices posted."""
    params, states = states_of(slug, given, view, stratum, code)
    posted = initial_equity(equity, jnp.asarray(PRICES, jnp.float32))
    look = lambda state: harness_of(slug).observe(  # noqa: E731
        params, equity, Running(state, posted, jnp.int32(0))
    )
    return states, look(states) if slug in OFFICES else jax.vmap(look)(states)


class Simulated:
    """A policy in the simulator: the same weights, or the same rule, in JAX."""

    def __init__(self, slug: str, policy: str | dict[str, np.ndarray]) -> None:
        self.slug, self.harness = slug, harness_of(slug)
        self.params = example_of(slug)
        self.equity = self.harness.equity_params(self.params)
        self.rule = None
        if isinstance(policy, str):
            self.rule = self.harness.domain.heuristics[policy](self.params, self.harness)
            self.decide = partial(self.rule, jax.random.key(3))
        else:
            weights = {name: jnp.asarray(values) for name, values in policy.items()}
            self.decide = partial(apply_network, weights)
        self.decide_all = jax.jit(jax.vmap(self.decide))

    def look(self, view: Any, cases: Cases) -> tuple[Any, np.ndarray]:
        """States behind a view, and what the harness shows of them with the prices posted."""
        # The line of an office is in its view; its length would only be another shape.
        own = cases if self.slug not in OFFICES else cases.take(np.zeros(0, int))
        stratum, code = (jnp.asarray(x, jnp.int32) for x in (own.stratum, own.code))
        states, seen = look_behind(self.slug, self.params, self.equity, view, stratum, code)
        return states, np.asarray(seen)

    def act(self, seen: np.ndarray) -> np.ndarray:
        """Actions for observations (n, n_features)."""
        return np.asarray(self.decide_all(jnp.asarray(seen)))

    def at_bar(self, seen: np.ndarray) -> np.ndarray:
        """Observations that a rule leaves to chance."""
        if not isinstance(self.rule, Threshold):
            return np.zeros(len(seen), bool)
        margin = np.asarray(jax.vmap(self.rule.margin)(jnp.asarray(seen)))
        return np.abs(margin - float(self.rule.threshold)) < 1e-5


def load(folder: Path, slug: str, policy: str | dict[str, np.ndarray]) -> LoadedPolicy:
    """The policy as a package that was written and read."""
    package = make_package(harness_of(slug), policy, prices=PRICES)
    return LoadedPolicy(read_package(write_package(folder, package)))


def with_sight(policy: LoadedPolicy, **changed: Any) -> LoadedPolicy:
    """The same policy, its domain's cases seen otherwise."""
    other = LoadedPolicy(policy.package)
    other.__dict__["sight"] = replace(policy.sight, **changed)
    return other


def serve(policy: LoadedPolicy, journal: Journal, cases: Cases) -> tuple[Routing, list[Any]]:
    """What is chosen, and (cases, ahead) of every look that was taken at the line."""
    looks: list[Any] = []

    def see(params: Any, journal: Journal, cases: Cases, ahead: np.ndarray) -> Any:
        looks.append((cases, ahead))
        return policy.sight.see(params, journal, cases, ahead)

    watched = with_sight(policy, see=see)
    return order_cases(watched, journal, cases, CAPACITY), looks


def compare_cases(
    policy: LoadedPolicy, simulated: Simulated, journal: Journal, cases: Cases
) -> dict[str, int]:
    """Observations and decisions about single cases that differ between the two."""
    choice, looks = serve(policy, journal, cases)
    _, ahead = looks[-1]
    sight = get_domain(policy.domain.slug).sight
    assert sight is not None
    # Shapes that are the same from day to day are compiled once.
    rows = np.arange(1 << (cases.n - 1).bit_length()) % cases.n
    padded = cases.take(rows)
    view = sight.see(policy.package.params, journal, padded, ahead[rows])
    seen = simulated.look(view, padded)[1]
    # What is refused is today's rule's to decide.
    is_own = (choice.refusal == NOT_REFUSED) & ~simulated.at_bar(seen)[: cases.n]
    is_other = is_own & (choice.action != simulated.act(seen)[: cases.n])
    shown = np.abs(choice.observation - seen[: cases.n]).max(axis=1) > 1e-5
    return {
        "n": int(is_own.sum()),
        "decisions": int(is_other.sum()),
        "observations": int(shown.sum()),
    }


def visited_cells(
    slug: str, params: Any, state: Any, action: int, n_visits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cases the simulator visits by place and cell (P, C), and which cells are alike to it."""
    name = harness_of(slug).domain.actions_of("extended")[action].name
    n_now = 0 if name in NOBODY_GOES else n_visits
    taken, score = visit(slug, params, state, jnp.int32(action), jnp.float32(n_now))
    if slug == "elevator":
        # The way there is left to the crews: cells that are worth the same are alike.
        alike = np.unique(np.round(score, 5), return_inverse=True)[1]
        return np.asarray(taken), alike.reshape(taken.shape)
    place, cell = np.indices(taken.shape)
    is_priced = slug == "housing" or name in PRICED
    stratum = place % N_STRATA if is_priced else np.zeros_like(place)
    return np.asarray(taken), stratum * 1000 + cell


NOBODY_GOES = ("NO_DISPATCH", "NO_FLIGHT", "no_crews")
PRICED = ("COVERAGE_PRICED", "CANVASS", "coverage_priced", "canvass")


@partial(jax.jit, static_argnums=0)
def visit(
    slug: str, params: Any, state: Any, action: jax.Array, n_visits: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Cases visited by place and cell, and where it matters the score of each."""
    waiting, prices = state.backlog.waiting, jnp.asarray(PRICES, jnp.float32)
    if slug == "elevator":
        worth, factor = elevator.judge_visits(params, state.backlog.n_steps, action, prices)
        score = factor[:, None] * worth[None, :]
        # As `take_in_order`, which compares every cell with every other, for 3,776 of them.
        order = jnp.argsort(-score.reshape(-1))
        line = waiting.reshape(-1)[order]
        taken = (
            jnp.zeros_like(line)
            .at[order]
            .set(jnp.clip(n_visits - (jnp.cumsum(line) - line), 0.0, line))
        )
        return taken.reshape(waiting.shape), score
    if slug == "drone":
        depot = drone.choose_depot(params, state, action, prices)
        here = (jnp.arange(drone.N_DEPOTS) == depot).astype(jnp.float32)
        order = jnp.asarray(drone.SHAPE.code_then_age)
        taken = here[:, None] * take_in_order(here @ waiting, order, n_visits)
    elif slug == "housing":
        taken = choose_housing_visits(params, state.backlog, action, prices, n_visits)
    else:
        taken = choose_ert_visits(params, state, action, prices, n_visits)
    return taken, waiting


PLACE_OF = {
    "elevator": board_of,
    "drone": borough_of,
    "housing": lambda cases: category_of(cases) * N_STRATA + cases.stratum,
    "ert": lambda cases: cases.stratum,
}
SHAPE_OF = {
    "elevator": elevator.SHAPE,
    "drone": drone.SHAPE,
    "housing": HOUSING_SHAPE,
    "ert": ERT_SHAPE,
}


def compare_office(
    policy: LoadedPolicy, simulated: Simulated, journal: Journal, cases: Cases
) -> dict[str, int]:
    """Parts of a day in which the office sees, does or visits otherwise."""
    slug = policy.domain.slug
    sight = get_domain(slug).sight
    assert sight is not None
    choice, looks = serve(policy, journal, cases)
    found = {"n": 0, "decisions": 0, "observations": 0, "visits": 0}
    number = {name: row for row, name in enumerate(cases.complaint_id)}
    rows = [np.array([number[name] for name in look.complaint_id], int) for look, _ in looks]
    for part, left in enumerate(rows):
        after = rows[part + 1] if part + 1 < len(rows) else left
        picked = np.setdiff1d(left, after)
        line = cases.take(left)
        view = sight.see(policy.package.params, journal, line, np.zeros(len(left)))
        state, seen = simulated.look(view, line)
        action = int(simulated.act(seen[None])[0])
        found["n"] += 1
        if part == 0:
            found["observations"] += int(np.abs(choice.observation[0] - seen).max() > 1e-5)
        found["decisions"] += int((choice.action[picked] != action).any())
        taken, alike = visited_cells(slug, simulated.params, state, action, len(picked))
        chosen = cases.take(picked)
        cell = alike[PLACE_OF[slug](chosen), cells_of(SHAPE_OF[slug], journal, chosen)]
        size = int(alike.max()) + 1
        counts = np.bincount(cell, minlength=size)
        expected = np.bincount(alike.reshape(-1), taken.reshape(-1), size)
        found["visits"] += int(np.abs(counts - expected).max() > 1e-3)
    return found


def differences(
    policy: LoadedPolicy, simulated: Simulated, records: Records, moments: list[datetime] = WEEK
) -> dict[str, int]:
    """What differs between serving and simulator over a week of mornings."""
    slug = policy.domain.slug
    compare = compare_office if slug in OFFICES else compare_cases
    total: dict[str, int] = {}
    for moment in moments:
        journal = morning(records.folder, slug, moment)
        cases = open_cases(policy, journal)
        if cases.n:
            for name, n in compare(policy, simulated, journal, cases).items():
                total[name] = total.get(name, 0) + n
    return total


def test_all_domains_are_served() -> None:
    assert len(SLUGS) == 12
    assert sorted(OFFICES) == ["drone", "elevator", "ert", "housing"]


@pytest.mark.parametrize("slug", slow_but(QUICK, SLUGS))
def test_a_week_is_served_as_the_simulator_decides(
    slug: str, served_records: Records, tmp_path: Path
) -> None:
    rules = [name for name in ("balanced", "index", "score") if name in get_domain(slug).heuristics]
    networks = [random_network(harness_of(slug), seed) for seed in range(2)]
    actions = set()
    for number, kind in enumerate([*rules, *networks]):
        policy = load(tmp_path / str(number), slug, kind)
        found = differences(policy, Simulated(slug, kind), served_records)
        n = found.pop("n")
        assert n >= 7
        assert not any(found.values()), (kind if isinstance(kind, str) else "network", found, n)
        journal = morning(served_records.folder, slug, WEEK[0])
        cases = open_cases(policy, journal)
        actions |= set(choose(policy, journal, cases, CAPACITY).action.tolist())
    assert len(actions) > 1


def shift(slug: str, view: Any) -> Any:
    """A view with one thing in it wrong: a season, a place in line, a category, an age."""
    if slug == "boiler":
        return np.roll(view, 1, axis=1)
    if slug == "heat":
        return view._replace(month=(view.month + 1) % 12)
    if slug == "scaffold":
        return view._replace(n_open=view.n_open + 1)
    if slug in OFFICES:
        backlog = view if slug == "elevator" else view.backlog
        older = backlog._replace(waiting=np.roll(backlog.waiting, 1, axis=1))
        return older if slug == "elevator" else view._replace(backlog=older)
    return view._replace(season=(view.season + 1) % 4)


def turn(priority: np.ndarray) -> np.ndarray:
    """The last first, of those that are worked at all."""
    return np.where(np.isfinite(priority), -priority, priority)


@pytest.mark.parametrize("slug", slow_but(QUICK, SLUGS))
def test_one_feature_shifted_is_found(slug: str, served_records: Records, tmp_path: Path) -> None:
    """The broken twins of the test above: features out of order, or one of them off."""
    weights = random_network(harness_of(slug))
    policy, simulated = load(tmp_path / "policy", slug, weights), Simulated(slug, weights)
    right = policy.sight
    rolled = with_sight(policy, show=lambda params, view: np.roll(right.show(params, view), 1, -1))
    off = with_sight(policy, see=lambda *given: shift(slug, right.see(*given)))
    for broken in (rolled, off):
        found = differences(broken, simulated, served_records, WEEK[:2])
        assert found["observations"] > 0
    if slug in OFFICES:
        assert right.rank is not None
        behind = with_sight(policy, rank=lambda *given: turn(right.rank(*given)))  # type: ignore[misc]
        assert differences(behind, simulated, served_records, WEEK[:2])["visits"] > 0
    # Nothing of this is found where nothing is shifted.
    whole = differences(with_sight(policy), simulated, served_records, WEEK[:2])
    assert (whole["observations"], whole["decisions"]) == (0, 0)
