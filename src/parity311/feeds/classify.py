"""What the codes mean: domain, category, severity and outcome of every distinct code.

Codes are looked up once per distinct value, so that ten million rows cost a join by a number, not
ten million pattern matches.
"""

from __future__ import annotations

from parity311.records.sql import Connection

HEAT_TYPES = "('HEAT/HOT WATER', 'HEATING')"


def make_type_map(connection: Connection) -> None:
    """Table type_map: (source, type_key) -> category, domain, severity, is_agency_initiated.

    The first row of the code table that fits wins. A code that fits none is absent, which puts its
    rows into quarantine. Codes of another city come from its own map (table codes_mapped).
    """
    connection.execute(f"""
CREATE OR REPLACE TABLE type_map AS
WITH keys AS (
  SELECT source, type_key, any_value(agency) AS agency, any_value(kind) AS kind,
    any_value(detail) AS detail
  FROM staged WHERE type_key IS NOT NULL GROUP BY source, type_key
), requests AS (
  SELECT DISTINCT ON (k.source, k.type_key) k.source, k.type_key,
    CASE WHEN k.source = 'hpd_problems' AND k.kind IN {HEAT_TYPES} AND k.detail <> ''
      THEN k.detail ELSE c.category END AS category,
    c.domain, c.severity, coalesce(d.origin = 'agency', false) AS is_agency_initiated
  FROM keys k JOIN codes_sr311_types c
    ON c.agency = k.agency AND upper(c.complaint_type) = k.kind
    AND (k.source = 'hpd_problems' OR k.detail ILIKE c.descriptor)
  LEFT JOIN codes_dob_categories d ON c.agency = 'DOB' AND d.code = c.category
  WHERE k.source IN ('sr311', 'hpd_problems')
  ORDER BY k.source, k.type_key, c.place
), complaints AS (
  SELECT k.source, k.type_key, c.code, c.domain, c.severity, c.origin = 'agency'
  FROM keys k JOIN codes_dob_categories c ON c.code = k.kind WHERE k.source = 'dob'
), filings AS (
  SELECT source, type_key, 'FILING', 'boiler', 'C', false FROM keys WHERE source = 'boiler'
), mapped AS (
  SELECT DISTINCT ON (k.type_key) k.source, k.type_key, k.kind, c.domain, c.severity, false
  FROM keys k JOIN codes_mapped c ON upper(c.category) = k.kind WHERE k.source = 'mapped'
)
SELECT * FROM requests UNION ALL SELECT * FROM complaints UNION ALL SELECT * FROM filings
UNION ALL SELECT * FROM mapped""")


def make_outcome_map(connection: Connection) -> None:
    """Table outcome_map: (source, outcome_key) -> disposition, class, visits, prior enforcement."""
    connection.execute("""
CREATE OR REPLACE TABLE outcome_map AS
WITH keys AS (
  SELECT source, outcome_key, any_value(agency) AS agency, any_value(outcome) AS outcome
  FROM staged WHERE outcome_key IS NOT NULL GROUP BY source, outcome_key
), texts AS (
  SELECT DISTINCT ON (k.source, k.outcome_key) k.source, k.outcome_key, c.disposition,
    c.disposition_class, CAST(c.n_visits AS SMALLINT) AS n_visits,
    coalesce(d.is_prior_enforcement = 'yes' AND c.agency = 'DOB', false) AS is_prior_enforcement
  FROM keys k JOIN codes_resolution_texts c
    ON c.agency = k.agency AND lower(k.outcome) LIKE c.phrase
  LEFT JOIN codes_dob_dispositions d ON d.code = c.disposition
  WHERE k.source IN ('sr311', 'hpd_problems')
  ORDER BY k.source, k.outcome_key, c.place
), dispositions AS (
  SELECT k.source, k.outcome_key, c.code, c.disposition_class, CAST(c.n_visits AS SMALLINT),
    c.is_prior_enforcement = 'yes'
  FROM keys k JOIN codes_dob_dispositions c ON c.code = k.outcome WHERE k.source = 'dob'
), mapped AS (
  SELECT k.source, k.outcome_key, k.outcome, c.disposition_class, c.n_visits, false
  FROM keys k JOIN codes_mapped_outcomes c ON upper(c.status) = upper(k.outcome)
  WHERE k.source = 'mapped'
)
SELECT * FROM texts UNION ALL SELECT * FROM dispositions UNION ALL SELECT * FROM mapped""")


def count_unknown_outcomes(connection: Connection) -> list[tuple[str, str, int]]:
    """Outcomes no table knows: source, first words, rows. They become the class other."""
    return connection.execute("""
SELECT s.source, left(any_value(s.outcome), 60) AS words, count(*) AS n FROM staged s
ANTI JOIN outcome_map o ON o.source = s.source AND o.outcome_key = s.outcome_key
WHERE s.outcome_key IS NOT NULL AND s.source <> 'boiler' GROUP BY s.source, s.outcome_key
ORDER BY n DESC, words LIMIT 50""").fetchall()
