"""SQL expressions that turn the text of the sources into values, or into null.

Every function takes and gives a piece of DuckDB SQL. Rows are never touched in Python. An
expression inside CASE is computed once for each place it is written at, so readers compute values
in an inner query and judge them in an outer one.
"""

from __future__ import annotations

from typing import LiteralString

from parity311.records.sql import branches, literal, literals

EARLIEST = "1988-01-01"
"""First day a complaint can have: the oldest DOB complaint is of 1988-12-30; 1900-01-01 is the
agencies' placeholder."""

BOROUGH_DIGITS = {"MANHATTAN": 1, "BRONX": 2, "BROOKLYN": 3, "QUEENS": 4, "STATEN ISLAND": 5}
"""The city's number of each borough: first digit of BIN, BBL and community board."""

COUNTIES = {1: "061", 2: "005", 3: "047", 4: "081", 5: "085"}
"""FIPS county of each borough number; the state is 36."""

TIME_ZONE = "America/New_York"
"""Whose clock New York's feeds use; times with a UTC offset are turned to it."""

TIME_FORMATS = (" %I:%M:%S %p", "", " %H:%M:%S", " %I:%M %p", " %H:%M")
"""What may follow a date that is no ISO."""
NAMED_DAYS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y", "%d %b %y", "%Y %b %d")
"""Dates with the month's name, once commas, dashes and dots are spaces."""
PARTS = "^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{2,4})"
"""A date of three numbers with the year last: which of the others is the day, it does not say."""
SERIAL = "^[2-5][0-9]{4}([.][0-9]+)?$"
"""Days since 30 December 1899 (1954 to 2064), as Excel counts where a cell's format is lost."""
OFFSET = r"^[0-9]{4}-.*:[0-9.]+ ?(Z|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2})?)\s*$"
"""A time of a known day with its distance from Greenwich."""


def trimmed(expression: LiteralString) -> LiteralString:
    """Text without outer spaces; empty and N/A are null."""
    return f"nullif(nullif(trim({expression}), ''), 'N/A')"


def timestamp(
    expression: LiteralString, *, day_first: bool = False, zone: str | None = TIME_ZONE
) -> LiteralString:
    """Any of the date formats that cities publish, by the city's clock; null where it is none.

    API ``2019-12-31T23:59:11.000``, with a UTC offset ``2019-12-31T23:59:11Z``, CSV
    ``12/31/2019 11:59:11 PM``, DOB ``12/31/2019``, boiler ``12/31/2019 00:00:00``, Excel
    ``12/31/19 23:59`` or ``43830.99``, DOB run date ``20191231000000``; also ``31.12.2019``,
    ``31-Dec-2019`` and ``Dec 31, 2019``. Without a ``zone`` a time with an offset is null: nobody
    could say when it was there.
    """
    day = "%d/%m" if day_first else "%m/%d"
    four = f"[{literals(f'{day}/%Y{time}' for time in TIME_FORMATS)}]"
    two = f"[{literals(f'{day}/%y{time}' for time in TIME_FORMATS)}]"
    turned = (
        f"TRY_CAST({expression} AS TIMESTAMPTZ) AT TIME ZONE {literal(zone)}" if zone else "NULL"
    )
    return (
        f"CASE WHEN {expression}[5] = '-' THEN CASE WHEN {_has_no_offset(expression)} "
        f"OR NOT regexp_matches({expression}, {literal(OFFSET)}) "
        f"THEN TRY_CAST({expression} AS TIMESTAMP) ELSE {turned} END "
        f"WHEN {expression}[3] = '/' OR {expression}[2] = '/' "
        f"THEN CASE WHEN {expression}[6] = '/' AND {expression}[9] BETWEEN '0' AND '9' "
        f"OR NOT regexp_matches({expression}, '^[0-9]+/[0-9]+/[0-9]{{2}}([^0-9]|$)') "
        f"THEN try_strptime(trim({expression}), {four}) "
        f"ELSE try_strptime(trim({expression}), {two}) END "
        f"WHEN length({expression}) = 14 AND regexp_full_match({expression}, '[0-9]+') "
        f"THEN try_strptime({expression}, '%Y%m%d%H%M%S') "
        f"ELSE {_rarer(expression, four, two)} END"
    )


def _rarer(expression: LiteralString, four: LiteralString, two: LiteralString) -> LiteralString:
    """SQL of dates that few files have; ``four`` and ``two``: formats by digits of the year."""
    text = f"trim({expression})"
    slashes = f"regexp_replace({text}, {literal(PARTS)}, '\\1/\\2/\\3')"
    spaces = f"trim(regexp_replace(regexp_replace({text}, '[,./-]', ' ', 'g'), ' +', ' ', 'g'))"
    named = f"[{literals(f'{day}{time}' for day in NAMED_DAYS for time in TIME_FORMATS)}]"
    seconds = f"round(86400 * TRY_CAST({text} AS DOUBLE))::BIGINT"
    return (
        f"CASE WHEN regexp_matches({text}, '^[0-9]{{1,2}}[./-][0-9]{{1,2}}[./-][0-9]{{4}}') "
        f"THEN try_strptime({slashes}, {four}) WHEN regexp_matches({text}, {literal(PARTS)}) "
        f"THEN try_strptime({slashes}, {two}) WHEN regexp_full_match({text}, '[0-9]{{8}}') "
        f"THEN try_strptime({text}, '%Y%m%d') WHEN regexp_matches({text}, {literal(SERIAL)}) "
        f"THEN TIMESTAMP '1899-12-30' + to_seconds({seconds}) "
        f"WHEN regexp_matches({text}, '[A-Za-z]{{3}}') THEN try_strptime({spaces}, {named}) END"
    )


def _has_no_offset(expression: LiteralString) -> LiteralString:
    """SQL: the lengths of usual times, which spare most rows the search for an offset."""
    return (
        f"length({expression}) = 23 AND {expression}[20] = '.' "
        f"OR length({expression}) = 19 AND {expression}[17] = ':' OR length({expression}) = 10"
    )


def known(column: LiteralString) -> LiteralString:
    """A timestamp, null where it is the placeholder of 1900 or otherwise before any record."""
    return f"CASE WHEN {column} >= TIMESTAMP {literal(EARLIEST)} THEN {column} END"


def coordinate(name: LiteralString, other: LiteralString) -> LiteralString:
    """Degrees, from ``-118.28`` or ``-118,28``; null where both are 0, as systems write nothing."""
    own: LiteralString = f"TRY_CAST(replace({name}, ',', '.') AS DOUBLE)"
    beside: LiteralString = f"TRY_CAST(replace({other}, ',', '.') AS DOUBLE)"
    return f"CASE WHEN {own} <> 0 OR {beside} <> 0 THEN {own} END"


def whole_number(expression: LiteralString) -> LiteralString:
    """A number that may have come through a float (``3073010050.0``) as BIGINT, or null."""
    return f"CAST(TRY_CAST({expression} AS DOUBLE) AS BIGINT)"


def valid_bbl(number: LiteralString) -> LiteralString:
    """Borough, block and lot as a number; null for placeholders (no borough, no block)."""
    return (
        f"CASE WHEN {number} BETWEEN 1000000000 AND 5999999999 "
        f"AND {number} // 10000 % 100000 > 0 THEN {number} END"
    )


def valid_bin(number: LiteralString) -> LiteralString:
    """Building number; null for placeholders (borough digit and six zeros)."""
    return (
        f"CASE WHEN {number} BETWEEN 1000000 AND 5999999 AND {number} % 1000000 > 0 "
        f"THEN {number} END"
    )


def bbl(expression: LiteralString) -> LiteralString:
    """Text of a borough, block and lot as a number, or null."""
    return valid_bbl(whole_number(expression))


def bin_number(expression: LiteralString) -> LiteralString:
    """Text of a building number as a number, or null."""
    return valid_bin(whole_number(expression))


def zip_code(expression: LiteralString) -> LiteralString:
    """A ZIP code as a number, from ``10461``, ``10461.0`` or ``10461-1234``; null otherwise."""
    number = f"TRY_CAST(TRY_CAST(split_part({expression}, '-', 1) AS DOUBLE) AS INTEGER)"
    return f"nullif(greatest(least({number}, 100000), 0), 100000)"


def geoid(expression: LiteralString) -> LiteralString:
    """A tract's GEOID; what a spreadsheet took the leading zero from, or gave a point, has it back.

    The Census' own files write ``1400000US06037100100``.
    """
    digits = f"regexp_replace(regexp_replace(trim({expression}), '^[0-9]+US', ''), '[.]0$', '')"
    return (
        f"CASE WHEN regexp_full_match({digits}, '[0-9]{{10}}') THEN '0' || {digits} "
        f"ELSE {digits} END"
    )


def borough_digit(expression: LiteralString) -> LiteralString:
    """Borough number of a borough's name in any case; null where unspecified."""
    return f"CASE upper(trim({expression})) {branches(BOROUGH_DIGITS)} END"


def board_311(expression: LiteralString) -> LiteralString:
    """Community board from ``09 QUEENS``: borough digit × 100 + board; null where unspecified."""
    digit = borough_digit(f"substr({expression}, 4)")
    return f"({digit}) * 100 + TRY_CAST(substr({expression}, 1, 2) AS INTEGER)"


def spelled(expression: LiteralString) -> LiteralString:
    """One spelling of an address: capitals, single spaces."""
    text = f"upper(trim({expression}))"
    for spaces in (" " * 8, " " * 4, " " * 2, " " * 2):
        text = f"replace({text}, {literal(spaces)}, ' ')"
    return text


def address(borough: LiteralString, text: LiteralString) -> LiteralString:
    """Borough digit and address; null where either is missing."""
    return f"CASE WHEN length({text}) > 3 THEN {borough} || '|' || {text} END"


def channel(expression: LiteralString) -> LiteralString:
    """The channel of a 311 row; what is not phone, online or mobile is UNKNOWN."""
    known_ones = "('PHONE', 'ONLINE', 'MOBILE')"
    return f"CASE WHEN {expression} IN {known_ones} THEN {expression} ELSE 'UNKNOWN' END"
