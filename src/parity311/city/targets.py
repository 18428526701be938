"""What the records of New York say: the figures a synthetic city is measured against.

Tolerances: 10 % for volumes (two standard deviations of the count where that is more), 2 points
for shares, 15 % for quantiles and means of closing days, except where the source is a small
sample: then the 95 % interval of its order statistics. Correlations of tracts: 0.10. Targets are
not chosen by whether the city reaches them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parity311.city.profiles import DOB_COMPLAINTS, DOB_MONTH_SHARES, HOUR_SHARES, WEEKDAY_SHARES
from parity311.records.schema import BOROUGHS

ZOOROB = "michaelzoorob/dob-complaints-analysis, 783,289 DOB complaints of 2020-01 to 2026-05"
MEHRI = "dariusmehri/311-HPD-and-DOB-Complaint-Comparison"
ALIHASAN = "AliHasan-786/nyc-housing-inspection-rl"
POOJA = "poojachaudhuri/project-4, 106,132 address-years of 2020-22"
STEVE = "Steveelorm80/analytics, July 2025 to June 2026, closed only"
ROWS = "311 rows of mixed samples, computed"
LIU = "Liu, Bhandaram and Garg, New York parks"
PAPER = "the paper"
MUNIPALLI = "ayurmunipalli/silent-fail-forecast, 114,344 class C heat violations"


@dataclass(frozen=True)
class Target:
    """One figure of the records, and how near the city should come to it."""

    name: str
    measure: str
    """Key of the city's own figure (describe.py)."""
    value: float
    low: float
    high: float
    tolerance: str
    source: str
    kind: str = "outcome"
    """outcome: comes out of the process; parameter: read back from what was put in."""
    participation: str | None = "measured"
    """Scenario it applies to; None: any."""
    capacity: str | None = "calibrated"

    def holds_for(self, participation: str, capacity: str) -> bool:
        """Whether the figure is meant to be reached in this scenario."""
        return self.participation in (None, participation) and self.capacity in (None, capacity)


def _volume(name: str, measure: str, value: float, source: str, **keywords: str | None) -> Target:
    share = max(0.10, 2.0 / value**0.5)
    text = "±10 %" if share == 0.10 else f"±2 sd of a count of {value:.0f}"
    low, high = value * (1.0 - share), value * (1.0 + share)
    return Target(name, measure, value, low, high, text, source, **keywords)  # type: ignore[arg-type]


def _share(name: str, measure: str, value: float, source: str, **keywords: str | None) -> Target:
    low, high = value - 0.02, value + 0.02
    return Target(name, measure, value, low, high, "±2 points", source, **keywords)  # type: ignore[arg-type]


def _relative(
    name: str, measure: str, value: float, source: str, share: float = 0.15, **keywords: str | None
) -> Target:
    low, high = value * (1.0 - share), value * (1.0 + share)
    text = f"±{share:.0%}".replace("%", " %")
    return Target(name, measure, value, low, high, text, source, **keywords)  # type: ignore[arg-type]


def _interval(
    name: str, measure: str, value: float, low: float, high: float, n: int, source: str
) -> Target:
    return Target(name, measure, value, low, high, f"95 % interval of n = {n}", source)


def _correlation(name: str, measure: str, value: float, source: str) -> Target:
    return Target(name, measure, value, value - 0.10, value + 0.10, "±0.10", source)


def all_targets() -> tuple[Target, ...]:
    """Every target, in the order in which they are shown."""
    parts = (
        _volumes,
        _building_outcomes,
        _category_outcomes,
        _housing_outcomes,
        _access,
        _closing_days,
        _mean_days,
        _profiles,
        _places,
        _addresses,
        _repeats,
        _reporting,
        _filings,
        _intake,
    )
    return tuple(target for part in parts for target in part())


def _volumes() -> Iterator[Target]:
    for year in range(2020, 2026):
        value = DOB_COMPLAINTS[year]
        yield _volume(f"DOB complaints {year}", f"volume/dob/{year}", value, ALIHASAN)
    heat = {2020: 164_990, 2021: 199_547, 2022: 264_380}
    for year, value in heat.items():
        yield _volume(f"heat complaints {year}", f"volume/heat/{year}", value, POOJA)
    yield _volume(
        "heat complaints, last 12 months", "volume/heat/last", 359_000, "311, to October 2026"
    )
    yield _volume("housing complaints 2020", "volume/housing/2020", 249_512, MEHRI)
    yield _volume("elevator complaints 2020-25", "volume/elevator/2020-2025", 103_598, PAPER)
    yield _volume("ERT complaints 2020", "volume/ert/2020", 3_665, MEHRI)
    yield _volume("electrical complaints 2020", "volume/electrical_revisit/2020", 1_734, MEHRI)
    yield _volume("crane complaints 2020", "volume/crane/2020", 107, MEHRI)
    yield _volume("SNAD complaints 2020", "volume/snad/2020", 42, MEHRI)
    yield _volume("SNAD complaints 2024-01 to 2026-03", "volume/snad/2024-2026q1", 87, PAPER)
    per_year = 22_308 / 77 * 12
    yield _volume("code 23 a year", "volume/category/23", per_year, ZOOROB)
    per_year = 25_127 / 77 * 12
    yield _volume("code 30 a year", "volume/category/30", per_year, ZOOROB)
    yield _volume("code 45 a year", "volume/category/45", 77_378 / 77 * 12, ZOOROB)
    yield _volume("COVID-19 complaints 2020", "volume/covid", 6_657, MEHRI)
    yield _relative("boards with elevator complaints", "volume/boards", 59, PAPER, 0.10)


def _building_outcomes() -> Iterator[Target]:
    shares = {
        "violation": 0.223,
        "no_violation": 0.482,
        "no_access": 0.177,
        "referral or duplicate": 0.081,
        "other": 0.037,
        "pending": 0.001,
    }
    for name, value in shares.items():
        yield _share(f"DOB outcome: {name}", f"outcome/dob/{name}", value, ZOOROB)
    yield _share("DOB violations served as A8", "outcome/dob/A8", 0.789, ZOOROB, kind="parameter")
    yield _share("DOB raised by the agency", "outcome/dob/agency", 0.319, ZOOROB)
    units = {
        "elevator": ("elevator", 0.480, 0.006),
        "electrical": ("electrical_revisit", 0.420, 0.260),
        "ERT": ("ert", 0.266, 0.113),
    }
    for name, (domain, violation, no_access) in units.items():
        what = f"{name}: violations of what was seen"
        yield _share(what, f"unit/{domain}/violation", violation, ZOOROB)
        what = f"{name}: no access of what was attended"
        yield _share(what, f"unit/{domain}/no_access", no_access, ZOOROB)


_CATEGORIES = {
    "45": (0.097, 0.151, 0.661),
    "05": (0.141, 0.457, 0.310),
    "6S": (0.350, 0.361, 0.005),
    "7J": (0.115, 0.575, 0.247),
    "6M": (0.296, 0.355, 0.004),
    "30": (0.395, 0.442, 0.103),
    "58": (0.392, 0.284, 0.185),
    "23": (0.282, 0.666, 0.001),
    "04": (0.033, 0.857, 0.056),
    "8A": (0.573, 0.415, 0.000),
    "7G": (0.088, 0.902, 0.001),
}


def _category_outcomes() -> Iterator[Target]:
    for code, values in _CATEGORIES.items():
        for outcome, value in zip(("violation", "no_violation", "no_access"), values, strict=True):
            name = f"code {code}: {outcome}"
            yield _share(name, f"category/{code}/{outcome}", value, ZOOROB)


def _housing_outcomes() -> Iterator[Target]:
    heat = {
        "duplicate": 0.304,
        "no_violation": 0.336,
        "restored": 0.272,
        "no_access": 0.245,
        "violation": 0.034,
        "other": 0.081,
    }
    for name, value in heat.items():
        source = f"{ROWS}: 655 closed heat complaints"
        yield _share(f"heat outcome: {name}", f"outcome/heat/{name}", value, source)
    yield _share(
        "heat complaints of a case with a violation",
        "outcome/heat/inherited",
        0.071,
        "austensen/heatseek-blogs, season 2017-18, 216,588 complaints",
    )
    housing = {"no_access": 0.366, "no_violation": 0.392, "violation": 0.211, "duplicate": 0.023}
    for name, value in housing.items():
        source = f"{ROWS}: 1,071 closed HPD complaints other than heat"
        yield _share(f"housing outcome: {name}", f"outcome/housing/{name}", value, source)


def _access() -> Iterator[Target]:
    for borough, value in zip(BOROUGHS, (0.147, 0.201, 0.095, 0.308, 0.215), strict=True):
        yield _share(f"DOB no access, {borough}", f"access/{borough}", value, ZOOROB)
    yield _correlation("DOB no access of tracts and renters", "access/renter", -0.41, ZOOROB)


_CLOSING = {
    "heat": ("heat", 698, (0.98, 1.87, 2.60, 3.23), None),
    "elevator": (
        "elevator",
        67,
        (0.70, 5.32, 19.05, 105.0),
        ((0.0, 2.14), (3.25, 12.33), (12.49, 76.27), (39.11, 132.67)),
    ),
    "Building/Use": (
        "building_use",
        82,
        (2.64, 36.4, 88.1, 222.9),
        ((0.35, 14.57), (20.56, 55.07), (60.08, 200.5), (160.5, 246.5)),
    ),
    "General Construction": (
        "construction",
        135,
        (0.25, 1.26, 8.56, 44.5),
        ((0.0, 0.46), (1.07, 2.67), (4.14, 20.07), (20.42, 148.6)),
    ),
    "UNSANITARY": (
        "UNSANITARY CONDITION",
        279,
        (4.69, 8.61, 18.79, 53.8),
        ((4.02, 5.43), (7.18, 9.41), (16.58, 27.24), (37.65, 70.76)),
    ),
    "PLUMBING": (
        "PLUMBING",
        171,
        (2.84, 7.67, 21.0, 44.0),
        ((1.91, 3.77), (6.02, 9.63), (17.56, 28.56), (30.62, 89.92)),
    ),
}


def _closing_days() -> Iterator[Target]:
    for name, (group, n, values, bounds) in _CLOSING.items():
        for position, quantile in enumerate(("p25", "p50", "p75", "p90")):
            label, measure = f"closing days {name}, {quantile}", f"closing/{group}/{quantile}"
            if bounds is None:
                yield _relative(label, measure, values[position], STEVE)
            else:
                low, high = bounds[position]
                yield _interval(label, measure, values[position], low, high, n, STEVE)


def _mean_days() -> Iterator[Target]:
    means = {
        "heat": ("heat", 2.13),
        "elevator": ("elevator", 22.2),
        "Building/Use": ("building_use", 109.9),
        "General Construction": ("construction", 24.1),
        "UNSANITARY": ("UNSANITARY CONDITION", 26.9),
        "PLUMBING": ("PLUMBING", 23.7),
        "scaffold": ("scaffold", 5.3),
        "ERT": ("ert", 5.1),
    }
    for name, (group, value) in means.items():
        yield _relative(f"mean closing days 2020, {name}", f"mean_2020/{group}", value, MEHRI)


def _profiles() -> Iterator[Target]:
    source = "311 heat complaints, computed"
    yield _share("heat in January", "month/heat/1", 0.200, source)
    yield _share("heat in July", "month/heat/7", 0.012, source)
    yield _share("heat in November", "month/heat/11", 0.150, source)
    yield _share("DOB in June", "month/dob/6", DOB_MONTH_SHARES[5], ZOOROB)
    yield _share("DOB in February", "month/dob/2", DOB_MONTH_SHARES[1], ZOOROB)
    source = "311 heat complaints of 2020-26, 6,419 rows, computed"
    yield _share("heat at 3 o'clock", "hour/heat/3", HOUR_SHARES[3], source)
    yield _share("heat at 10 o'clock", "hour/heat/10", HOUR_SHARES[10], source)
    yield _share("heat at 18 o'clock", "hour/heat/18", HOUR_SHARES[18], source)
    yield _share("heat on Tuesdays", "weekday/heat/2", WEEKDAY_SHARES[1], source)
    yield _share("heat on Sundays", "weekday/heat/7", WEEKDAY_SHARES[6], source)


def _places() -> Iterator[Target]:
    for borough, value in zip(BOROUGHS, (0.359, 0.276, 0.220, 0.134, 0.011), strict=True):
        yield _share(f"heat in {borough}", f"borough/heat/{borough}", value, POOJA)
    for borough, value in zip(BOROUGHS, (0.143, 0.349, 0.194, 0.268, 0.046), strict=True):
        yield _share(f"DOB in {borough}", f"borough/dob/{borough}", value, ZOOROB)
    for quintile, value in enumerate((359, 364, 295, 219, 128), start=1):
        name = f"heat per 1,000 renter households, quintile {quintile}"
        yield _relative(name, f"quintile/heat/{quintile}", value, POOJA, 0.10)
    correlations = {
        "median_income": -0.30,
        "share_black": 0.40,
        "share_hispanic": 0.25,
        "share_asian": -0.28,
        "share_bachelors": -0.24,
        "share_limited_english": 0.18,
    }
    for name, value in correlations.items():
        label = f"heat rate of tracts and {name.replace('_', ' ')}"
        yield _correlation(label, f"correlation/heat/{name}", value, POOJA)
    name = "DOB per 100 units of tracts, p90 over p10"
    yield _relative(name, "tract_ratio/dob", 3.7, ZOOROB)
    name = "residential buildings with a DOB complaint"
    yield _share(name, "buildings/dob/any", 0.234, ZOOROB)


def _addresses() -> Iterator[Target]:
    quantiles = {"p50": 2, "p75": 5, "p90": 12, "p95": 21, "p99": 60}
    for name, value in quantiles.items():
        yield _relative(f"heat per address-year, {name}", f"address/{name}", value, POOJA)
    yield _share("heat of the top 1 % of address-years", "address/top1", 0.228, POOJA)
    yield _share("heat of the top 10 % of address-years", "address/top10", 0.584, POOJA)
    yield _share("Gini of heat per address-year", "address/gini", 0.673, POOJA)
    yield _volume("address-years with heat complaints", "address/count", 106_132, POOJA)
    yield _share("addresses with heat in one of three years", "address/one_year", 0.576, POOJA)
    yield _share(
        "buildings of 2-5 units without heat complaint", "address/none/2", 0.784, MUNIPALLI
    )
    yield _share("buildings of 50+ units without", "address/none/50", 0.168, MUNIPALLI)


def _repeats() -> Iterator[Target]:
    source = "311 heat complaints of 1,313 lots of 2020-26, computed"
    for days, value in ((1, 0.193), (7, 0.441), (14, 0.517)):
        name = f"heat within {days} d of the one before, quiet buildings"
        yield _share(name, f"repeat/{days}", value, source)
    units = {2: (2, 0.525), 6: (2, 0.664), 20: (3, 0.744), 50: (5, 0.808)}
    for least, (median, share) in units.items():
        label = f"heat complaints in 14 d before a violation, {least}+ units"
        yield _relative(f"{label}, median", f"before/{least}/median", median, MUNIPALLI)
        yield _share(f"{label}, two or more", f"before/{least}/repeated", share, MUNIPALLI)


def _reporting() -> Iterator[Target]:
    name = "sd of log reporting rate between tracts, heat"
    yield _relative(name, "reporting/sd", 0.26, LIU, participation="measured")
    yield _relative("reports per heat case", "reporting/per_case", 1.47, LIU, 0.10)
    name = "reporting rate, quintile 5 over 1"
    source = "scenario: the widest ratio between neighbourhoods, Liu, Bhandaram and Garg"
    yield _relative(
        name, "reporting/ratio", 3.0, source, 0.10, kind="parameter", participation="strong",
        capacity=None,
    )  # fmt: skip
    name = "visits per complaint"
    source = "scenario: visits for 30 % of complaints"
    yield _share(
        name, "service/visits", 0.30, source, kind="parameter", participation=None,
        capacity="scarce",
    )  # fmt: skip


def _filings() -> Iterator[Target]:
    yield _volume("boiler filings 2017", "filings/2017", 88_798, "cyrusblankinship")
    yield _volume("boiler filings 2018", "filings/2018", 85_329, "cyrusblankinship")
    yield _volume("boiler filings in all", "filings/all", 834_338, PAPER)
    keywords = {"participation": None, "capacity": None}
    yield _share("boiler filings with a defect", "filings/defect", 0.08, PAPER, **keywords)
    table = {1: 0.457, 2: 0.215, 3: 0.140, 4: 0.119, 5: 0.103}
    for years, value in table.items():
        name = f"boiler defect {years} y after the last"
        yield _share(name, f"filings/after/{years}", value, "bendnorman", **keywords)


def _intake() -> Iterator[Target]:
    source = "design: a score of AUC 0.76"
    yield Target(
        "AUC of what intake knows for actionable heat", "intake/auc", 0.76, 0.73, 0.79, "±0.03",
        source, participation=None, capacity=None,
    )  # fmt: skip
    source = "311 heat descriptor ENTIRE BUILDING"
    yield _share("heat of an entire building", "intake/building_wide", 0.666, source)
