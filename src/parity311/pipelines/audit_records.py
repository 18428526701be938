"""The audit of a records folder itself: who was served, as recorded, without any policy.

Real records have no truth and no run behind them; what they say of who was served can be audited
all the same, and should be before anything is learned from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.cells import AuditInputs, count_undated, read_inputs
from parity311.audit.spec import AuditSpec
from parity311.errors import EstimationError, InputError, Parity311Error, unknown_name
from parity311.estimation.correction import AS_THEY_ARE, FALLBACK
from parity311.pipelines.audit import write_audit
from parity311.pipelines.overrides import Recommendation
from parity311.records.describe import describe_import
from parity311.records.store import MANIFEST, Records, open_records
from parity311.report.store import RunWriter
from parity311.reporting.calibration import calibrate
from parity311.reporting.estimate import check_estimator

ESTIMATOR = "exposure_rate"
"""How incidents nobody reported are estimated, where the records allow it."""


def is_records_folder(given: str) -> bool:
    """Whether a name leads to a folder of records, not to a run."""
    return (Path(given) / MANIFEST).is_file()


def audit_records(
    folder: str | Path,
    spec: AuditSpec = AuditSpec(),
    *,
    root: Path = Path("runs"),
    domains: Sequence[str] | None = None,
    with_rules: bool = False,
    overrides: Sequence[Recommendation] = (),
    estimator: str = ESTIMATOR,
) -> dict[str, Any]:
    """Audit what records say happened and write audit.html, audit.json and tables as a run.

    Incidents are estimated from duplicates where the records allow it; where they do not, the
    verdict per incident says so.

    Examples
    --------
    >>> found = parity311.audit_records(records.folder, parity311.AuditSpec(n_draws=200))
    >>> verdicts = {row["verdict"] for row in found["domains"][0]["verdicts"]}
    >>> verdicts <= {"PASS", "FAIL", "INSUFFICIENT"}
    True
    """
    check_estimator(estimator)
    records = open_records(folder)
    for name in domains or ():
        if name not in records.domains:
            raise unknown_name("domain", name, records.domains)
    date_from, date_to = _dates(records, spec)
    inputs, notes = [], {}
    for domain in domains or records.domains:
        if not _has_complaints(records, domain, date_from, date_to):
            notes[domain] = f"no complaint from {date_from} to {date_to}"
            continue
        try:
            n_undated = count_undated(records, domain, date_from, date_to)
        except EstimationError as error:
            notes[domain] = f"not audited: {error}"
            continue
        draws, notes[domain] = estimate_incidents(
            records, domain, date_from, date_to, spec.seed, estimator
        )
        if n_undated:
            notes[domain] += (
                f"; {n_undated:,} violations that were found on no known day count as not found "
                "in time"
            )
        inputs.append(_read(records, domain, date_from, date_to, draws, spec))
    untold = [note for note in notes.values() if note.startswith("not audited: ")]
    if not inputs and untold:
        raise EstimationError(untold[0].removeprefix("not audited: "))
    if not inputs:
        raise InputError(
            f"{records.folder} has no complaint from {date_from} to {date_to}; its records run "
            f"from {records.window[0]} to {records.window[1]}."
        )
    found = write_audit(
        inputs,
        (),
        spec,
        root=root,
        command=f"audit {records.folder.name}",
        config={
            "records": records.folder.name,
            "estimator": estimator,
            "spec": spec,
            "spec_sha256": spec.sha256,
        },
        add_data=lambda run: add_records(run, records),
        with_rules=with_rules,
        overrides=overrides,
        estimates=notes,
    )
    return {**found, "records": str(records.folder), "estimates": notes}


def _dates(records: Records, spec: AuditSpec) -> tuple[date, date]:
    first, last = records.window
    try:
        given = (spec.date_from and date.fromisoformat(spec.date_from)) or first
        until = (spec.date_to and date.fromisoformat(spec.date_to)) or last
    except ValueError as error:
        raise InputError(f"The dates of the specification cannot be read: {error}.") from error
    return given, until


def _has_complaints(records: Records, domain: str, date_from: date, date_to: date) -> bool:
    found = records.sql(
        "SELECT count(*) AS n FROM complaints WHERE domain = $domain AND received_at >= "
        "$date_from::TIMESTAMP AND received_at < $date_to::TIMESTAMP",
        domain=domain,
        date_from=date_from,
        date_to=date_to,
    )
    return bool(found["n"][0].as_py())


def estimate_incidents(
    records: Records,
    domain: str,
    date_from: date,
    date_to: date,
    seed: int,
    estimator: str = ESTIMATOR,
) -> tuple[np.ndarray | None, str]:
    """Joint draws of estimated incidents by tract, or None; and what was done, in words."""
    if estimator == FALLBACK:
        return None, f"no estimate of incidents: {AS_THEY_ARE}"
    try:
        found = calibrate(
            records, domain, date_from=date_from, date_to=date_to, estimator=estimator
        )
        draws = found.estimate.area_draws(np.random.default_rng(seed))
    except (Parity311Error, np.linalg.LinAlgError) as error:
        return None, f"no estimate of incidents: {' '.join(str(error).split())}"
    how = "" if estimator == ESTIMATOR else f" by {found.estimator}, as was asked for"
    return draws, f"incidents estimated{how}: {found.assumptions}"


def _read(
    records: Records,
    domain: str,
    date_from: date,
    date_to: date,
    draws: np.ndarray | None,
    spec: AuditSpec,
) -> AuditInputs:
    return read_inputs(
        records,
        domain,
        date_from=date_from,
        date_to=date_to,
        incident_draws=draws,
        estimand=spec.estimand,
    )


def add_records(run: RunWriter, records: Records) -> None:
    """Record a records folder as the data of a run: where its rows come from, and their hashes."""
    manifest = records.manifest
    is_synthetic = manifest.get("kind") != "import"
    sources = manifest.get("sources", [])
    kept = ("name", "sha256", "terms", "retrieved_at", "source", "rows_in", "kept", "quarantined")
    run.add_data(
        records.folder.name,
        records.fingerprint,
        is_synthetic=is_synthetic,
        statement=f"A synthetic city, {records.window[0]} to {records.window[1]}."
        if is_synthetic
        else describe_import(records),
        sources=[{name: one[name] for name in kept if name in one} for one in sources],
    )
