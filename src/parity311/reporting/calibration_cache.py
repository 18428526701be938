"""Keep calibrations on disk: arrays and plain text as NPZ behind their hash; no code."""

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

from parity311 import __version__
from parity311.reporting.incidents import Estimate
from parity311.reporting.strata import Strata, StrataTotals
from parity311.storage.disk import telling_disk_errors
from parity311.storage.hashes import read_hashed, write_hashed

if TYPE_CHECKING:
    from parity311.reporting.calibration import Calibration

PLAIN = "plain"
"""Name of the entry that holds everything that is not an array, as JSON."""
DATES = ("date_from", "date_to")


@dataclass(frozen=True)
class CacheInputs:
    """Everything that a calibration depends on, beside the software."""

    records: str
    """Fingerprint of the records."""
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
            elif not isinstance(value, Estimate | StrataTotals | Strata):
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
    found = Estimate(**_part(Estimate, values, "estimate."))
    own = _part(Calibration, values, "", ("totals", "estimate"))
    return Calibration(**own, totals=totals, estimate=found)


def _part(kind: Any, values: dict[str, Any], prefix: str, but: tuple[str, ...] = ()) -> dict:
    return {f.name: values[prefix + f.name] for f in fields(kind) if f.name not in but}
