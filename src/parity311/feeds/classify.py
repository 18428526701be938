"""What the codes mean: domain, category, severity and outcome of every distinct code.

Codes are looked up once per distinct value, so that ten million rows cost a join, not ten million
pattern matches.
"""

from __future__ import annotations

import duckdb

HEAT_TYPES = "('HEAT/HOT WATER', 'HEATING')"


def make_type_map(connection: duckdb.DuckDBPyConnection) -> None:
    """Table type_map: (source, type_key) -> category, domain, severity, is_agency_initiated.

    The first row of the code table that fits wins. A code that fits none is absent, which puts its
    rows into quarantine.
    """
    connection.execute(f"""
CREATE OR REPLACE TABLE type_map AS
WITH keys AS (
  SELECT DISTINCT source, type_key, split_part(type_key, '|', 1) AS agency,
    split_part(type_key, '|', 2) AS kind, split_part(type_key, '|', 3) AS detail
  FROM staged WHERE type_key IS NOT NULL
), requests AS (
  SELECT DISTINCT ON (k.source, k.type_key) k.source, k.type_key,
    CASE WHEN k.source = 'hpd_problems' AND k.kind IN {HEAT_TYPES} AND k.detail <> ''
      THEN k.detail ELSE c.category END AS category,
    c.domain, c.severity, d.origin = 'agency' AS is_agency_initiated
  FROM keys k JOIN codes_sr311_types c
    ON c.agency = k.agency AND upper(c.complaint_type) = k.kind
    AND (k.source = 'hpd_problems' OR k.detail ILIKE c.descriptor)
  LEFT JOIN codes_dob_categories d ON c.agency = 'DOB' AND d.code = c.category
  WHERE k.source IN ('sr311', 'hpd_problems')
  ORDER BY k.source, k.type_key, c.place
), buildings_complaints AS (
  SELECT k.source, k.type_key, c.code, c.domain, c.severity, c.origin = 'agency'
  FROM keys k JOIN codes_dob_categories c ON c.code = k.type_key WHERE k.source = 'dob'
), filings AS (
  SELECT DISTINCT source, type_key, 'FILING', 'boiler', 'C', false FROM keys
  WHERE source = 'boiler'
)
SELECT * FROM requests UNION ALL SELECT * FROM buildings_complaints UNION ALL SELECT * FROM filings
""")


def make_outcome_map(connection: duckdb.DuckDBPyConnection) -> None:
    """Table outcome_map: (source, outcome_key) -> disposition, class, visits, prior enforcement."""
    connection.execute("""
CREATE OR REPLACE TABLE outcome_map AS
WITH keys AS (
  SELECT DISTINCT source, outcome_key, split_part(outcome_key, '|', 1) AS agency
  FROM staged WHERE outcome_key IS NOT NULL AND type_key IS NOT NULL
), texts AS (
  SELECT DISTINCT ON (k.source, k.outcome_key) k.source, k.outcome_key, c.disposition,
    c.disposition_class, CAST(c.n_visits AS SMALLINT) AS n_visits,
    coalesce(d.is_prior_enforcement = 'yes' AND c.agency = 'DOB', false) AS is_prior_enforcement
  FROM keys k JOIN codes_resolution_texts c ON c.agency = k.agency AND k.outcome_key LIKE c.phrase
  LEFT JOIN codes_dob_dispositions d ON d.code = c.disposition
  WHERE k.source IN ('sr311', 'hpd_problems')
  ORDER BY k.source, k.outcome_key, c.place
), dispositions AS (
  SELECT k.source, k.outcome_key, c.code, c.disposition_class, CAST(c.n_visits AS SMALLINT),
    c.is_prior_enforcement = 'yes'
  FROM keys k JOIN codes_dob_dispositions c ON c.code = k.outcome_key WHERE k.source = 'dob'
)
SELECT * FROM texts UNION ALL SELECT * FROM dispositions
""")
