"""What the codes mean: domain, category, severity and outcome of every distinct code.

Codes are looked up once per distinct value, so that ten million rows cost a join by a number, not
ten million pattern matches.

One complaint in two rows: keys that repeat, and requests that an agency's own source has too.
"""

from __future__ import annotations

from collections.abc import Sequence

from parity311.records.sql import Connection, literal


def find_repeats(connection: Connection) -> None:
    """Table losers: rows whose key another row has too; the located, then the latest one stays."""
    connection.execute("""
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT source, key FROM staged WHERE type_key IS NOT NULL AND key IS NOT NULL
GROUP BY ALL HAVING count(*) > 1;
CREATE OR REPLACE TABLE losers AS
SELECT file, row FROM (
  SELECT file, row, row_number() OVER (PARTITION BY source, key
    ORDER BY longitude IS NULL, updated_at DESC NULLS LAST, file DESC, row DESC) AS place
  FROM staged SEMI JOIN repeated USING (source, key)
) WHERE place > 1""")


def match_sources(connection: Connection, sources: Sequence[str]) -> dict[str, int]:
    """Tables superseded and enrichment: what two sources say about one complaint.

    A 311 request is the same as the HPD problem that names it, and as the DOB complaint of the same
    address within a day. The agency's row stays, because it knows the outcome, and takes from the
    request what only that has: time of day, channel, coordinates.
    """
    connection.execute(
        "CREATE OR REPLACE TABLE pairs (source VARCHAR, key VARCHAR, request VARCHAR)"
    )
    counts: dict[str, int] = {}
    if "sr311" in sources and "hpd_problems" in sources:
        connection.execute("""
INSERT INTO pairs SELECT DISTINCT ON (s.key) 'hpd_problems', h.key, s.key
FROM staged s JOIN staged h ON h.source = 'hpd_problems' AND h.service_request = s.key
WHERE s.source = 'sr311' AND s.agency = 'HPD' ORDER BY s.key, h.key""")
    if "sr311" in sources and "dob" in sources:
        counts["DOB complaints that share address and day"] = _match_by_address(connection)
    connection.execute("""
CREATE OR REPLACE TABLE superseded AS SELECT DISTINCT request AS key FROM pairs;
CREATE OR REPLACE TABLE enrichment AS
SELECT DISTINCT ON (e.source, e.key) e.source, e.key, s.received_at, s.channel, s.longitude,
  s.latitude, s.bbl
FROM pairs e JOIN staged s ON s.source = 'sr311' AND s.key = e.request
ORDER BY e.source, e.key, s.longitude IS NULL, s.file, s.row""")
    found = connection.execute("SELECT source, count(*) FROM pairs GROUP BY 1").fetchall()
    return counts | {f"311 requests matched to {source}": int(n) for source, n in found}


def _match_by_address(connection: Connection) -> int:
    """Pair DOB complaints with 311 requests of the same address: same day, then a day apart.

    Several on one address and day are paired in order of their numbers; how many is returned.
    """
    connection.execute("""
CREATE OR REPLACE TEMP TABLE sides AS
SELECT DISTINCT source, key, address, CAST(received_at AS DATE) AS day FROM staged
WHERE address IS NOT NULL AND received_at IS NOT NULL AND agency = 'DOB'
  AND source IN ('dob', 'sr311')""")
    for shift in (0, 1, -1):
        connection.execute(f"""
INSERT INTO pairs
WITH free AS (
  SELECT * FROM sides s WHERE NOT EXISTS (
    SELECT 1 FROM pairs e WHERE e.source = 'dob'
    AND ((s.source = 'dob' AND e.key = s.key) OR (s.source = 'sr311' AND e.request = s.key)))
), numbered AS (
  SELECT *, row_number() OVER (PARTITION BY source, address, day ORDER BY key) AS place FROM free
)
SELECT 'dob', d.key, r.key FROM numbered d JOIN numbered r
ON d.source = 'dob' AND r.source = 'sr311' AND d.address = r.address AND d.place = r.place
AND d.day = r.day + {literal(shift)}""")
    ambiguous = connection.execute("""
SELECT coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM sides WHERE source = 'dob'
GROUP BY address, day HAVING count(*) > 1)""").fetchall()
    connection.execute("DROP TABLE sides")
    return int(ambiguous[0][0])


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
