"""Every staged row gets a domain, a tract and an outcome, or a reason why it is set aside.

Nothing is dropped: a row of an agency or domain that was not asked for is counted, every other row
is either kept or in quarantine under the first reason that applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import LiteralString

from parity311.feeds.locate import area_code, rounded
from parity311.feeds.parsing import COUNTIES, EARLIEST
from parity311.records.describe import LOST_IN_LOCATING
from parity311.records.sql import Connection, identifier, literal, literals

OUT_OF_SCOPE = "out_of_scope"
QUARANTINE = "quarantine"
APART = (OUT_OF_SCOPE, QUARANTINE)

LOCATION_REASONS = LOST_IN_LOCATING
REASONS = (
    "no key",
    "received date unreadable",
    "received date before any record",
    "received in the future",
    "unknown code",
    "repeated key",
    "the same complaint in a fuller source",
    *LOCATION_REASONS,
)
"""Why a row is in quarantine; the first that applies."""

KEPT_COLUMNS = (
    "file, row, source, key, kind, received_at, received_text, borough, community_board, zip, "
    "longitude, latitude, bbl, bin, building, parent_key, channel, category, severity, tract, "
    "located_by, is_closed, is_agency_initiated, is_building_wide, is_public_area, is_anonymous, "
    "equipment_id, is_high_pressure, is_internal, defect_found, lff_45, lff_180, reason"
)
"""Columns of a judged row that go on as they are."""


def judged_query(
    *,
    domains: Sequence[str] | None,
    keep_unlocated: bool,
    since: date | None,
    until: date,
    matched: bool,
    has_areas: bool = False,
) -> LiteralString:
    """SQL of every staged row with its verdict.

    ``matched`` says whether rows take something from another source, ``has_areas`` whether they
    carry the code of their tract; without, those joins are left out.
    """
    return f"""
WITH rows AS ({_coded_rows(domains, since, matched)}), located AS (
  {_located_rows(keep_unlocated, has_areas)})
SELECT *, CASE
    WHEN type_key IS NULL THEN NULL
    WHEN key IS NULL THEN 'no key'
    WHEN received_at IS NULL THEN 'received date unreadable'
    WHEN received_at < TIMESTAMP {literal(EARLIEST)} THEN 'received date before any record'
    WHEN received_at >= TIMESTAMP {literal(until)} THEN 'received in the future'
    WHEN domain IS NULL THEN 'unknown code'
    WHEN is_out_of_scope THEN NULL
    WHEN is_loser THEN 'repeated key'
    WHEN is_superseded THEN 'the same complaint in a fuller source'
    WHEN tract IS NULL AND longitude IS NOT NULL THEN 'coordinates outside the city'
    WHEN tract IS NULL AND coalesce(CAST(bbl AS VARCHAR), CAST(bin AS VARCHAR), address, area)
      IS NULL THEN 'no location'
    WHEN tract IS NULL THEN 'location not found'
  END AS reason
FROM located"""


def _coded_rows(domains: Sequence[str] | None, since: date | None, matched: bool) -> LiteralString:
    """SQL: staged rows with what their codes mean, and what another source knows about them."""
    scope: LiteralString = ""
    if domains:
        scope += f" OR m.domain NOT IN ({literals(domains)})"
    if since is not None:
        scope += f" OR s.received_at < TIMESTAMP {literal(since)}"
    taken = ("received_at", "channel", "longitude", "latitude", "bbl")
    also: dict[str, LiteralString]
    also = {name: f"e.{identifier(name)}" if matched else "NULL" for name in taken}
    join = "LEFT JOIN enrichment e ON e.source = s.source AND e.key = s.key" if matched else ""
    superseded = "s.source = 'sr311' AND s.key IN (FROM superseded)" if matched else "false"
    return f"""
  SELECT s.* EXCLUDE (received_at, channel, longitude, latitude, bbl),
    coalesce({also["received_at"]}, s.received_at) AS received_at,
    CASE WHEN m.is_agency_initiated THEN 'OTHER' ELSE coalesce({also["channel"]}, s.channel) END
      AS channel,
    coalesce(s.longitude, {also["longitude"]}) AS longitude,
    coalesce(s.latitude, {also["latitude"]}) AS latitude,
    coalesce(s.bbl, {also["bbl"]}, lots.bbl) AS bbl,
    m.category, m.domain, coalesce(h.severity, m.severity) AS severity, m.is_agency_initiated,
    l.row IS NOT NULL AS is_loser, {superseded} AS is_superseded,
    coalesce(s.type_key IS NULL {scope}, false) AS is_out_of_scope
  FROM staged s
  LEFT JOIN type_map m ON m.source = s.source AND m.type_key = s.type_key
  LEFT JOIN codes_hpd_problem_types h ON h.type = s.severity_key
  LEFT JOIN losers l ON l.file = s.file AND l.row = s.row
  LEFT JOIN building_lots lots ON lots.bin = s.bin
  {join}"""


def _located_rows(keep_unlocated: bool, has_areas: bool) -> LiteralString:
    """SQL: coded rows with their tract and how it was found."""
    counties = " ".join(
        f"WHEN {literal(digit)} THEN {literal(code)}" for digit, code in COUNTIES.items()
    )
    borough = f"'36' || (CASE r.borough {counties} END) || '000000'" if keep_unlocated else "NULL"
    own: LiteralString = "own.tract" if has_areas else "CAST(NULL AS VARCHAR)"
    join = f"LEFT JOIN area_tracts own ON own.code = {area_code('r.area')}" if has_areas else ""
    return f"""
  SELECT r.*, coalesce(pt.tract, {own}, lot.tract, house.tract, street.tract, block.tract,
      {borough}) AS tract,
    CASE WHEN pt.tract IS NOT NULL AND pt.is_nearest THEN 'nearest'
      WHEN pt.tract IS NOT NULL THEN 'coordinates' WHEN {own} IS NOT NULL THEN 'code'
      WHEN lot.tract IS NOT NULL THEN 'lot'
      WHEN house.tract IS NOT NULL THEN 'building' WHEN street.tract IS NOT NULL THEN 'address'
      WHEN block.tract IS NOT NULL THEN 'block' ELSE 'borough' END AS located_by
  FROM rows r
  LEFT JOIN point_tract pt ON pt.longitude = {rounded("r.longitude")}
    AND pt.latitude = {rounded("r.latitude")}
  {join}
  LEFT JOIN lot_places lot ON lot.id = r.bbl
  LEFT JOIN building_places house ON house.id = r.bin
  LEFT JOIN address_places street ON street.id = r.address
  LEFT JOIN block_places block ON block.id = r.bbl // 10000"""


def is_closed_at_once(row: LiteralString) -> LiteralString:
    """SQL: whether a row's closing is the very moment of its receipt, which says no time at all."""
    return (
        f"coalesce({row}.closed_at = {row}.received_at "
        f"AND {row}.received_at <> CAST({row}.received_at AS DATE), false)"
    )


def outcome_columns(until: date) -> LiteralString:
    """SQL: outcome columns of a judged row ``j`` joined with its outcome ``o``.

    A closing before the complaint is no closing, except a closing date of the same day without a
    time, and the hour that clocks are set back (first Sunday of November); nor is one from
    ``until`` on, which is to come. A visit is dated by the inspection where the source has one,
    else by the closing, which is the latest it can have been.
    """
    night = "month(j.received_at) = 11 AND dayofweek(j.received_at) = 0 AND day(j.received_at) < 8"
    return f"""
  {is_closed_at_once("j")} AS closing_is_unknown,
  CASE WHEN j.closed_at >= TIMESTAMP {literal(until)} THEN NULL
    WHEN j.closed_at >= j.received_at THEN j.closed_at
    WHEN j.closed_at = CAST(j.received_at AS DATE) THEN j.received_at
    WHEN {night} AND j.received_at - j.closed_at <= INTERVAL 1 HOUR THEN j.received_at
  END AS closed_at,
  CASE WHEN j.visited_at >= j.received_at THEN j.visited_at
    WHEN j.visited_at = CAST(j.received_at AS DATE) THEN j.received_at
  END AS visited_at,
  o.disposition, o.n_visits AS coded_visits, coalesce(o.is_prior_enforcement, false)
    AS is_prior_enforcement,
  coalesce(o.disposition_class, CASE WHEN j.source = 'boiler' THEN
      CASE WHEN j.defect_found THEN 'violation' WHEN NOT j.defect_found THEN 'no_violation'
        ELSE 'other' END
    WHEN coalesce(j.is_closed, j.closed_at IS NOT NULL) THEN 'other' ELSE 'pending' END)
    AS disposition_class,
  CASE WHEN j.source = 'mapped' THEN j.is_duplicate
    ELSE coalesce(j.is_duplicate, o.disposition_class = 'duplicate') END AS is_marked_duplicate"""


def write_judged(
    connection: Connection, query: LiteralString, folder: Path, *, until: date
) -> None:
    """Write judged rows into one folder a domain, quarantine and out of scope apart."""
    columns = ", ".join(f"j.{identifier(name)}" for name in KEPT_COLUMNS.split(", "))
    connection.execute(f"""
COPY (
  SELECT {columns}, {outcome_columns(until)}, j.domain AS code_domain,
    CASE WHEN j.reason IS NOT NULL THEN {literal(QUARANTINE)} WHEN j.is_out_of_scope
      THEN {literal(OUT_OF_SCOPE)} ELSE j.domain END AS domain
  FROM ({query}) j
  LEFT JOIN outcome_map o ON o.source = j.source AND o.outcome_key = j.outcome_key
) TO {literal(folder)} (FORMAT parquet, PARTITION_BY (domain),
  WRITE_PARTITION_COLUMNS true, COMPRESSION snappy)""")
