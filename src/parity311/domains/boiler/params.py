"""Where the numbers come from: an example by hand, the records, or the truth."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.arrays import jnp
from parity311.domains.boiler.decision import (
    CATCH_DOLLARS,
    COUNT_LEVELS,
    LEAK_FREE_NAMES,
    MISS_DOLLARS,
    OBSERVATION_NAMES,
    RISK_LEVELS,
    RISK_STEP,
    WASTE_DOLLARS,
    Params,
    cases,
)
from parity311.domains.boiler.filings import (
    choose_split,
    read_filings,
    true_chances,
    true_filed_share,
)
from parity311.engines import heuristics
from parity311.engines.table import scores
from parity311.mdp.contract import N_STRATA
from parity311.records.cases import count_visits
from parity311.records.store import Records, open_records

RISK_PRIOR = 30.0
"""Filings at the city's rate that are added to a tract's trailing ones (assumed)."""


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


def chance_by_features(table: heuristics.CaseTable) -> np.ndarray:
    """Chance of a defect of every filing, as far as the leak-free features tell."""
    columns = tuple(OBSERVATION_NAMES.index(name) for name in LEAK_FREE_NAMES)
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
