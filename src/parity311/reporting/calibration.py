"""The paper's calibration before every training cycle, as one call.

(1) reporting propensity, (2) incidents, (3) strata, (4) the denominators handed to environments and
replay buffers, (5) what the audit needs. The result is cached by a hash of all that went in.

Keep calibrations on disk: arrays and plain text as NPZ behind their hash; no code.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity311.records.store import Records
from parity311.reporting.areas import areas_from_records
from parity311.reporting.estimate import check_estimator, estimate
from parity311.reporting.filings import estimate_filings, holds_filings
from parity311.reporting.incidents import INTERVAL, IncidentEstimate
from parity311.reporting.lifetimes import Lifetime, estimated
from parity311.reporting.settings import N_DRAWS, Settings
from parity311.reporting.strata import Strata, StrataTotals, stratify, total_by_stratum
from parity311.reporting.table import ReportTable, reports_from_records
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import read_hashed, write_hashed
from parity311.version import __version__

if TYPE_CHECKING:
    from parity311.reporting.calibration import Calibration

PLAIN = "plain"
"""Name of the entry that holds everything that is not an array, as JSON."""
DATES = ("date_from", "date_to")


@dataclass(frozen=True)
class CacheInputs:
    """Everything that a calibration depends on, beside the software."""

    records: str
    """Fingerprint of the records, and what their tracts are grouped by."""
    domain: str
    date_from: str
    date_to: str
    strata: str
    estimator: str
    lifetime: dict[str, Any]
    n_draws: int
    seed: int

    def key(self) -> str:
        """Hash of the inputs and of the code that turns them into numbers."""
        given = asdict(self) | {"software": __version__, "code": hash_code()}
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:24]


@cache
def hash_code() -> str:
    """Hash of the source of this package: other code, other numbers."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def save_calibration(path: Path, key: str, result: Calibration) -> None:
    """Keep a result; a reader never finds half of one, nor a changed one."""
    arrays: dict[str, np.ndarray] = {}
    plain: dict[str, Any] = {"key": key}
    for prefix, part in (("", result), ("totals.", result.totals), ("estimate.", result.estimate)):
        for field in fields(part):
            value = getattr(part, field.name)
            name = prefix + field.name
            if isinstance(value, np.ndarray):
                arrays[name] = value.astype(str) if value.dtype == object else value
            elif not isinstance(value, IncidentEstimate | StrataTotals | Strata):
                plain[name] = str(value) if isinstance(value, date) else value
    plain["strata.kind"] = result.totals.strata.kind
    arrays[PLAIN] = np.array(json.dumps(plain))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    with telling_disk_errors(path):
        write_hashed(path, buffer.getvalue())


def load_calibration(path: Path, key: str) -> Calibration | None:
    """A kept calibration; None where there is none, or what is there is damaged or another's."""
    from parity311.reporting.calibration import Calibration

    content = read_hashed(path)
    if content is None:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:
        arrays = {name: kept[name] for name in kept.files}
    plain = json.loads(str(arrays.pop(PLAIN)))
    if plain.get("key") != key:
        return None
    for name in ("geoid", "estimate.geoid", "estimate.reason"):
        arrays[name] = arrays[name].astype(object)
    values = arrays | plain
    for name in DATES:
        values[f"estimate.{name}"] = date.fromisoformat(values[f"estimate.{name}"])
    values["strata"] = tuple(values["strata"])
    strata = Strata(plain["strata.kind"], values["strata"], values["stratum_of_area"])
    totals = StrataTotals(strata=strata, **_part(StrataTotals, values, "totals.", ("strata",)))
    found = IncidentEstimate(**_part(IncidentEstimate, values, "estimate."))
    own = _part(Calibration, values, "", ("totals", "estimate"))
    return Calibration(**own, totals=totals, estimate=found)


def _part(kind: Any, values: dict[str, Any], prefix: str, but: tuple[str, ...] = ()) -> dict:
    return {f.name: values[prefix + f.name] for f in fields(kind) if f.name not in but}


@dataclass(frozen=True)
class Calibration:
    """What one calibration hands on.

    Examples
    --------
    >>> calibration.denominators.shape, calibration.intervals.shape
    ((6,), (6, 2))
    >>> bool((calibration.intervals[:, 0] <= calibration.intervals[:, 1]).all())
    True
    """

    domain: str
    estimator: str
    strata: tuple[str, ...]
    """Names of the strata, in the order of the arrays; the last is ``unknown``."""
    stratum_of_area: np.ndarray
    geoid: np.ndarray
    denominators: np.ndarray
    """(n_strata,) estimated incidents per window of 28 days."""
    intervals: np.ndarray
    """(n_strata, 2) 5th and 95th percentile of the joint draws."""
    draws: np.ndarray
    """(n_draws, n_strata) joint draws of the denominators."""
    reported: np.ndarray
    """(n_strata,) reported incidents per window of 28 days: the audit's other denominator."""
    complaints: np.ndarray
    """(n_strata,) complaints per window of 28 days."""
    households: np.ndarray
    """(n_strata,) households: the audit's third denominator."""
    totals: StrataTotals
    estimate: IncidentEstimate
    assumptions: str
    """Every assumption in words."""


def calibrate(
    records: Records,
    domain: str,
    *,
    date_from: date | None = None,
    date_to: date | None = None,
    strata: str = "income5",
    estimator: str = "exposure_rate",
    lifetime: Lifetime | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    cache: Path | None = None,
    table: ReportTable | None = None,
) -> Calibration:
    """Estimate how many incidents there were, reported or not, by stratum.

    The five steps are run on the records of one domain in [date_from, date_to).

    Parameters
    ----------
    strata
        How tracts are grouped: ``income5`` is by income quintile.
    estimator
        How complaints become incidents: ``exposure_rate`` from how soon others report the same,
        ``as_published`` by the published formula, ``raw`` as they are, and others.
    lifetime
        Law of natural lifetimes; estimated from the reports when not given.
    cache
        Folder in which results are kept; none are when not given.
    table
        The reports of these dates, where another estimator had them read already.

    Notes
    -----
    Where the records are mandatory filings (boilers), need is defective boiler-years and propensity
    is filed over registered boilers, unless ``as_published`` or ``raw`` is asked for.

    Examples
    --------
    >>> calibration = parity311.calibrate(records, "boiler", n_draws=200)
    >>> calibration.strata
    ('1', '2', '3', '4', '5', 'unknown')
    """
    check_estimator(estimator)
    date_from = date_from or records.window[0]
    date_to = date_to or records.window[1]
    lifetime = lifetime or estimated()
    key = CacheInputs(
        records=f"{records.fingerprint}, {records.strata}",
        domain=domain,
        date_from=str(date_from),
        date_to=str(date_to),
        strata=strata,
        estimator=estimator,
        lifetime=asdict(lifetime),
        n_draws=n_draws,
        seed=seed,
    ).key()
    path = cache / f"calibration-{key}.npz" if cache is not None else None
    kept = load_calibration(path, key) if path is not None else None
    if kept is not None:
        return kept
    areas = areas_from_records(records)
    groups = stratify(areas, strata)
    if table is None:
        table = reports_from_records(records, domain, areas, date_from=date_from, date_to=date_to)
    if holds_filings(records, domain) and estimator not in ("as_published", "raw"):
        settings = Settings(n_draws=n_draws, seed=seed)
        found = estimate_filings(records, domain, table, areas, settings)
    else:
        found = estimate(
            table, areas, estimator=estimator, lifetime=lifetime, n_draws=n_draws, seed=seed
        )
    totals = total_by_stratum(found, groups, np.random.default_rng(seed + 1))
    draws = totals.draws_per_28_days

    def by_stratum(values: np.ndarray) -> np.ndarray:
        return np.bincount(groups.of_area, values, minlength=len(groups.names))

    result = Calibration(
        domain=domain,
        estimator=found.estimator,
        strata=groups.names,
        stratum_of_area=groups.of_area,
        geoid=areas.geoid,
        denominators=totals.per_28_days,
        intervals=np.percentile(draws, INTERVAL, axis=0).T,
        draws=draws,
        reported=by_stratum(table.incidents_by_window().sum(axis=1)) / totals.windows_28d,
        complaints=by_stratum(table.n_reports.sum(axis=1)) / totals.windows_28d,
        households=by_stratum(areas.households),
        totals=totals,
        estimate=found,
        assumptions=found.assumption,
    )
    if path is not None:
        save_calibration(path, key, result)
    return result
