"""The same point-in-time features built with pandas: only for the comparison of speed.

Written as a pandas user would, with ``groupby(...).rolling``; pandas is in the ``dev`` extra.
"""

from __future__ import annotations

from typing import Any

from parity311.errors import InputError
from parity311.records.features import FEATURES
from parity311.records.store import Records


def build_with_pandas(records: Records, domain: str) -> Any:
    """A data frame with the columns and rows of `parity311.records.features.complaint_features`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError(
            "The comparison needs pandas; install it with `pip install 'parity311[dev]'`."
        ) from error
    complaints = records.table("complaints", domain).to_pandas()
    outcomes = records.table("outcomes", domain).to_pandas()
    zips = records.table("tracts", columns=["geoid", "zip"]).to_pandas()
    placed = complaints.merge(zips, left_on="tract", right_on="geoid", how="left")
    events = _events(pd, placed, outcomes)
    out = events.loc[events["report"] == 1, ["complaint_id", "known_at"]].copy()
    out["days_since_last_report"] = _days_since_last(pd, events)
    out["n_open"] = _open_before(events)
    for feature in FEATURES:
        out[feature.name] = _rolling(pd, events, feature.event, feature.place, feature.window_days)
    out = out.rename(columns={"known_at": "received_at"})
    return out.sort_values(["received_at", "complaint_id"]).reset_index(drop=True)


def _events(pd: Any, placed: Any, outcomes: Any) -> Any:
    """One row a report and one a closing, in order of time; index 0 … n - 1."""
    columns = ["complaint_id", "known_at", "building_id", "tract", "zip"]
    reports = placed.rename(columns={"received_at": "known_at"})[columns].copy()
    reports = reports.assign(report=1, violation=0, substantive=0, closing=0)
    closed = outcomes.loc[outcomes["closed_at"].notna(), ["complaint_id", "closed_at"]]
    kinds = outcomes.set_index("complaint_id")["disposition_class"]
    closings = closed.merge(placed[["complaint_id", *columns[2:]]], on="complaint_id")
    kind = closings["complaint_id"].map(kinds)
    closings = closings.rename(columns={"closed_at": "known_at"}).assign(
        complaint_id=None,
        report=0,
        violation=(kind == "violation").astype(int),
        substantive=kind.isin(["violation", "no_violation"]).astype(int),
        closing=1,
    )
    events = pd.concat([reports, closings], ignore_index=True)
    return events.sort_values("known_at", kind="stable").reset_index(drop=True)


def _rolling(pd: Any, events: Any, event: str, place: str, days: int) -> Any:
    """Sum over [t - days, t) within a place, back in the order of the events.

    pandas leaves out the row itself, not other rows of the same second.
    """
    ordered = events[["known_at", place, event]].sort_values([place, "known_at"], kind="stable")
    grouped = ordered.groupby(place, dropna=False, sort=False)
    sums = grouped.rolling(f"{days}D", on="known_at", closed="left")[event].sum()
    return pd.Series(sums.fillna(0).to_numpy().astype(int), index=ordered.index)


def _open_before(events: Any) -> Any:
    change = (events["report"] - events["closing"]).groupby(events["known_at"]).sum()
    before = change.cumsum().shift(fill_value=0)
    return events["known_at"].map(before)


def _days_since_last(pd: Any, events: Any) -> Any:
    reports = events.loc[events["report"] == 1, ["known_at", "building_id"]]
    earlier = reports.drop_duplicates().assign(last=lambda frame: frame["known_at"])
    found = pd.merge_asof(
        reports.reset_index(), earlier, on="known_at", by="building_id", allow_exact_matches=False
    ).set_index("index")
    return (found["known_at"] - found["last"]).dt.total_seconds() / 86400
