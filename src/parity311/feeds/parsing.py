"""SQL expressions that turn the text of the sources into values, or into null.

Every function takes and gives a piece of DuckDB SQL. Rows are never touched in Python.
"""

from __future__ import annotations

EARLIEST = "1988-01-01"
"""First day a complaint can have: the oldest DOB complaint is of 1988-12-30; 1900-01-01 is the
agencies' placeholder."""

BOROUGH_DIGITS = {"MANHATTAN": 1, "BRONX": 2, "BROOKLYN": 3, "QUEENS": 4, "STATEN ISLAND": 5}
"""The city's number of each borough: first digit of BIN, BBL and community board."""

COUNTIES = {1: "061", 2: "005", 3: "047", 4: "081", 5: "085"}
"""FIPS county of each borough number; the state is 36."""


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def name(column: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + column.replace('"', '""') + '"'


def trimmed(expression: str) -> str:
    """Text without outer spaces; empty and N/A are null."""
    return f"nullif(nullif(trim({expression}), ''), 'N/A')"


def timestamp(expression: str) -> str:
    """Any of the date formats the city publishes; null where it is none of them.

    API ``2019-12-31T23:59:11.000``, CSV ``12/31/2019 11:59:11 PM``, DOB ``12/31/2019``, boiler
    ``12/31/2019 00:00:00``, DOB run date ``20191231000000``.
    """
    text = f"trim({expression})"
    return (
        f"CASE WHEN {text}[5] = '-' THEN TRY_CAST({text} AS TIMESTAMP) "
        f"WHEN {text}[3] = '/' OR {text}[2] = '/' THEN try_strptime({text}, "
        "['%m/%d/%Y %I:%M:%S %p', '%m/%d/%Y', '%m/%d/%Y %H:%M:%S']) "
        f"WHEN length({text}) = 14 THEN try_strptime({text}, '%Y%m%d%H%M%S') END"
    )


def known_timestamp(expression: str) -> str:
    """A timestamp, null also where it is the placeholder of 1900 or otherwise before any record."""
    value = timestamp(expression)
    return f"CASE WHEN ({value}) >= TIMESTAMP '{EARLIEST}' THEN ({value}) END"


def whole_number(expression: str) -> str:
    """Digits of a number that may have come through a float (``3073010050.0``)."""
    return f"regexp_replace(trim({expression}), '\\.0+$', '')"


def bbl(expression: str) -> str:
    """Borough, block and lot as ten digits; null for placeholders (no borough, no block)."""
    digits = whole_number(expression)
    return (
        f"CASE WHEN regexp_full_match({digits}, '[1-5][0-9]{{9}}') "
        f"AND substr({digits}, 2, 5) <> '00000' THEN {digits} END"
    )


def bin_number(expression: str) -> str:
    """Building number as seven digits; null for placeholders (borough digit and six zeros)."""
    digits = whole_number(expression)
    return (
        f"CASE WHEN regexp_full_match({digits}, '[1-5][0-9]{{6}}') "
        f"AND substr({digits}, 2) <> '000000' THEN {digits} END"
    )


def zip_code(expression: str) -> str:
    """Five digits or null."""
    digits = f"substr({whole_number(expression)}, 1, 5)"
    return f"CASE WHEN regexp_full_match({digits}, '[0-9]{{5}}') THEN {digits} END"


def borough_digit(expression: str) -> str:
    """Borough number of a borough's name in any case; null where unspecified."""
    cases = " ".join(f"WHEN '{label}' THEN {digit}" for label, digit in BOROUGH_DIGITS.items())
    return f"CASE upper(trim({expression})) {cases} END"


def board_311(expression: str) -> str:
    """Community board from ``09 QUEENS``: borough digit × 100 + board; null where unspecified."""
    text = f"trim({expression})"
    digit = borough_digit(f"substr({text}, 4)")
    return f"({digit}) * 100 + TRY_CAST(substr({text}, 1, 2) AS INTEGER)"


def address(borough: str, house: str, street: str | None = None) -> str:
    """One spelling of an address: borough digit, house number and street, single spaces."""
    whole = house if street is None else f"concat_ws(' ', trim({house}), trim({street}))"
    spelled = f"upper(trim(regexp_replace({whole}, '\\s+', ' ', 'g')))"
    return (
        f"CASE WHEN ({borough}) IS NOT NULL AND length({spelled}) > 3 "
        f"THEN ({borough}) || '|' || {spelled} END"
    )


def channel(expression: str) -> str:
    """The channel of a 311 row; what is not phone, online or mobile is OTHER."""
    text = f"upper(trim({expression}))"
    return f"CASE WHEN {text} IN ('PHONE', 'ONLINE', 'MOBILE') THEN {text} ELSE 'OTHER' END"
