"""What a domain declares about its incidents, as data: the generator reads it and knows no domain.

A `ComplaintProcess` says where and when something goes wrong, who reports it and how the agency
answers; a `FilingProcess` says the same of equipment that its owner must file every year. Every
number has a unit (beside its name here) and a source (``sources`` of the process, by field).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeAlias, get_type_hints

from parity311.errors import InputError


@dataclass(frozen=True)
class Delay:
    """A lognormal delay."""

    median_days: Annotated[float, "days"]
    log_sd: Annotated[float, "standard deviation of the logarithm"] = 0.0


@dataclass(frozen=True)
class Category:
    """One complaint code of a domain."""

    code: str
    title: str
    share: Annotated[float, "weight among the incidents of the domain"]
    hazard: Annotated[float, "mean of the latent hazard index (standard normal scale)"] = 0.0
    actionable: Annotated[float, "share of incidents that warrant a violation"] = 0.3
    no_access: Annotated[float, "share of attended cases that end without access"] = 0.1
    referral: Annotated[float, "share of cases referred to another unit at intake"] = 0.02
    other: Annotated[float, "share of cases closed administratively at intake"] = 0.02
    lifetime_factor: Annotated[float, "factor on the domain's mean lifetime"] = 1.0
    rate_factor: Annotated[float, "factor on the domain's reporting rate"] = 1.0
    lead: Annotated[Delay | None, "delay before a visit is scheduled; None: by code"] = None
    factor_2020: Annotated[float, "factor on its share in 2020"] = 1.0
    is_proactive: Annotated[bool, "found by the agency itself, once, not by residents"] = False
    needs_heating: Annotated[bool, "occurs only where heat is on, October to May"] = False


@dataclass(frozen=True)
class Flag:
    """A yes/no field taken down at intake, more or less telling."""

    name: str
    share: Annotated[float, "share of reports with the flag set"]
    log_odds_if_actionable: Annotated[float, "log odds added where the incident is actionable"]


@dataclass(frozen=True)
class Volume:
    """How many, and when."""

    complaints: Annotated[Mapping[int, float], "complaints a year in the whole city"]
    complaints_per_incident: Annotated[float, "complaints per incident, reported or not"]
    month_shares: Annotated[tuple[float, ...], "share of a year's complaints, January first"]
    month_factors_2020: Annotated[tuple[float, ...], "factor on each month of 2020"] = (1.0,) * 12
    temperature_slope: Annotated[float, "log rate per °F below the day's normal"] = 0.0


@dataclass(frozen=True)
class Places:
    """Where: the expected incidents of a building relative to others."""

    exposure: Annotated[str, "what an incident needs: units, elevators or boilers"] = "units"
    exposure_power: Annotated[float, "power of the exposure"] = 1.0
    exposure_offset: Annotated[float, "exposure that does not count, e.g. the owner's own"] = 0.0
    borough_shares: Annotated[
        tuple[float, ...] | None, "share of incidents by borough, in the order of BOROUGHS"
    ] = None
    quintile_rates: Annotated[
        tuple[float, ...] | None, "relative incidents per renter household by income quintile"
    ] = None
    slopes: Annotated[Mapping[str, float], "log rate per standard deviation of a tract's share"] = (
        field(default_factory=dict)
    )
    tract_sd: Annotated[float, "sd of log rate between tracts beyond the above"] = 0.3
    building_sd: Annotated[float, "sd of log rate between buildings, lasting"] = 0.8
    year_sd: Annotated[float, "sd of log rate of a building between years"] = 0.0
    month_sd: Annotated[float, "sd of log rate of a building between months"] = 0.0
    neglect_share: Annotated[
        float, "share of the lasting variance that all domains have in common"
    ] = 0.3
    tract_share: Annotated[float, "share of tracts where it can happen at all"] = 1.0


@dataclass(frozen=True)
class Hazard:
    """How bad, and how long."""

    lifetime_days: Annotated[float, "mean days until it ends without the city (exponential)"]
    code_shares: Annotated[tuple[float, float, float, float], "share of codes A, B, C, D"]
    code_noise_sd: Annotated[float, "sd of what the code taker adds to the hazard index"] = 0.6
    hazard_slope: Annotated[float, "log odds of actionable per unit of the hazard index"] = 1.0
    neglect_slope: Annotated[float, "log odds of actionable per sd of the building's log rate"] = (
        0.4
    )
    hazard_log_sd: Annotated[float, "sd of the logarithm of the hazard"] = 0.6


@dataclass(frozen=True)
class Reporting:
    """Who says so: reports per day while an incident is open."""

    rate_per_day: Annotated[float, "reports a day: reference building, hazard 0, average tract"]
    units_power: Annotated[float, "power of dwelling units"] = 0.15
    reference_units: Annotated[float, "dwelling units of the reference building"] = 20.0
    hazard_slope: Annotated[float, "log rate per unit of the hazard index"] = 0.15
    zero_inflation: Annotated[float, "share of incidents nobody reports a second time"] = 0.1
    again_after_answer: Annotated[
        float, "share of incidents reported on after a visit that found no violation"
    ] = 0.3
    hour_shares: Annotated[tuple[float, ...], "share of reports by hour of the day"] = ()
    weekday_shares: Annotated[tuple[float, ...], "share of reports, Monday first"] = ()


@dataclass(frozen=True)
class Service:
    """What the agency does about it."""

    visits_per_complaint: Annotated[float, "visits that can be made per complaint (calibrated)"]
    weekday_slots: Annotated[tuple[float, ...], "share of visits, Monday first"]
    leads: Annotated[tuple[Delay, Delay, Delay, Delay], "scheduling delay of codes A, B, C, D"]
    closing: Annotated[Delay, "delay from the last visit to closing"]
    intake: Annotated[Delay, "delay to an administrative closing or referral"]
    retry: Annotated[Delay, "delay from a visit without access to the next"]
    lead_factor_2020: Annotated[float, "factor on scheduling delays in 2020"] = 1.0
    max_attempts: Annotated[int, "visits without access before closing"] = 2
    expiry_days: Annotated[float, "days after which a case never visited is closed"] = 365.0
    scarce_expiry_days: Annotated[float, "the same where visits are scarce"] = 60.0
    scarce_visits_per_complaint: Annotated[float, "visits per complaint (scarce)"] = 0.30
    borough_no_access: Annotated[
        tuple[float, ...], "log odds of no access by borough, in the order of BOROUGHS"
    ] = (0.0,) * 5
    units_no_access: Annotated[float, "log odds of no access per log unit"] = 0.0
    renter_no_access: Annotated[float, "log odds of no access per sd of renter share"] = 0.0
    foreign_no_access: Annotated[float, "log odds of no access per sd of limited English"] = 0.0
    no_access_2020: Annotated[float, "log odds of no access added in 2020"] = 0.0
    ended_no_access: Annotated[
        float, "log odds of no access added where the incident has ended"
    ] = 0.0
    writing: Annotated[float, "chance that the median inspector writes up what is actionable"] = (
        0.85
    )
    strictness_sd: Annotated[float, "sd of its log odds between inspectors"] = 1.0
    n_inspectors: Annotated[int, "inspectors of the domain"] = 60
    callback_days: Annotated[
        float | None, "mean days until a call finds that an incident has ended; None: no calls"
    ] = None
    eased: Annotated[
        float, "share of visits to a live incident that is not actionable told it has eased"
    ] = 0.0
    codes: Annotated[
        Mapping[str, tuple[tuple[str, float], ...]],
        "disposition codes of a class with their weights",
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class ComplaintProcess:
    """Incidents that residents report, of one domain."""

    slug: str
    agency: str
    categories: tuple[Category, ...]
    volume: Volume
    places: Places
    hazard: Hazard
    reporting: Reporting
    service: Service
    flags: tuple[Flag, ...] = ()
    category_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Intake fields that only restate the recorded category: name, and codes that set it."""
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FilingProcess:
    """Equipment whose owner must file an inspection every year, of one domain."""

    slug: str
    agency: str
    first_year: Annotated[int, "year of the first filings"]
    filings: Annotated[Mapping[int, float], "filings a year in the whole city"]
    defect_after_years: Annotated[
        Mapping[int, float], "chance of a defect by years since the last one, interpolated"
    ]
    defect_share: Annotated[float, "share of filings with a defect"]
    memory_years: Annotated[int, "years after which an old defect no longer matters"]
    neglect_sd: Annotated[float, "sd of an owner's neglect (log odds of a defect)"]
    tract_sd: Annotated[float, "sd of log odds of a defect between tracts"]
    age_slope: Annotated[float, "log odds of a defect per 50 years of the building's age"]
    filed_neglect_slope: Annotated[float, "log odds of filing per sd of neglect"]
    filed_english_slope: Annotated[float, "log odds of filing per sd of limited English"]
    month_shares: Annotated[tuple[float, ...], "share of filings by month, January first"]
    high_pressure_share: Annotated[float, "share of boilers under high pressure"]
    high_pressure_log_odds: Annotated[float, "log odds of a defect under high pressure"]
    internal_share: Annotated[float, "share of filings after an internal inspection"]
    internal_log_odds: Annotated[float, "log odds of a defect seen at an internal inspection"]
    late_45_share: Annotated[float, "share with a fee for filing 45 days late, no defect"]
    late_45_log_odds: Annotated[float, "log odds added by a defect"]
    late_180_share: Annotated[float, "share with a fee for correcting 180 days late, no defect"]
    late_180_log_odds: Annotated[float, "log odds added by a defect"]
    late_neglect_slope: Annotated[float, "log odds of either fee per sd of neglect"]
    repair_days: Annotated[float, "mean days until the owner repairs a defect unprompted"]
    visits_per_filing: Annotated[float, "visits per filing (calibrated)"]
    scarce_visits_per_filing: Annotated[float, "visits per filing (scarce)"]
    expiry_days: Annotated[float, "days after which an unvisited filing is put away"]
    no_access: Annotated[float, "share of visits without access"]
    weekday_slots: Annotated[tuple[float, ...], "share of visits, Monday first"]
    closing: Annotated[Delay, "delay from the visit to closing"]
    sources: Mapping[str, str] = field(default_factory=dict)


Process: TypeAlias = ComplaintProcess | FilingProcess


def describe_parameters(process: Process) -> dict[str, dict[str, Any]]:
    """Every constant of a process by its path, with value, unit and source."""
    found: dict[str, dict[str, Any]] = {}
    _collect(process, "", found)
    for path, entry in found.items():
        entry["source"] = _source_of(process, path)
    return found


def _collect(node: Any, prefix: str, found: dict[str, dict[str, Any]]) -> None:
    hints = get_type_hints(type(node), include_extras=True)
    for item in fields(node):
        value = getattr(node, item.name)
        path = f"{prefix}{item.name}"
        if hasattr(hints[item.name], "__metadata__"):
            unit = hints[item.name].__metadata__[0]
            found[path] = {"value": _plain(value), "unit": unit}
        elif is_dataclass(value):
            _collect(value, f"{path}.", found)
        elif item.name in ("categories", "flags"):
            for entry in value:
                name = entry.code if isinstance(entry, Category) else entry.name
                _collect(entry, f"{path}.{name}.", found)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value


def _source_of(process: Process, path: str) -> str:
    """Source of the longest declared path that this one lies under."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        source = process.sources.get(".".join(parts[:length]))
        if source:
            return source
    raise InputError(
        f"Domain {process.slug!r} gives no source for its parameter {path!r}; add it to "
        "`sources` of its process."
    )
