"""One complaint in two rows: keys that repeat, and requests that an agency's own source has too."""

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
