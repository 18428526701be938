"""What an audit will measure, written down and hashed before anybody sees a result.

A specification is a frozen value; TOML at the edge. Its hash covers every field, so that a changed
threshold or a swapped denominator is a different specification and shows as one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from parity311.errors import InputError, unknown_name
from parity311.limits import LARGEST_GAP, LARGEST_SEED, SMALL_RATE, ratio_of_gap
from parity311.records.strata import GROUPED_BY
from parity311.storage.strict_json import canonical_json, to_plain
from parity311.storage.toml_files import checked, read_toml

SPEC_VERSION = 1
"""Rises when a specification written earlier would mean something else now."""

MOST_DRAWS = 1_000_000
"""Resamples beyond which memory, not the band, would be the result."""

ESTIMANDS = {
    "served": "a visit found a violation within the service level of the case's severity code",
    "visited": "somebody got in within the service level of the case's severity code",
    "enforced": "a visit found a violation, however late",
    "as_given": "the table that was given says that the complaint was served",
}
"""What may be counted, in words."""
POLARITIES = {
    "benefit": "more of it is better for who gets it",
    "burden": "more of it weighs on who gets it (penalties, orders, intrusion)",
}
DENOMINATORS = {
    "complaints": "every report received, duplicates included",
    "cases": "cases as the agency linked them",
    "incidents": "estimated incidents, corrected for who reports",
    "actionable": "estimated incidents that a visit would find actionable",
    "dwellings": "dwelling units in the area",
}
"""What a count may be divided by, in words."""
STRATA = {
    **GROUPED_BY,
    "race_majority": "the group that makes up half of the tract or more, or mixed",
    "language": "the language the case was first reported in",
    "channel": "the way the case was first reported",
}
"""Ways of grouping, in words."""
STRATA_SETS = {
    **{name: (name,) for name in STRATA},
    "race": ("race5", "race_majority"),
    "all": tuple(STRATA),
}
"""What ``--strata`` accepts."""


@dataclass(frozen=True)
class AuditSpec:
    """One audit, decided beforehand.

    Examples
    --------
    >>> spec = parity311.AuditSpec(strata=("income5", "language"), tau=0.1)
    >>> len(spec.sha256)
    64
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # an unknown key must not vanish silently

    spec_version: int = SPEC_VERSION
    estimand: str = "served"
    """What is counted; one of `ESTIMANDS`."""
    polarity: str = "benefit"
    """Whether being counted is a benefit or a burden; decides who is called worst off."""
    strata: tuple[str, ...] = ("income5",)
    denominators: tuple[str, ...] = ("complaints", "incidents", "dwellings")
    primary_strata: str = "income5"
    """Strata of the one primary contrast of each domain: its trend over tracts, given severity,
    corrected over domains by Holm; every other test is corrected by Benjamini and Hochberg."""
    tau: float = LARGEST_GAP
    """Largest gap that passes (the paper's recommendation)."""
    ratio_below: float = SMALL_RATE
    """Mean rate below which the verdict uses the ratio: a gap of 0.05 cannot show at a rate of
    0.01 however unequal the strata are."""
    ratio_floor: float | None = None
    """Smallest ratio that passes; None: the ratio a gap of tau makes at the mean rate
    ``ratio_below``, 0.778 for the defaults, so that the two rules meet where they change over."""
    level: float = 0.95
    """Joint confidence of each band."""
    n_draws: int = 2000
    """Resamples of tracts, each with its own draw of the reporting estimates."""
    minimum_events: int = 10
    """A stratum whose denominator is smaller is insufficient, and cells below it are not
    published."""
    minimum_tracts: int = 5
    """A stratum with fewer tracts is insufficient: its spread over tracts cannot be known. With
    five, simulated bands still cover (tests/statistics/test_audit_gap.py)."""
    date_from: str | None = None
    """First day (ISO); None: as the run says."""
    date_to: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _check_names(self)
        _check_numbers(self)

    @property
    def smallest_ratio(self) -> float:
        """The ratio of lowest to highest rate that still passes."""
        if self.ratio_floor is not None:
            return self.ratio_floor
        return ratio_of_gap(self.tau, self.ratio_below)

    @property
    def sha256(self) -> str:
        """Hash of every field; equal specifications have equal hashes."""
        return hashlib.sha256(canonical_json(self).encode()).hexdigest()


def _check_names(spec: AuditSpec) -> None:
    if spec.spec_version != SPEC_VERSION:
        raise InputError(
            f"The audit specification has spec_version {spec.spec_version}; this version reads "
            f"{SPEC_VERSION}. Write it again from `AuditSpec`."
        )
    for kind, given, allowed in (
        ("estimand", (spec.estimand,), ESTIMANDS),
        ("polarity", (spec.polarity,), POLARITIES),
        ("strata", (*spec.strata, spec.primary_strata), STRATA),
        ("denominator", spec.denominators, DENOMINATORS),
    ):
        for name in given:
            if name not in allowed:
                raise unknown_name(kind, name, allowed)
    if not spec.strata or not spec.denominators:
        raise InputError("An audit needs at least one way to group and one denominator; name one.")


def _check_numbers(spec: AuditSpec) -> None:
    for name in ("tau", "level", "ratio_below", "ratio_floor"):
        value = getattr(spec, name)
        if value is not None and not 0.0 < value < 1.0:
            raise InputError(f"{name} is {value}; it must lie between 0 and 1. Change it.")
    if spec.n_draws < 100:
        raise InputError(
            f"n_draws is {spec.n_draws}; fewer than 100 resamples leave no tail to read a band "
            "from. 2000 is usual."
        )
    if spec.n_draws > MOST_DRAWS or not 0 <= spec.seed <= LARGEST_SEED:
        raise InputError(
            f"n_draws is {spec.n_draws} and seed {spec.seed}; allowed are up to {MOST_DRAWS:,} "
            f"draws and seeds from 0 to {LARGEST_SEED:,}."
        )
    for name in ("minimum_events", "minimum_tracts"):
        if getattr(spec, name) < 2:
            raise InputError(f"{name} is {getattr(spec, name)}; it must be at least 2.")


def read_spec(path: str | Path) -> AuditSpec:
    """Read a specification from TOML; an unknown key, a wrong type or value is one clear line."""
    return spec_from_plain(read_toml(path))


def spec_from_plain(plain: Any) -> AuditSpec:
    """Check and build a specification from plain values (what TOML or a run holds)."""
    return checked(AuditSpec, plain, "Audit specification")


def write_spec(spec: AuditSpec) -> str:
    """The specification as TOML text, with its hash in the first line."""
    lines = [f"# sha256 {spec.sha256}"]
    for name, value in to_plain(spec).items():
        if value is not None:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def with_options(
    spec: AuditSpec, *, strata: str | None = None, tau: float | None = None
) -> AuditSpec:
    """The specification with what the command line asked for."""
    if strata is not None:
        if strata not in STRATA_SETS:
            raise unknown_name("strata", strata, STRATA_SETS)
        spec = replace(spec, strata=STRATA_SETS[strata])
    return spec if tau is None else replace(spec, tau=tau)
