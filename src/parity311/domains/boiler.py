"""Boiler safety: which annual filings get an inspector.

What is decided: for each filing, inspect or defer. Who waits: the residents behind a defective
boiler. Who is affected: old multifamily housing above all. Source: DOB NOW Safety Boiler filings,
2017-2026. Not for: replacing the mandatory inspection, or judging an owner. The rows are mandatory
filings, not complaints: the need behind them is a defective boiler-year, filed or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity311.city.process import Delay, FilingProcess
from parity311.city.profiles import DOB_WEEKDAY_SLOTS, by_year
from parity311.mdp import heuristics, rules, scores
from parity311.mdp.contract import (
    N_STRATA,
    Action,
    Domain,
    Dynamics,
    Policy,
    Protocol,
    SeenComplaints,
    Tally,
    Transition,
)
from parity311.mdp.filing_records import (
    choose_split,
    count_visits,
    read_filings,
    true_chances,
    true_filed_share,
)
from parity311.mdp.harness import Harness
from parity311.records.store import Records, open_records

_DEFECT_AFTER_YEARS = {
    1: 0.457, 2: 0.215, 3: 0.140, 4: 0.119, 5: 0.103, 7: 0.078, 10: 0.068, 15: 0.060, 20: 0.056,
}  # fmt: skip

PROCESS = FilingProcess(
    slug="boiler",
    agency="DOB",
    first_year=2017,
    filings=by_year(2017, 88_798, 85_329, *[92_990] * 8),
    defect_after_years=_DEFECT_AFTER_YEARS,
    defect_share=0.08,
    memory_years=20,
    neglect_sd=0.35,
    tract_sd=0.25,
    age_slope=0.10,
    filed_neglect_slope=-0.5,
    filed_english_slope=-0.2,
    month_shares=(0.03, 0.03, 0.04, 0.04, 0.05, 0.06, 0.07, 0.08, 0.10, 0.14, 0.16, 0.20),
    high_pressure_share=0.04,
    high_pressure_log_odds=0.4,
    internal_share=0.35,
    internal_log_odds=0.5,
    late_45_share=0.06,
    late_45_log_odds=1.5,
    late_180_share=0.02,
    late_180_log_odds=2.5,
    late_neglect_slope=0.6,
    repair_days=240.0,
    visits_per_filing=0.30,
    scarce_visits_per_filing=0.10,
    expiry_days=60.0,
    no_access=0.05,
    weekday_slots=DOB_WEEKDAY_SLOTS,
    closing=Delay(5.0, 0.8),
    sources={
        "first_year": "DOB NOW Safety holds filings from 2017",
        "filings": "2017 and 2018 cyrusblankinship; later years equal, so that 834,338 are filed "
        "by March 2026 (the paper)",
        "defect_after_years": "bendnorman, BIS and DOB NOW; 20 years assumed",
        "defect_share": "8 % (the paper); 13,704 of 168,161 in 2017 to early 2019",
        "memory_years": "assumed: the table ends at 15 years",
        "neglect_sd": "assumed",
        "tract_sd": "assumed",
        "age_slope": "assumed",
        "filed_neglect_slope": "assumed: who neglects a boiler forgets to file it",
        "filed_english_slope": "assumed",
        "month_shares": "assumed: most file in the last quarter",
        "high_pressure_share": "assumed: few dwellings have one",
        "high_pressure_log_odds": "assumed",
        "internal_share": "assumed: the type is often absent",
        "internal_log_odds": "assumed: who looks inside sees more",
        "late_45_share": "assumed",
        "late_45_log_odds": "assumed: repairs delay the filing",
        "late_180_share": "assumed",
        "late_180_log_odds": "assumed: only a defect has a correction to file",
        "late_neglect_slope": "assumed",
        "repair_days": "assumed",
        "visits_per_filing": "assumed: the paper's agents inspect 32 to 36 % of filings",
        "scarce_visits_per_filing": "assumed: a third of it",
        "expiry_days": "assumed",
        "no_access": "assumed: the owner is bound to open",
        "weekday_slots": "assumed: office hours, a weekend crew",
        "closing": "assumed",
    },
)

CATCH_DOLLARS = 1069.0
WASTE_DOLLARS = 71.0
MISS_DOLLARS = 1845.0
"""Value of a defect caught, cost of a visit for nothing and of a defect missed: with miss = 26 ×
waste the two columns of the paper's table solve to these (the paper gives no dollar values)."""

RISK_LEVELS = 8
RISK_STEP = 0.02
"""Width of a level of neighborhood_risk; the last is open. Fine enough to lose nothing that a
trailing rate of some hundred filings knows, coarse enough to make the ceiling exact."""
COUNT_LEVELS = 4
"""Levels of boiler_count_norm: 1, 2, 3, and 4 or more boilers in the building."""

OBSERVATION_NAMES = (
    "is_recurrent",
    "is_high_pressure",
    "neighborhood_risk",
    "is_internal",
    "has_lff_45",
    "has_lff_180",
    "boiler_count_norm",
)
LEAK_FREE_NAMES = tuple(name for name in OBSERVATION_NAMES if not name.startswith("has_lff"))
"""The late fees are known only after the inspection they are meant to predict."""

MAX_STEPS = 1000
"""Filings in an episode; steps are independent, so the number only sets the noise of a score."""


class Params(NamedTuple):
    """A table of filings to draw from, with what each is worth."""

    features: jax.Array
    """(n, 7) the published features, discretised"""
    stratum: jax.Array
    """(n,) int32"""
    is_defective: jax.Array
    """(n,) float32: the label on record, or the true chance of a defect"""
    chance: jax.Array
    """(n,) float32: chance of a defect given the features; what coverage is counted in, because
    prices that follow some hundred labels a stratum chase their noise"""
    units: jax.Array
    """(n,) dwelling units behind the boiler, over their mean"""
    n_rows: jax.Array
    """() int32 rows in use; the rest pads the table to a power of two"""
    filed_share: jax.Array
    """(6,) share of defective boiler-years that were filed at all"""
    filings_per_day: jax.Array
    catch_dollars: jax.Array
    waste_dollars: jax.Array
    miss_dollars: jax.Array
    visit_price_dollars: jax.Array
    """Shadow price of a visit where visits are scarce: part of what trains, not of the score"""
    capacity_share: jax.Array
    """() visits per filing that the inspectors can make"""


class State(NamedTuple):
    """Row of the filing in hand."""

    row: jax.Array


def initial_state(key: jax.Array, params: Params) -> State:
    """A filing drawn from the table."""
    return State(jax.random.randint(key, (), 0, params.n_rows))


def transition(
    key: jax.Array, params: Params, state: State, action: jax.Array, prices: jax.Array
) -> Transition:
    """Inspect (1) or defer (0) the filing in hand, and draw the next."""
    del prices
    is_visit = (action == 1).astype(jnp.float32)
    is_defective = params.is_defective[state.row]
    stratum = params.stratum[state.row]
    here = (jnp.arange(N_STRATA) == stratum).astype(jnp.float32)
    caught = is_visit * is_defective
    expected = here * is_visit * params.chance[state.row]
    missed = (1.0 - is_visit) * is_defective
    wasted = is_visit * (1.0 - is_defective)
    unit = params.catch_dollars + params.miss_dollars
    speed = (params.catch_dollars * caught - params.miss_dollars * missed) / unit
    waste = params.waste_dollars * wasted / unit
    shadow = params.visit_price_dollars * is_visit / unit
    retention = caught * params.units[state.row]
    none = jnp.zeros(())
    need = here * is_defective / jnp.maximum(params.filed_share, 1e-6)
    tally = Tally(
        published_reward=jnp.stack([speed, -waste, none, retention]),
        correct=here * caught,
        counted=expected,
        actionable=need,
        incidents=need,
        reported_actionable=here * is_defective,
        complaints=here,
        visits=here * is_visit,
        hours=is_visit,
        outcomes=jnp.stack([caught, wasted, missed, 1.0 - caught - wasted - missed]),
    )
    return Transition(
        state=State(jax.random.randint(key, (), 0, params.n_rows)),
        reward=jnp.stack([speed, -waste - shadow, none, retention]),
        terminated=jnp.zeros((), bool),
        credit=expected,
        tally=tally,
    )


def observe(params: Params, state: State) -> jax.Array:
    """The seven published features of the filing in hand."""
    return params.features[state.row]


def current_stratum(params: Params, state: State) -> jax.Array:
    """Stratum of the filing in hand."""
    return params.stratum[state.row]


def need_per_step(params: Params) -> jax.Array:
    """Defective boiler-years per filing, filed or not, by stratum (6,)."""
    in_use = (jnp.arange(params.stratum.shape[0]) < params.n_rows).astype(jnp.float32)
    groups = (params.stratum[:, None] == jnp.arange(N_STRATA)).astype(jnp.float32)
    defects = (params.chance * in_use) @ groups
    return defects / params.n_rows / jnp.maximum(params.filed_share, 1e-6)


def n_waiting(state: State) -> jax.Array:
    """Nobody waits: a filing is dealt with in its own step."""
    return jnp.zeros_like(state.row)


def steps_per_day(params: Params) -> jax.Array:
    """Filings in a day."""
    return params.filings_per_day


def cases(params: Params) -> heuristics.Cases:
    """Every filing of the table: steps are independent, so ceilings can be computed from it."""
    n = int(params.n_rows)
    return heuristics.Cases(
        features=np.asarray(params.features[:n]),
        levels=(2, 2, RISK_LEVELS, 2, 2, 2, COUNT_LEVELS),
        stratum=np.asarray(params.stratum[:n]),
        is_actionable=np.asarray(params.is_defective[:n]),
        capacity_share=float(params.capacity_share),
        reported_share=np.asarray(params.filed_share),
    )


def make_balanced(params: Params, harness: Harness) -> Policy:
    """Today's rule: boilers with an earlier defect first, then first come, first served."""
    margin = heuristics.feature_margin(harness.observation_names.index("is_recurrent"))
    return rules.hold_to_capacity(margin, cases(params), harness)


def make_expert(params: Params, harness: Harness) -> Policy:
    """A boiler inspector's rule of thumb: earlier defects, then high pressure, then the area."""
    order = {"is_recurrent": 4.0, "is_high_pressure": 2.0, "neighborhood_risk": 1.0}
    weights = [order.get(name, 0.0) for name in harness.observation_names]
    return rules.hold_to_capacity(heuristics.linear_margin(weights), cases(params), harness)


def price_of_capacity(chance: np.ndarray, capacity_share: float) -> float:
    """Dollars a visit must cost for the likeliest filings (n,) to be all that is worth one."""
    threshold, _ = heuristics.hold_to_share(chance, capacity_share)
    if not np.isfinite(threshold):
        return 0.0
    gain = threshold * (CATCH_DOLLARS + MISS_DOLLARS) - (1.0 - threshold) * WASTE_DOLLARS
    return max(float(gain), 0.0)


def make_params(
    features: np.ndarray,
    stratum: np.ndarray,
    is_defective: np.ndarray,
    units: np.ndarray,
    filed_share: np.ndarray,
    *,
    filings_per_day: float,
    capacity_share: float,
    miss_dollars: float = MISS_DOLLARS,
) -> Params:
    """Params of a table of filings; the table is padded so that sizes repeat between runs."""
    n = len(stratum)
    size = 1 << max(n - 1, 1).bit_length()
    pad = lambda values: np.concatenate([values, np.zeros((size - n, *values.shape[1:]))])  # noqa: E731
    number = lambda value: jnp.asarray(value, jnp.float32)  # noqa: E731
    params = Params(
        features=number(pad(features)),
        stratum=jnp.asarray(pad(stratum), jnp.int32),
        is_defective=number(pad(is_defective)),
        chance=number(pad(is_defective)),
        units=number(pad(units / max(units.mean(), 1e-9))),
        n_rows=jnp.int32(n),
        filed_share=number(filed_share),
        filings_per_day=number(filings_per_day),
        catch_dollars=number(CATCH_DOLLARS),
        waste_dollars=number(WASTE_DOLLARS),
        miss_dollars=number(miss_dollars),
        visit_price_dollars=number(0.0),
        capacity_share=number(capacity_share),
    )
    table = cases(params)
    chance = chance_by_features(table)
    return params._replace(
        chance=number(pad(chance)),
        visit_price_dollars=number(price_of_capacity(chance, table.capacity_share)),
    )


def chance_by_features(table: heuristics.Cases) -> np.ndarray:
    """Chance of a defect of every filing, as far as the leak-free features tell."""
    columns = DOMAIN.observation_indices(DOMAIN.default_observation_set)
    levels = tuple(table.levels[i] for i in columns)
    chances = scores.cell_chances(table, columns)
    return chances[heuristics.cell_index(levels, table.features[:, columns])]


def example() -> Params:
    """A table by hand: five strata with equal defects, of which 35 to 73 % are filed.

    22 % of filings are defective, the features tell them apart with an AUC of 0.76 (in 32 levels
    of a score spread over risk and boiler count), and there are visits for 30 %.
    """
    rng = np.random.default_rng(311)
    n = 16_000
    filed = np.array([0.354, 0.42, 0.50, 0.60, 0.729])
    stratum = rng.choice(5, size=n, p=filed / filed.sum())
    is_defective = rng.random(n) < 0.22
    # Normal scores one standard deviation apart have an AUC of 0.76.
    score = rng.normal(size=n) + is_defective
    level = np.argsort(np.argsort(score)) * RISK_LEVELS * COUNT_LEVELS // n
    features = (rng.random((n, len(OBSERVATION_NAMES))) < 0.5).astype(np.float64)
    features[:, 2] = level // COUNT_LEVELS / (RISK_LEVELS - 1)
    features[:, 6] = level % COUNT_LEVELS / (COUNT_LEVELS - 1)
    return make_params(
        features,
        stratum,
        is_defective.astype(np.float64),
        np.ones(n),
        np.append(filed, 1.0),
        filings_per_day=200.0,
        capacity_share=0.30,
    )


RISK_PRIOR = 30.0
"""Filings at the city's rate that are added to a tract's trailing ones (assumed)."""


def build_features(rows: Mapping[str, np.ndarray], base_rate: float) -> np.ndarray:
    """The seven published features, discretised, (n, 7)."""
    rate = (rows["tract_defects"] + RISK_PRIOR * base_rate) / (rows["tract_filings"] + RISK_PRIOR)
    risk = np.minimum(rate // RISK_STEP, RISK_LEVELS - 1) / (RISK_LEVELS - 1)
    boilers = np.clip(rows["boilers"], 1, COUNT_LEVELS)
    count = (boilers - 1) / (COUNT_LEVELS - 1)
    columns = {"neighborhood_risk": risk, "boiler_count_norm": count}
    chosen = [columns[name] if name in columns else rows[name] for name in OBSERVATION_NAMES]
    return np.column_stack(chosen).astype(np.float64)


def estimate(
    records: Records,
    calibration: Any,
    date_to: date,
    *,
    split: str = "chronological",
    seed: int = 0,
) -> Params:
    """The filings closed before `date_to`, with the defects on record.

    `split` is chronological (all of them), or the paper's random one (a random 80 %).
    """
    date_from = records.window[0]
    rows = read_filings(records, "boiler", date_from, date_to)
    is_known = ~np.isnat(rows["closed_at"]) & (rows["closed_at"] < np.datetime64(date_to))
    is_known &= choose_split(split, "train", len(is_known), seed)
    capacity = count_visits(records, "boiler", date_from, date_to) / len(is_known)
    defect = np.nan_to_num(rows["defect"].astype(np.float64))[is_known]
    stratum = rows["stratum"].astype(np.int64)[is_known]
    n_windows = (date_to - date_from).days / 28.0
    on_record = np.bincount(stratum, defect, minlength=N_STRATA) / is_known.mean() / n_windows
    share = on_record / np.maximum(calibration.denominators, 1e-9)
    return make_params(
        build_features(rows, float(defect.mean()))[is_known],
        stratum,
        defect,
        rows["units"][is_known],
        np.where(calibration.denominators > 0, np.clip(share, 0.05, 1.0), 1.0),
        filings_per_day=len(is_known) / max((date_to - date_from).days, 1),
        capacity_share=capacity,
    )


def seen_complaints(
    records: Records, params: Params, date_from: date, date_to: date
) -> SeenComplaints:
    """The filings on record as a policy would have seen them."""
    rows = read_filings(records, "boiler", date_from, date_to)
    base_rate = float(np.asarray(params.is_defective[: int(params.n_rows)]).mean())
    return SeenComplaints(
        complaint_id=rows["complaint_id"],
        tract=rows["tract"],
        severity=np.full(len(rows["tract"]), "filing"),
        stratum=rows["stratum"].astype(np.int64),
        features=build_features(rows, base_rate),
    )


def truth(
    city: str | Path,
    date_from: date,
    *,
    split: str = "chronological",
    seed: int = 0,
    knows_fees: bool = False,
) -> Params:
    """The filings from `date_from` on, with their true chance of a defect.

    Scores and the ceiling take the chance each label was drawn with, not the label: the noise of
    13,000 coin tosses is no head-room. With `knows_fees` it is the chance for a policy that sees
    the late fees. With a random split, the other 20 % of all filings instead.
    """
    from parity311.records.truth import open_truth

    records = open_records(city)
    date_to = records.window[1]
    start = date_from if split == "chronological" else records.window[0]
    rows = read_filings(records, "boiler", start, date_to)
    in_part = choose_split(split, "test", len(rows["stratum"]), seed)
    happened = open_truth(city)
    column = "true_defect_chance_given_fees" if knows_fees else "true_defect_chance"
    chance = true_chances(happened.table("filings", "boiler"), column, rows["complaint_id"])
    return make_params(
        build_features(rows, float(chance.mean()))[in_part],
        rows["stratum"].astype(np.int64)[in_part],
        chance[in_part],
        rows["units"][in_part],
        true_filed_share(records, happened.table("incidents", "boiler"), start),
        filings_per_day=len(in_part) / max((date_to - start).days, 1),
        capacity_share=count_visits(records, "boiler", start, date_to) / len(in_part),
    )


DOMAIN = Domain(
    slug="boiler",
    title="Boiler safety",
    version=2,
    decision="For each annual filing: inspect or defer.",
    who_waits="Residents behind a defective boiler.",
    not_for="Replacing the mandatory inspection, or judging an owner.",
    source="DOB NOW Safety Boiler filings, 2017-2026.",
    process=PROCESS,
    actions=(
        Action("defer", escalates=False, cost_hours=0.0),
        Action("inspect", escalates=True, cost_hours=1.0),
    ),
    observation_names=OBSERVATION_NAMES,
    observation_sets={"published": OBSERVATION_NAMES, "leak_free": LEAK_FREE_NAMES},
    default_observation_set="leak_free",
    geographic_features=("neighborhood_risk",),
    outcome_names=("caught", "wasted", "missed", "passed"),
    max_steps=MAX_STEPS,
    protocol=Protocol(
        split="834,338 records, random 80/20; chronological as well here",
        episode="filings one by one",
        claims="8 % defects, miss to waste 26 : 1; DQN recall 0.987, precision 0.219, REINFORCE "
        "0.945 and 0.231; detection 0.71 at ratio 5 to 0.94 at 50 over 128 settings",
    ),
    ceiling="exact: Bayes rule on the policy's own observation at the same visits",
    agents=("dqn", "reinforce"),
    # Today's decision does not change tomorrow's filing, so looking ahead only adds noise.
    agent_settings={"dqn": {"discount": 0.0, "hidden": (64, 64)}},
    price_step=0.01,
    explainer="kernel",
    heuristics={"balanced": make_balanced, "expert": make_expert, **rules.table_rules(cases)},
    dynamics=Dynamics(
        params_type=Params,
        initial_state=initial_state,
        transition=transition,
        observe=observe,
        current_stratum=current_stratum,
        need_per_step=need_per_step,
        steps_per_day=steps_per_day,
        n_waiting=n_waiting,
        example=example,
        estimate=estimate,
        truth=truth,
        complaints=seen_complaints,
        cases=cases,
    ),
)
