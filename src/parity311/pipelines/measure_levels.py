"""`parity311 sla measure`: what is promised and what is kept on record, over all requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.errors import EstimationError, InputError, unknown_name
from parity311.pipelines.audit_records import add_records
from parity311.records.schema import SERVICE_LEVEL_DAYS, SEVERITIES
from parity311.records.store import Records, open_records
from parity311.report.levels_page import add_curve_tables, days_in_words, write_levels_page
from parity311.report.store import start_run
from parity311.resampling import LEVEL, exponential_weights
from parity311.service_levels.requests import FEWEST, Requests, read_requests
from parity311.service_levels.survival import (
    FEWEST_SHOWN,
    LONGEST_DAYS,
    N_DRAWS,
    QUANTILES,
    WaitCurve,
    fit_curve,
)
from parity311.storage.strict_json import write_json

PAGE, FIGURES_FILE = "service-levels.html", "service-levels.json"
_DAYS = np.array([SERVICE_LEVEL_DAYS[code] for code in SEVERITIES])


def measure_levels(
    folder: str | Path,
    *,
    domains: Sequence[str] | None = None,
    districts: str = "borough",
    date_from: date | None = None,
    date_to: date | None = None,
    fewest: int = FEWEST,
    root: Path = Path("runs"),
) -> dict[str, Any]:
    """Measure waits of all requests and write service-levels.html and .json as a run.

    Parameters
    ----------
    domains
        All of the records' if not given.
    districts
        borough or community_board.
    fewest
        Requests below which a category is pooled with others.
    """
    records = open_records(folder)
    for name in domains or ():
        if name not in records.domains:
            raise unknown_name("domain", name, records.domains)
    asked = list(domains or records.domains)
    found = []
    for domain in asked:
        try:
            given = read_requests(
                records, domain, districts=districts, date_from=date_from, date_to=date_to
            )
            found.append(measure_domain(given.pooled(fewest), records, domain))
        except EstimationError:
            # Of all domains those with too little are left out; one that was asked for is refused.
            if domains:
                raise
    if not found:
        raise InputError(f"{records.folder} has no domain with enough requests; give more months.")
    config = {
        "records": records.folder.name, "domains": asked, "districts": districts,
        "date_from": str(date_from or ""), "date_to": str(date_to or ""), "fewest": fewest,
    }  # fmt: skip
    with start_run(root, f"sla measure {records.folder.name}", config) as run:
        add_records(run, records)
        for one in found:
            add_curve_tables(run, one)
        run.set_report(write_levels_page(run, found))
        plain = {"domains": [{k: v for k, v in one.items() if k != "curves"} for one in found]}
        write_json(run.path / FIGURES_FILE, plain)
        run.add_metrics(plain)
        page = run.name_page(PAGE)
    return {"run": run.id, "page": str(page), "records": str(records.folder), **plain}


def measure_domain(requests: Requests, records: Records, domain: str) -> dict[str, Any]:
    """Figures of one domain: the whole, and by code, category, district, stratum and cell."""
    n_categories = len(requests.categories)
    groups = {
        "code": (requests.code, tuple(f"code {code}" for code in SEVERITIES)),
        "category": (requests.category, requests.categories),
        "district": (requests.district, requests.districts),
        "stratum": (requests.stratum, requests.strata),
        "cell": (
            requests.district * n_categories + requests.category,
            tuple(f"{c}, {d}" for d in requests.districts for c in requests.categories),
        ),
    }
    rows: dict[str, list[dict[str, Any]]] = {}
    curves: dict[str, dict[str, Any]] = {}
    for way, (group, names) in groups.items():
        rows[way] = []
        for place, name in enumerate(names):
            chosen = requests.take(np.flatnonzero(group == place))
            curve = _curve(chosen)
            rows[way].append(describe_group(name, chosen, curve))
            if way in ("district", "stratum") and curve is not None:
                curves.setdefault(way, {})[name] = {
                    part: getattr(curve, part).tolist() for part in ("share", "lower", "upper")
                }
    first, last = records.window
    return {
        "domain": domain,
        "date_from": str(first),
        "date_to": str(last),
        "longest_days": LONGEST_DAYS,
        "n_backwards": requests.n_backwards,
        "whole": describe_group("all requests", requests, _curve(requests)),
        "rows": {way: [r for r in given if r["n"] != 0] for way, given in rows.items()},
        "curves": curves,
    }


def _curve(requests: Requests) -> WaitCurve | None:
    if requests.n < FEWEST_SHOWN:
        return None
    return fit_curve(requests.wait_days, requests.followed_days, requests.tract)


def describe_group(name: str, requests: Requests, curve: WaitCurve | None) -> dict[str, Any]:
    """One row: waits of all requests of a group, and how many were visited in time."""
    if curve is None:
        empty = ("visited", "visited_lower", "visited_upper", "kept", "kept_lower", "kept_upper")
        note = f"fewer than {FEWEST_SHOWN} requests" if requests.n else ""
        return {
            "name": name, "n": None if requests.n else 0, **dict.fromkeys(empty), "n_due": None,
            "n_open": None, "median": "", "p75": "", "p90": "", "note": note,
        }  # fmt: skip
    visited, lower, upper = curve.within(LONGEST_DAYS)
    kept, kept_lower, kept_upper, n_due = kept_share(requests)
    words = [days_in_words(*curve.quantile(level)[1:]) for level in QUANTILES]
    return {
        "name": name,
        "n": requests.n,
        "n_open": curve.n_open,
        "visited": visited,
        "visited_lower": lower,
        "visited_upper": upper,
        **dict(zip(("median", "p75", "p90"), words, strict=True)),
        "kept": kept,
        "kept_lower": kept_lower,
        "kept_upper": kept_upper,
        "n_due": n_due,
        "note": "" if curve.n_tracts >= 5 else "fewer than five tracts: read intervals with care",
    }


def kept_share(
    requests: Requests, days: NDArray[np.float64] | None = None
) -> tuple[float | None, float | None, float | None, int]:
    """Share visited in time of the requests whose time has passed, with its interval.

    `days` (n,) are each request's own; those of its code if not given.
    """
    promised = _DAYS[requests.code] if days is None else days
    due = np.flatnonzero(requests.followed_days >= promised)
    if len(due) < FEWEST_SHOWN:
        return None, None, None, len(due)
    in_time = (requests.wait_days <= promised)[due]
    _, place = np.unique(requests.tract[due], return_inverse=True)
    n = np.bincount(place).astype(np.float64)
    hits = np.bincount(place, in_time).astype(np.float64)
    weights = exponential_weights(len(n), N_DRAWS, np.random.default_rng(0))
    drawn = (weights @ hits) / (weights @ n)
    value = float(hits.sum() / n.sum())
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(float(low), value), max(float(high), value), len(due)
