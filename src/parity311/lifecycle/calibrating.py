"""The first three steps of a cycle: reporting propensity, incidents and strata, each on record."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import RunError
from parity311.estimation.correction import Correction, correct
from parity311.estimation.world import World
from parity311.lifecycle.cycle_config import CycleConfig
from parity311.lifecycle.steps import DoneStep, Steps
from parity311.mdp.contract import Domain
from parity311.records.store import Records
from parity311.reporting.calibration import Calibration, load_calibration, save_calibration
from parity311.reporting.incidents import INTERVAL
from parity311.storage.aside import write_text_aside
from parity311.storage.strict_json import to_json

PROPENSITY, INCIDENTS, STRATA = "propensity.csv", "incidents.csv", "strata.json"


def calibrate_step(steps: Steps, domain: Domain, records: Records, config: CycleConfig) -> DoneStep:
    """Step 1: how readily every tract reports, from the records before the day asked for."""
    first, last = records.window
    until = config.until or last

    def make(folder: Path) -> dict[str, Any]:
        found = correct(
            records, domain.slug, (config.estimator,), first, until, may_fail=records.is_real
        )
        calibration = found.calibration
        save_calibration(folder / "calibration.npz", found.used, calibration)
        estimate = calibration.estimate
        rows = zip(
            estimate.geoid, estimate.rate_per_day, estimate.rate_se, estimate.reported_share,
            estimate.reported_share_se, estimate.reason, strict=True,
        )  # fmt: skip
        names = ("tract", "reports_per_day", "se", "reported_share", "share_se", "note")
        _write_csv(folder / PROPENSITY, names, rows)
        told = found.describe()
        return {
            "used": found.used,
            "failed": found.failed,
            "is_wide": told["is_wide"],
            "incidents_per_28_days": told["incidents_per_28_days"],
            "assumptions": calibration.assumptions,
        }

    inputs = {
        "records": records.fingerprint,
        "strata": records.strata,
        "domain": domain.slug,
        "domain_version": domain.version,
        "estimator": config.estimator,
        "date_from": first,
        "date_to": until,
    }
    return steps.take("propensity", inputs, make)


def read_calibration(propensity: DoneStep) -> Calibration:
    """What the first step kept."""
    found = load_calibration(propensity.folder / "calibration.npz", propensity.result["used"])
    if found is None:
        raise RunError(f"{propensity.folder} holds no whole calibration; run the cycle again.")
    return found


def world_of(domain: Domain, records: Records, propensity: DoneStep, config: CycleConfig) -> World:
    """The domain in these records with what the first step found."""
    used = propensity.result["used"]
    correction = Correction({used: read_calibration(propensity)}, propensity.result["failed"], used)
    first, last = records.window
    until = config.until or last
    return World(domain, records, first, until, until, correction)


def incidents_step(steps: Steps, propensity: DoneStep) -> DoneStep:
    """Step 2: incidents of every tract, reported or not, per 28 days."""

    def make(folder: Path) -> dict[str, Any]:
        estimate = read_calibration(propensity).estimate
        draws = estimate.area_draws(np.random.default_rng(0)) / estimate.windows_28d
        low, high = np.percentile(draws, INTERVAL, axis=0)
        value = estimate.incidents.sum(axis=1) / estimate.windows_28d
        reported = np.bincount(
            estimate.cell_area, estimate.cell_counts.sum(axis=1), minlength=len(value)
        )
        rows = zip(
            estimate.geoid, reported / estimate.windows_28d, value, np.minimum(low, value),
            np.maximum(high, value), estimate.reason, strict=True,
        )  # fmt: skip
        names = ("tract", "reported_per_28_days", "incidents_per_28_days", "lower", "upper", "note")
        _write_csv(folder / INCIDENTS, names, rows)
        return {"incidents_per_28_days": float(value.sum()), "tracts": len(value)}

    return steps.take("incidents", {}, make, after=[propensity])


def strata_step(steps: Steps, propensity: DoneStep, incidents: DoneStep) -> DoneStep:
    """Step 3: incidents of every stratum, with what is left open of them."""

    def make(folder: Path) -> dict[str, Any]:
        calibration = read_calibration(propensity)
        rows = [
            {
                "stratum": name,
                "incidents_per_28_days": float(calibration.denominators[index]),
                "lower": float(calibration.intervals[index, 0]),
                "upper": float(calibration.intervals[index, 1]),
                "reported_per_28_days": float(calibration.reported[index]),
                "complaints_per_28_days": float(calibration.complaints[index]),
            }
            for index, name in enumerate(calibration.strata)
        ]
        write_text_aside(folder / STRATA, to_json({"strata": rows}))
        return {"strata": rows}

    return steps.take("strata", {}, make, after=[propensity, incidents])


def _write_csv(path: Path, names: Sequence[str], rows: Any) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([f"{x:.6g}" if isinstance(x, float | np.floating) else x for x in row])
    write_text_aside(path, text.getvalue())
