"""From played years to a promise: the days within which a share of ALL requests is visited.

Years, not requests, are the sample: what differs from year to year is shared by all requests of a
year. With M years played, Q_1 … Q_M the days that a share p of a year's requests was visited within
(never visited is infinite), the promise is the order statistic ⌈c·(M + 1)⌉: a further year of the
same kind keeps it with chance at least c, whatever the distribution (for M = 19 and c = 0.9 the
second largest). One year's quantile would be kept half of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.errors import InputError
from parity311.number_text import in_days
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.service_levels.levels import ROUND_DAYS, CellPromise, backward_codes
from parity311.service_levels.requests import Requests, count_cells

KEEPS, BREAKS, INSUFFICIENT = "KEEPS", "BREAKS", "INSUFFICIENT"
VERDICTS = (KEEPS, BREAKS, INSUFFICIENT)
DAY_HOURS = 24
FOLLOWED_DAYS = max(ROUND_DAYS)
"""Days that every judged request is followed for: the longest promise."""
N_QUARTERS = 4


@dataclass(frozen=True)
class PlayedYears:
    """Requests of several years, (M years, B, K) and what is kept of their waits."""

    districts: tuple[str, ...]
    categories: tuple[str, ...]
    n: NDArray[np.int64]
    """(M, B, K) requests judged"""
    within: NDArray[np.int64]
    """(M, B, K, A) of them visited within 0, 1, … days, A − 1 being the days followed"""
    by_quarter: NDArray[np.int64]
    """(M, 4, B, K, A + 1) the same by quarter of receipt, the requests last"""
    codes: tuple[str, ...]
    """(K,) severity code most requests of each category have"""
    within_hours: NDArray[np.int32] | None = None
    """(M, B, K, H) of them visited within 0, 1, … hours, where hours are known"""

    def in_hours(self) -> PlayedYears | None:
        """The same years with hours for days; none where hours are not known."""
        return None if self.within_hours is None else replace(self, within=self.within_hours)

    @property
    def n_years(self) -> int:
        """M."""
        return len(self.n)

    def pooled(self) -> PlayedYears:
        """The same with one district, the city."""
        return replace(
            self,
            districts=("all districts",),
            n=self.n.sum(axis=1, keepdims=True),
            within=self.within.sum(axis=1, keepdims=True),
            by_quarter=self.by_quarter.sum(axis=2, keepdims=True),
            within_hours=None
            if self.within_hours is None
            else self.within_hours.sum(axis=1, keepdims=True),
        )

    def quantiles(self, share: float) -> NDArray[np.float64]:
        """(M, B, K) days within which this share of each year's requests was visited."""
        needed = np.ceil(share * self.n - 1e-9)[..., None]
        reached = (self.within >= needed) & (self.n[..., None] > 0)
        return np.where(reached.any(axis=-1), reached.argmax(axis=-1), np.inf)

    def kept(self, days: NDArray[np.float64]) -> NDArray[np.float64]:
        """(M, B, K) share of each year's requests visited within days (B, K); NaN for none."""
        last = self.within.shape[-1] - 1
        place = np.clip(np.nan_to_num(days, posinf=last), 0, last)
        index = np.broadcast_to(place.astype(np.int64), self.n.shape)[..., None]
        seen = np.take_along_axis(self.within, index, axis=-1)[..., 0]
        return np.divide(seen, self.n, out=np.full(self.n.shape, np.nan), where=self.n > 0)


def count_years(years: Sequence[Requests]) -> PlayedYears:
    """Count the judged requests of each year: those followed for the longest promise."""
    first = years[0]
    n_ages = FOLLOWED_DAYS + 1
    shape = (len(first.districts), len(first.categories))
    counts, within, quarters, hours = [], [], [], []
    codes = np.zeros((shape[1], len(SEVERITIES)))
    for year in years:
        judged = np.flatnonzero(year.followed_days >= FOLLOWED_DAYS)
        start = int(year.received_day.min())
        quarter = np.minimum((year.received_day[judged] - start) // 91, N_QUARTERS - 1)
        wait = np.minimum(year.wait_days[judged], n_ages).astype(np.int64)
        found = np.zeros((N_QUARTERS, *shape, n_ages + 1), np.int64)
        place = (quarter, year.district[judged], year.category[judged])
        np.add.at(found, (*place, np.minimum(wait, n_ages)), 1)
        received = found.sum(axis=-1)
        found = found.cumsum(axis=-1)
        found[..., -1] = received
        quarters.append(found)
        within.append(found[..., :-1].sum(axis=0))
        counts.append(count_cells(year, judged))
        if year.wait_hours is not None:
            hours.append(_within_hours(year, judged, shape))
        np.add.at(codes, (year.category[judged], year.code[judged]), 1)
    return PlayedYears(
        first.districts,
        first.categories,
        np.stack(counts),
        np.stack(within),
        np.stack(quarters),
        tuple(SEVERITIES[place] for place in codes.argmax(axis=1)),
        np.stack(hours) if hours else None,
    )


def _within_hours(
    year: Requests, judged: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int32]:
    """(B, K, H) of the judged requests visited within 0, 1, … hours of the days followed."""
    last = DAY_HOURS * FOLLOWED_DAYS
    assert year.wait_hours is not None
    hour = np.ceil(np.minimum(year.wait_hours[judged], last + 1)).astype(np.int64)
    found = np.zeros((*shape, last + 2), np.int32)
    np.add.at(found, (year.district[judged], year.category[judged], hour), 1)
    return found[..., :-1].cumsum(axis=-1, dtype=np.int32)


def rank_of_promise(n_years: int, confidence: float) -> int:
    """Which of the sorted years a promise is taken from, counted from 1."""
    rank = int(np.ceil(confidence * (n_years + 1) - 1e-9))
    if rank > n_years:
        fewest = int(np.ceil(confidence / (1.0 - confidence) - 1e-9))
        raise InputError(
            f"{n_years} years cannot support a promise with confidence {confidence:.0%}; play at "
            f"least {fewest} years, or lower the confidence."
        )
    return rank


def fewest_requests(share: float) -> int:
    """Requests a cell needs a year: fewer could all be in time by chance (95 % bound)."""
    return int(np.ceil(np.log(0.05) / np.log(share) - 1e-9))


def derive_days(years: PlayedYears, share: float, confidence: float) -> NDArray[np.float64]:
    """(B, K) days that can be promised, unrounded; infinite where nothing can be."""
    rank = rank_of_promise(years.n_years, confidence)
    return np.sort(years.quantiles(share), axis=0)[rank - 1]


def round_up(days: float) -> int | None:
    """The next number of days that is promised; None beyond the longest."""
    return next((one for one in ROUND_DAYS if days <= one), None)


@dataclass(frozen=True)
class JudgedCell:
    """What can be promised to one cell, and what is known of it."""

    promise: CellPromise
    verdict: str
    """of the designed days, or of the code's own service level where nothing was designed"""
    unrounded_days: float
    is_pooled: bool
    """whether all districts' requests stand for this one's"""
    designed_days: float
    """what was designed, else the code's service level"""
    n_a_year: float
    figures: dict[str, Any]

    @property
    def cell(self) -> tuple[str, str]:
        """(district, category)."""
        return self.promise.district, self.promise.category


def judge_cells(
    years: PlayedYears,
    share: float,
    confidence: float,
    designed: dict[tuple[str, str], float | None] | None = None,
) -> list[JudgedCell]:
    """Promise every cell what its years allow; pool small ones, refuse what stays too small."""
    own, pooled = years, years.pooled()
    own_days = derive_days(own, share, confidence)
    pooled_days = derive_days(pooled, share, confidence)
    fewest = fewest_requests(share)
    found: list[JudgedCell] = []
    for b, district in enumerate(years.districts):
        for k, category in enumerate(years.categories):
            is_pooled = bool(np.median(own.n[:, b, k]) < fewest)
            source, row = (pooled, 0) if is_pooled else (own, b)
            raw = float(pooled_days[0, k] if is_pooled else own_days[b, k])
            is_small = bool(np.median(source.n[:, row, k]) < fewest)
            found.append(
                _judge(years, (b, k), (district, category), source, row, raw, share,
                       is_pooled, is_small, (designed or {}).get((district, category)))
            )  # fmt: skip
    late = {one[0] for one in backward_codes([one.promise for one in found])}
    return [_with_order(one) if one.promise in late else one for one in found]


def _with_order(one: JudgedCell) -> JudgedCell:
    """Say of a graver code that it is promised later than a lighter one."""
    words = "; ".join(filter(None, (one.promise.reason, "later than a lighter code is visited")))
    return replace(one, promise=replace(one.promise, reason=words))


def _judge(
    years: PlayedYears,
    place: tuple[int, int],
    cell: tuple[str, str],
    source: PlayedYears,
    row: int,
    raw: float,
    share: float,
    is_pooled: bool,
    is_small: bool,
    designed: float | None,
) -> JudgedCell:
    b, k = place
    code = years.codes[k]
    clock = SERVICE_LEVEL_DAYS[code]
    target = clock if designed is None else designed
    days = None if is_small else round_up(raw)
    visited = float(source.within[:, row, k, -1].sum() / max(source.n[:, row, k].sum(), 1))
    reasons = []
    if is_small:
        reasons.append(
            f"fewer than {fewest_requests(share)} requests a year, even in all districts"
        )
    elif is_pooled:
        reasons.append("from all districts together: too few requests in this one")
    if days is None and not is_small:
        reasons.append(
            f"only {visited:.0%} are visited within {FOLLOWED_DAYS} days"
            if visited < share
            else "not in every year"
        )
    elif days is not None and days > clock:
        reasons.append(f"longer than the {in_days(clock)} of code {code}")
    verdict = INSUFFICIENT if is_small else KEEPS if raw <= target else BREAKS
    promise = CellPromise(
        cell[0], cell[1], days, code, "; ".join(reasons), None if is_small else visited
    )
    figures = {
        "within_target": _kept_within(source, row, k, target),
        "promised_share": _kept_within(source, row, k, days),
        **_timing(source, row, k, days),
    }
    return JudgedCell(
        promise, verdict, raw, is_pooled, target, float(years.n[:, b, k].mean()), figures
    )


def _kept_within(source: PlayedYears, row: int, k: int, days: float | None) -> float:
    """Share of all years' requests visited within so many days; NaN for none."""
    n = int(source.n[:, row, k].sum())
    if days is None or not n:
        return float("nan")
    return float(source.within[:, row, k, min(int(days), FOLLOWED_DAYS)].sum() / n)


def _timing(source: PlayedYears, row: int, k: int, days: int | None) -> dict[str, Any]:
    """Kept share by quarter at the promised days, and what is left to hope for at half of them."""
    nothing = {"worst_quarter": None, "worst_quarter_kept": float("nan"),
               "late_hope": float("nan")}  # fmt: skip
    if days is None:
        return nothing
    total = source.by_quarter[:, :, row, k].sum(axis=0).astype(np.float64)
    received = total[:, -1]
    kept = np.divide(total[:, days], received, out=np.full(4, np.nan), where=received > 0)
    if not np.isfinite(kept).any():
        return nothing
    worst = int(np.nanargmin(kept))
    seen = total[:, :-1].sum(axis=0)
    half = days // 2
    left = received.sum() - seen[half]
    hope = (seen[days] - seen[half]) / left if left > 0 else float("nan")
    return {
        "worst_quarter": worst + 1,
        "worst_quarter_kept": float(kept[worst]),
        "late_hope": float(hope),
    }


def days_matrix(
    years: PlayedYears, judged: Sequence[JudgedCell], *, is_rounded: bool
) -> NDArray[np.float64]:
    """(B, K) promised days; NaN where nothing is promised."""
    by_cell = {one.cell: one for one in judged}
    found = np.full((len(years.districts), len(years.categories)), np.nan)
    for b, district in enumerate(years.districts):
        for k, category in enumerate(years.categories):
            one = by_cell[district, category]
            if one.promise.days is not None:
                found[b, k] = one.promise.days if is_rounded else one.unrounded_days
    return found


def pooled_cells(years: PlayedYears, judged: Sequence[JudgedCell]) -> NDArray[np.bool_]:
    """(B, K) whether a cell's promise is that of all districts together."""
    by_cell = {one.cell: one.is_pooled for one in judged}
    return np.array([[by_cell[b, k] for k in years.categories] for b in years.districts])


def coverage(
    fresh: PlayedYears,
    days: NDArray[np.float64],
    share: float,
    pooled: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """How often promises are kept in years they were not derived from.

    A promise is kept in a year where at least the share of the year's requests was visited in time.
    One made for all districts together (``pooled``, (B, K)) is judged once, on all their requests.
    """
    promised = np.isfinite(days)
    kept = fresh.kept(days)
    if pooled is not None and pooled.any():
        # Its days are the same in all districts; the first of them stands for it.
        first = pooled.argmax(axis=0)
        every = fresh.pooled().kept(days[first, np.arange(days.shape[1])][None])
        is_first = pooled & (np.arange(len(days))[:, None] == first)
        promised = promised & (~pooled | is_first)
        kept = np.where(is_first[None], every, kept)
    usable = promised[None] & np.isfinite(kept)
    is_kept = kept >= share - 1e-9
    by_year = np.array([row[use].all() for row, use in zip(is_kept, usable, strict=True)])
    n_cells = int(usable.sum())
    return {
        "years": fresh.n_years,
        "promises": int(promised.sum()),
        "checked": n_cells,
        "kept_share": float(is_kept[usable].mean()) if n_cells else float("nan"),
        "all_kept_share": float(by_year.mean()) if n_cells else float("nan"),
    }


def check_hours(
    past: PlayedYears,
    fresh: PlayedYears,
    share: float,
    confidence: float,
    promised: NDArray[np.float64],
    pooled: NDArray[np.bool_],
) -> dict[str, Any]:
    """How often promises to the hour would be kept: what whole days add is not in them.

    Only cells that are promised days (B, K) are asked about.
    """
    own, together, further = past.in_hours(), past.pooled().in_hours(), fresh.in_hours()
    if own is None or together is None or further is None:
        return {"years": fresh.n_years, "promises": 0, "checked": 0, "kept_share": float("nan"),
                "all_kept_share": float("nan")}  # fmt: skip
    hours = np.where(
        pooled, derive_days(together, share, confidence), derive_days(own, share, confidence)
    )
    return coverage(further, np.where(np.isfinite(promised), hours, np.nan), share, pooled)


def find_conflicts(
    years: PlayedYears, judged: Sequence[JudgedCell], share: float, n_visits: float
) -> list[dict[str, Any]]:
    """Where routing and promises contradict each other: what it is, and what would mend it.

    `n_visits` are the visits a year there are for the requests judged.
    """
    found: list[dict[str, Any]] = []

    def add(kind: str, one: JudgedCell | None, words: str) -> None:
        district, category = one.cell if one else ("all", "all")
        found.append({"kind": kind, "district": district, "category": category, "words": words})

    due = sum(share * one.n_a_year for one in judged)
    if due > n_visits:
        add(
            "capacity", None,
            f"{due:,.0f} visits a year fall due if {share:.0%} of all requests are promised one; "
            f"{n_visits:,.0f} are made. No order of visits keeps such a promise.",
        )  # fmt: skip
    for one in judged:
        if one.verdict == BREAKS:
            mend = f"{_missing_visits(one, share):,.0f} more visits a year would have to be in time"
            add(
                "deadline", one,
                f"{one.figures['within_target']:.0%} of all requests are visited within the "
                f"{in_days(one.designed_days)}, {share:.0%} would have to be; {mend}.",
            )  # fmt: skip
        if one.figures["late_hope"] < share / 2:
            add(
                "deferred", one,
                f"Who still waits after half of the {in_days(one.promise.days or 0)} has a chance "
                f"of {one.figures['late_hope']:.0%} to be visited in time: tell them, or go "
                "sooner.",
            )  # fmt: skip
        worst = one.figures["worst_quarter_kept"]
        if worst < share - 0.05:
            add(
                "season", one,
                f"In quarter {one.figures['worst_quarter']} only {worst:.0%} are visited within "
                f"{in_days(one.promise.days or 0)}; promise by season, or move visits there.",
            )  # fmt: skip
    found += _order_conflicts(judged) + _district_conflicts(years, judged)
    return found


def _missing_visits(one: JudgedCell, share: float) -> float:
    return max(share - one.figures["within_target"], 0.0) * one.n_a_year


def _order_conflicts(judged: Sequence[JudgedCell]) -> list[dict[str, Any]]:
    """Graver codes promised later than lighter ones of the same district."""
    found = []
    promised = [one for one in judged if one.promise.days is not None]
    for graver in promised:
        for lighter in promised:
            if graver.promise.district != lighter.promise.district:
                continue
            order = SEVERITIES.index(graver.promise.code) < SEVERITIES.index(lighter.promise.code)
            if order and (graver.promise.days or 0) > (lighter.promise.days or 0):
                words = (
                    f"Code {graver.promise.code} is promised in "
                    f"{in_days(graver.promise.days or 0)}, {lighter.promise.category} (code "
                    f"{lighter.promise.code}) in {lighter.promise.days}: the graver one later."
                )
                found.append(
                    {"kind": "order", "district": graver.promise.district,
                     "category": graver.promise.category, "words": words}
                )  # fmt: skip
    return found


def _district_conflicts(years: PlayedYears, judged: Sequence[JudgedCell]) -> list[dict[str, Any]]:
    """Categories whose promise differs between districts; that needs a published reason."""
    found = []
    for category in years.categories:
        cells = [
            one for one in judged
            if one.promise.category == category and one.verdict != INSUFFICIENT
        ]  # fmt: skip
        days = {one.promise.days or np.inf for one in cells}
        if len(days) > 1:
            quick = min(cells, key=lambda one: one.promise.days or np.inf).promise
            slow = max(cells, key=lambda one: one.promise.days or np.inf).promise
            told = "nothing" if slow.days is None else in_days(slow.days)
            found.append(
                {"kind": "districts", "district": slow.district, "category": category,
                 "words": f"{quick.district} is promised {in_days(quick.days or 0)}, "
                 f"{slow.district} {told}: publish the reason, or level it."}
            )  # fmt: skip
    return found
