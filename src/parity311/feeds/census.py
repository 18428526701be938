"""American Community Survey figures by tract, from the answers of the Census API.

The API answers with a JSON array whose first row names the columns; every value is text, and what
is not published is a large negative code. At most 50 variables fit into one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity311.errors import RecordsError

CENSUS_ADDRESS = "https://api.census.gov/data"
MAX_VARIABLES = 50
STATE = "36"
NYC_COUNTIES = ("005", "047", "061", "081", "085")

VARIABLES: dict[str, str] = {
    "population": "B01003_001E",
    "households": "B25003_001E",
    "median_income": "B19013_001E",
    "median_year_built": "B25035_001E",
}
"""Figures that are one variable (households are the occupied dwellings of the tenure table)."""

RATIOS: dict[str, tuple[tuple[str, ...], str]] = {
    "share_white": (("B03002_003E",), "B03002_001E"),
    "share_black": (("B03002_004E",), "B03002_001E"),
    "share_asian": (("B03002_006E",), "B03002_001E"),
    "share_hispanic": (("B03002_012E",), "B03002_001E"),
    "share_renter": (("B25003_003E",), "B25003_001E"),
    "share_bachelors": (
        ("B15003_022E", "B15003_023E", "B15003_024E", "B15003_025E"),
        "B15003_001E",
    ),
    "share_limited_english": (
        ("C16002_004E", "C16002_007E", "C16002_010E", "C16002_013E"),
        "C16002_001E",
    ),
}
"""Figures that are a sum of variables over another."""


def all_variables() -> tuple[str, ...]:
    """Every variable that is asked for, each once."""
    names = list(VARIABLES.values())
    for parts, whole in RATIOS.values():
        names += [*parts, whole]
    return tuple(dict.fromkeys(names))


def census_queries(
    key: str, state: str = STATE, counties: Sequence[str] = NYC_COUNTIES
) -> list[dict[str, Any]]:
    """Parameters of the calls that bring all variables; one county a call keeps answers small."""
    names = all_variables()
    chunks = [names[i : i + MAX_VARIABLES - 1] for i in range(0, len(names), MAX_VARIABLES - 1)]
    return [
        {
            "get": ",".join(("NAME", *chunk)),
            "for": "tract:*",
            "in": f"state:{state} county:{county}",
            "key": key,
        }
        for county in counties
        for chunk in chunks
    ]


def figures_from_answers(
    answers: Sequence[Sequence[Sequence[str | None]]],
) -> tuple[NDArray[np.str_], dict[str, NDArray[np.float64]]]:
    """Join answers by tract and compute the figures; codes for missing values become NaN.

    Returns
    -------
    GEOIDs in order, and the arrays named in `VARIABLES` and `RATIOS`.
    """
    raw: dict[str, dict[str, float]] = {}
    for answer in answers:
        header = [str(name) for name in answer[0]]
        for needed in ("state", "county", "tract"):
            if needed not in header:
                raise RecordsError(
                    f"A Census answer has no column {needed!r}; it has {', '.join(header)}. Ask "
                    "for=tract:* in a state and county."
                )
        at = [header.index(part) for part in ("state", "county", "tract")]
        for row in answer[1:]:
            geoid = "".join(str(row[i]) for i in at)
            values = raw.setdefault(geoid, {})
            for name, text in zip(header, row, strict=True):
                if name.endswith("E") and "_" in name:
                    values[name] = _value(text)
    geoids = np.array(sorted(raw))

    def column(name: str) -> NDArray[np.float64]:
        return np.array([raw[geoid].get(name, np.nan) for geoid in geoids])

    figures = {name: column(variable) for name, variable in VARIABLES.items()}
    for name, (parts, whole) in RATIOS.items():
        total = column(whole)
        part = np.sum([column(variable) for variable in parts], axis=0)
        figures[name] = np.divide(part, total, out=np.full(len(total), np.nan), where=total > 0)
    return geoids, figures


def _value(text: str | None) -> float:
    """A number, NaN where it is absent or a code for not published."""
    if text in (None, ""):
        return float("nan")
    value = float(text)
    return float("nan") if value <= -111_111_111 else value


def check_answer(answer: Any, year: int) -> list[list[str | None]]:
    """A Census answer as rows; refuse what is not one."""
    if not isinstance(answer, list) or not answer or not isinstance(answer[0], list):
        shown = str(answer)[:80] if not isinstance(answer, Mapping) else "an object"
        raise RecordsError(
            f"The Census answered for {year} with {shown} instead of rows; check the year and the "
            "key (CENSUS_API_KEY)."
        )
    return answer
