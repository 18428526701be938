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
NAMED_DAYS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y", "%Y %b %d")
"""Dates with the month's name, once commas, dashes and dots are spaces."""
NAMED_SHORT = ("%d %b %y", "%b %d %y")
"""The same with two digits of the year, which `%Y` would take for a year of the first century."""
PARTS = "^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{2,4})"
"""A date of three numbers with the year last: which of the others is the day, it does not say."""
SERIAL = "^[2-5][0-9]{4}([.,][0-9]+)?$"
"""Days since 30 December 1899 (1954 to 2064), as Excel counts where a cell's format is lost."""
EPOCH = "^(1[2-9][0-9]{8}|1[0-9]{12})$"
"""Seconds (2008 to 2033) or milliseconds since 1970 at Greenwich, as servers count."""
OFFSET = (
    r"^([0-9]{4}[-/.].*:[0-9.]+ ?(Z|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2})?)|1[2-9][0-9]{8}|1[0-9]{12})"
    r"\s*$|[0-9M] \(?[ECMP][SD]T\)?\s*$"
)
"""A time of a known day with its distance from Greenwich, or counted there."""
CLOCK = r" \(?([ECMP][SD]T)\)?\s*$"
"""A North American clock behind a time, in letters."""
CLOCK_HOURS = {
    f"{place}{season}T": hours + (season == "S")
    for place, hours in zip("ECMP", (4, 5, 6, 7), strict=True)
    for season in "SD"
}
"""Hours by which each of them is behind Greenwich."""
DOTTED = r"^([0-9]{1,2}-[A-Za-z]{3}-[0-9]{2,4}) ([0-9]{1,2})[.]([0-9]{2})[.]([0-9]{2})([.][0-9]+)?"
"""Oracle's ``05-AUG-24 02.41.00.000000 PM``."""
ODD = (
    r"^[0-9]{4}[/.][0-9]|^1[0-9]{9}([0-9]{3})?$|[\x{a0}\x{202f},]|[0-9 ][AaPp][.]? ?[Mm]"
    r"|^[0-9]{8}T[0-9]{6}$|-[A-Za-z]{3}-[0-9]+ [0-9]+[.]|[0-9M] \(?[ECMP][SD]T\)?\s*$"
)
"""Dates that other readers leave: the year first with slashes, counted seconds, commas, a.m., a
clock in letters."""
WEEKDAY = "^(?i)(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?[.]? "


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
    ``31-Dec-2019`` and ``Dec 31, 2019``, ArcGIS' ``2019/12/31 23:59:11+00`` and its milliseconds,
    ``12/31/2019, 11:59 p.m.``. Without a ``zone`` a time with an offset is null: nobody
    could say when it was there.
    """
    day = "%d/%m" if day_first else "%m/%d"
    four = f"[{literals(f'{day}/%Y{time}' for time in TIME_FORMATS)}]"
    two = f"[{literals(f'{day}/%y{time}' for time in TIME_FORMATS)}]"
    turned = _turned(expression, zone)
    usual: LiteralString = (
        f"CASE WHEN {expression}[5] = '-' THEN CASE WHEN {_has_no_offset(expression)} "
        f"THEN TRY_CAST({expression} AS TIMESTAMP) "
        f"WHEN regexp_matches({expression}, {literal(OFFSET)}) THEN {turned} "
        # What stands behind a time is not looked at by the cast: PM would be lost.
        f"WHEN NOT regexp_matches({expression}, '[A-SU-Za-su-z]') "
        f"THEN TRY_CAST({expression} AS TIMESTAMP) END "
        f"WHEN {expression}[3] = '/' OR {expression}[2] = '/' "
        f"THEN CASE WHEN {expression}[6] = '/' AND {expression}[9] BETWEEN '0' AND '9' "
        f"OR NOT regexp_matches({expression}, '^[0-9]+/[0-9]+/[0-9]{{2}}([^0-9]|$)') "
        f"THEN try_strptime(trim({expression}), {four}) "
        f"ELSE try_strptime(trim({expression}), {two}) END "
        f"WHEN length({expression}) = 14 AND regexp_full_match({expression}, '[0-9]+') "
        f"THEN try_strptime({expression}, '%Y%m%d%H%M%S') "
        f"ELSE {_rarer(expression, four, two)} END"
    )
    odd = (
        f"CASE WHEN regexp_matches({expression}, {literal(CLOCK)}) "
        f"THEN {_by_letters(expression, four, two, zone)} "
        f"WHEN regexp_matches({expression}, {literal(ODD)}) "
        f"THEN {_odd(expression, four, two, zone)} END"
    )
    return f"coalesce({usual}, {odd})"


def _by_letters(
    expression: LiteralString, four: LiteralString, two: LiteralString, zone: str | None
) -> LiteralString:
    """SQL of a time with a clock in letters (``EST``), by the city's clock."""
    if zone is None:
        return "NULL"
    plain: LiteralString = f"regexp_replace({expression}, {literal(CLOCK)}, '')"
    read = (
        f"coalesce(TRY_CAST({plain} AS TIMESTAMP), {_odd(plain, four, two, zone)}, "
        f"{_rarer(plain, four, two)})"
    )
    hours = f"CASE regexp_extract({expression}, {literal(CLOCK)}, 1) {branches(CLOCK_HOURS)} END"
    return f"({read} + to_hours({hours})) AT TIME ZONE 'UTC' AT TIME ZONE {literal(zone)}"


def _odd(
    expression: LiteralString, four: LiteralString, two: LiteralString, zone: str | None
) -> LiteralString:
    """SQL of dates that hardly any file has, once spaces, commas and a.m. are written plainly."""
    spaces: LiteralString = f"regexp_replace({expression}, '[\\x{{a0}}\\x{{202f}}]|, ?', ' ', 'g')"
    colons = f"regexp_replace({spaces}, {literal(DOTTED)}, '\\1 \\2:\\3:\\4')"
    noon = f"regexp_replace({colons}, '(?i) ?([ap])[.]? ?m[.]?$', ' \\1M')"
    text = f"trim(regexp_replace({noon}, {literal(WEEKDAY)}, ''))"
    iso = f"regexp_replace({text}, '^([0-9]{{4}})[/.]([0-9]{{1,2}})[/.]', '\\1-\\2-')"
    halves = f"[{literals(f'%Y-%m-%d{time}' for time in TIME_FORMATS if '%p' in time)}]"
    slashes = f"regexp_replace({text}, {literal(PARTS)}, '\\1/\\2/\\3')"
    names = f"regexp_replace(regexp_replace({text}, '[./-]', ' ', 'g'), ' +', ' ', 'g')"
    clock: LiteralString = f"AT TIME ZONE {literal(zone)}" if zone else ""
    turned = _turned(iso, zone)
    count = f"TRY_CAST({text} AS BIGINT)"
    seconds = f"CASE WHEN {count} > 100000000000 THEN {count} / 1000.0 ELSE {count} END"
    counted = f"to_timestamp({seconds}) {clock}" if zone else "NULL"
    return (
        f"CASE WHEN regexp_matches({text}, {literal(EPOCH)}) THEN {counted} "
        f"WHEN regexp_matches({text}, {literal(OFFSET)}) THEN {turned} "
        f"WHEN regexp_matches({text}, '^[0-9]{{8}}T') "
        f"THEN try_strptime({text}, '%Y%m%dT%H%M%S') "
        f"WHEN regexp_matches({text}, '^[0-9]{{4}}') "
        f"THEN CASE WHEN {iso}[-1] = 'M' THEN try_strptime({iso}, {halves}) "
        f"ELSE TRY_CAST({iso} AS TIMESTAMP) END "
        f"WHEN regexp_matches({text}, '^[0-9]{{1,2}}[./-][0-9]{{1,2}}[./-][0-9]{{4}}') "
        f"THEN try_strptime({slashes}, {four}) "
        f"WHEN regexp_matches({text}, {literal(PARTS)}) THEN try_strptime({slashes}, {two}) "
        f"WHEN regexp_matches({text}, '[A-Za-z]{{3}}') THEN {_named(names)} END"
    )


def _named(text: LiteralString) -> LiteralString:
    """SQL of a date with the month's name, its parts apart by spaces."""
    long = f"[{literals(f'{day}{time}' for day in NAMED_DAYS for time in TIME_FORMATS)}]"
    short = f"[{literals(f'{day}{time}' for day in NAMED_SHORT for time in TIME_FORMATS)}]"
    return (
        f"CASE WHEN regexp_matches({text}, '[0-9]{{4}}') THEN try_strptime({text}, {long}) "
        f"ELSE try_strptime({text}, {short}) END"
    )


def _turned(expression: LiteralString, zone: str | None) -> LiteralString:
    """SQL of an ISO time with an offset (``-05``, ``-05:00``, ``-0500``) by the city's clock."""
    if zone is None:
        return "NULL"
    colon = f"regexp_replace({expression}, ' ?([+-][0-9]{{2}}):?([0-9]{{2}})\\s*$', '\\1:\\2')"
    return f"TRY_CAST({colon} AS TIMESTAMPTZ) AT TIME ZONE {literal(zone)}"


def _rarer(expression: LiteralString, four: LiteralString, two: LiteralString) -> LiteralString:
    """SQL of dates that few files have; ``four`` and ``two``: formats by digits of the year."""
    text = f"trim({expression})"
    slashes = f"regexp_replace({text}, {literal(PARTS)}, '\\1/\\2/\\3')"
    spaces = f"trim(regexp_replace(regexp_replace({text}, '[,./-]', ' ', 'g'), ' +', ' ', 'g'))"
    seconds = f"round(86400 * TRY_CAST(replace({text}, ',', '.') AS DOUBLE))::BIGINT"
    return (
        f"CASE WHEN regexp_matches({text}, '^[0-9]{{1,2}}[./-][0-9]{{1,2}}[./-][0-9]{{4}}') "
        f"THEN try_strptime({slashes}, {four}) WHEN regexp_matches({text}, {literal(PARTS)}) "
        f"THEN try_strptime({slashes}, {two}) WHEN regexp_full_match({text}, '[0-9]{{8}}') "
        f"THEN try_strptime({text}, '%Y%m%d') WHEN regexp_matches({text}, {literal(SERIAL)}) "
        f"THEN TIMESTAMP '1899-12-30' + to_seconds({seconds}) "
        f"WHEN regexp_matches({text}, '[A-Za-z]{{3}}') THEN {_named(spaces)} END"
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


def degrees(name: LiteralString) -> LiteralString:
    """A coordinate, with a point or a decimal comma."""
    return f"coalesce(TRY_CAST({name} AS DOUBLE), TRY_CAST(replace({name}, ',', '.') AS DOUBLE))"


def coordinate(name: LiteralString, other: LiteralString) -> LiteralString:
    """Degrees, from ``-118.28`` or ``-118,28``; null where both are 0, as systems write nothing."""
    own: LiteralString = f"TRY_CAST(replace({name}, ',', '.') AS DOUBLE)"
    beside: LiteralString = f"TRY_CAST(replace({other}, ',', '.') AS DOUBLE)"
    return f"CASE WHEN {own} <> 0 OR {beside} <> 0 THEN {own} END"


WKT = "(?i)POINT *(?:Z|M|ZM)? *[(] *(-?[0-9.]+) +(-?[0-9.]+)"
COORDINATES = '"coordinates" *: *[[] *(-?[0-9.]+) *, *(-?[0-9.]+)'
PAIR = "(-?[0-9]+[.][0-9]+) *, *(-?[0-9]+[.][0-9]+) *[)]?\\s*$"
NAMED = "(?i)[\"']{}[\"'] *: *[\"']?(-?[0-9.]+)"


def point(column: LiteralString, name: str) -> LiteralString:
    """Longitude or latitude (``name``) of a place in one column.

    ``POINT (-73.9 40.8)`` and GeoJSON have the longitude first, ``(40.8, -73.9)`` the latitude.
    """
    first, second = (1, 2) if name == "longitude" else (2, 1)

    def taken(pattern: str, group: int) -> LiteralString:
        return f"TRY_CAST(regexp_extract({column}, {literal(pattern)}, {literal(group)}) AS DOUBLE)"

    return (
        f"coalesce({taken(WKT, first)}, {taken(COORDINATES, first)}, {taken(PAIR, second)}, "
        f"{taken(NAMED.replace('{}', name), 1)})"
    )


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
    plain = f"regexp_replace(trim({expression}), '^[0-9]+US', '')"
    has_commas = f"regexp_full_match({plain}, '[0-9]{{1,3}}(,[0-9]{{3}})+([.]0+)?')"
    whole = f"CASE WHEN {has_commas} THEN replace({plain}, ',', '') ELSE {plain} END"
    digits = f"regexp_replace({whole}, '[.]0+$', '')"
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
