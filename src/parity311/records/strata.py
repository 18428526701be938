"""The strata by which service is compared: income quintiles and racial composition.

They are fixed per vintage of the census tables and describe tracts, never a person. A tract
without a published figure is in the group 0 or ``unknown``, never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parity311.errors import InputError, unknown_name

INCOME, RACE = "income5", "race5"
GROUPED_BY = {
    INCOME: "quintiles of tract median household income, household-weighted",
    RACE: "quintiles of the tract's Black and Hispanic share, household-weighted",
}
"""What tracts may be grouped by where a policy learns, in words."""
LABELS = {
    INCOME: ("Q1 (lowest income)", "Q2", "Q3", "Q4", "Q5 (highest income)", "unknown"),
    RACE: ("R1 (lowest share)", "R2", "R3", "R4", "R5 (highest share)", "unknown"),
}
"""Names of their strata, in order."""
BRIEFLY = {INCOME: "income quintile", RACE: "quintile of the Black and Hispanic share"}
"""One stratum of each, in a few words."""
RACE_GROUPS = ("white", "black", "hispanic", "asian")
MAJORITY_SHARE = 0.5
"""Share of residents from which a group is a tract's majority (by definition: half)."""


@dataclass(frozen=True)
class RaceStrata:
    """Two ways to group tracts by racial composition; arrays of one entry a tract."""

    black_hispanic_quintile: NDArray[np.int8]
    """1 lowest share of Black and Hispanic residents … 5; 0 where unknown."""
    majority_group: NDArray[np.str_]
    """One of `RACE_GROUPS`, ``mixed``, or ``unknown``."""


def check_strata(name: str) -> str:
    """A name of `GROUPED_BY`, or an error that says which there are."""
    if name not in GROUPED_BY:
        raise unknown_name("strata", name, GROUPED_BY)
    return name


def income_quintiles(median_income: ArrayLike, households: ArrayLike) -> NDArray[np.int8]:
    """Citywide quintile of each tract by median income, each holding a fifth of the households.

    Parameters
    ----------
    median_income : (n,) dollars a year, NaN where not published
    households : (n,) weight of each tract; NaN counts as none

    Returns
    -------
    (n,) 1 lowest … 5 highest; 0 where the income is not published.
    """
    return _weighted_quintiles(median_income, households, "median_income")


def race_strata(
    share_white: ArrayLike,
    share_black: ArrayLike,
    share_hispanic: ArrayLike,
    share_asian: ArrayLike,
    households: ArrayLike,
) -> RaceStrata:
    """Group tracts by the share of Black and Hispanic residents and by majority group.

    All arguments are (n,); shares are of residents, in [0, 1], NaN where unknown. The quintiles
    are weighted by households, as those of income are.
    """
    shares = np.stack(
        [
            np.asarray(share, dtype=np.float64)
            for share in (share_white, share_black, share_hispanic, share_asian)
        ]
    )
    is_known = ~np.isnan(shares).any(axis=0)
    if ((shares[:, is_known] < 0) | (shares[:, is_known] > 1)).any():
        raise InputError(
            f"A share of residents lies outside 0 to 1 (from {np.nanmin(shares):.3g} to "
            f"{np.nanmax(shares):.3g}); give shares, not percentages."
        )
    largest = np.where(is_known, shares, 0.0).argmax(axis=0)
    has_majority = is_known & (np.where(is_known, shares, 0.0).max(axis=0) >= MAJORITY_SHARE)
    majority = np.where(has_majority, np.asarray(RACE_GROUPS)[largest], "mixed")
    return RaceStrata(
        black_hispanic_quintile=_weighted_quintiles(
            np.where(is_known, shares[1] + shares[2], np.nan), households, "share"
        ),
        majority_group=np.where(is_known, majority, "unknown"),
    )


def _weighted_quintiles(values: ArrayLike, weights: ArrayLike, name: str) -> NDArray[np.int8]:
    """Quintile of each value by cumulated weight; equal values share a quintile, NaN gets 0.

    A value whose weight straddles a limit goes where the middle of its weight lies.
    """
    value = np.asarray(values, dtype=np.float64)
    weight = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    if value.shape != weight.shape or value.ndim != 1:
        raise InputError(
            f"{name} has shape {value.shape} and households {weight.shape}; give two arrays of "
            "one entry a tract."
        )
    if (weight < 0).any():
        raise InputError(
            f"households holds {weight.min():g}, a negative count; replace the census codes for "
            "missing values (-666666666 and the like) by NaN first."
        )
    quintile = np.zeros(len(value), dtype=np.int8)
    known = np.flatnonzero(~np.isnan(value))
    if weight[known].sum() == 0:
        return quintile
    distinct, group = np.unique(value[known], return_inverse=True)
    held = np.bincount(group, weight[known], minlength=len(distinct))
    # Twice the households below the middle of each value's own, over twice all of them.
    twice_below = 2 * np.cumsum(held) - held
    fifth = np.floor_divide(5 * twice_below, 2 * held.sum())
    quintile[known] = 1 + np.minimum(fifth, 4)[group]
    return quintile
