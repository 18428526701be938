"""What a records folder holds, in words: from its rows, and from what its import wrote down."""

from __future__ import annotations

from typing import Any

from parity311.records.store import Records

BY = "borough"
"""The one breakdown of the import's account that holds every row in scope once."""


def count_rows(records: Records) -> dict[str, Any]:
    """Complaints of a folder with their first and last day, from the rows themselves."""
    row = records.sql(
        "SELECT count(*) AS n, CAST(min(received_at) AS DATE) AS first, "
        "CAST(max(received_at) AS DATE) AS last FROM complaints"
    ).to_pylist()[0]
    return {"complaints": int(row["n"]), "first": str(row["first"]), "last": str(row["last"])}


def count_located(records: Records, domain: str | None = None) -> dict[str, int] | None:
    """Rows in scope and rows that found a tract, as the import counted them; None if it did not.

    A row that was lost in locating is in no table, so the tables cannot tell.
    """
    rows = [
        row
        for row in records.manifest.get("coverage", [])
        if row["by"] == BY and domain in (None, row["domain"])
    ]
    if not rows:
        return None
    return {
        "in_scope": sum(int(row["rows"]) for row in rows),
        "located": sum(int(row["located"]) for row in rows),
    }


def say_located(counts: dict[str, int] | None) -> str:
    """The same in a sentence."""
    if counts is None:
        return "How many rows were lost in locating was not recorded."
    lost = counts["in_scope"] - counts["located"]
    if not lost:
        return f"All {counts['in_scope']:,} rows in scope found a tract."
    return (
        f"{lost:,} of {counts['in_scope']:,} rows in scope ({lost / counts['in_scope']:.1%}) found "
        "no tract and are not compared by income."
    )


LOST_IN_LOCATING = ("coordinates outside the city", "no location", "location not found")
"""Reasons of the quarantine that a row lacks a place for and nothing else."""


def say_where_lost(records: Records) -> str:
    """The file that most rows without a place come from, in a sentence; empty if none is lost."""
    lost = {
        source["name"]: sum(source.get("quarantined", {}).get(why, 0) for why in LOST_IN_LOCATING)
        for source in records.manifest.get("sources", [])
    }
    name = max(lost, key=lambda one: lost[one], default="")
    if not name or not lost[name]:
        return ""
    return f" Most of those were of {name} ({lost[name]:,})."


def say_links(records: Records) -> str:
    """Duplicates that a rule linked, and how well it does, in a sentence; empty where none were."""
    made = [one for one in records.manifest.get("links", {}).values() if one["n_linked"]]
    if not made:
        return ""
    parts = [
        f"{one['n_linked']:,} of {one['n_repeats']:,} repeats of {one['domain']} (in a synthetic "
        f"city {one['quality']['precision']:.0%} of the rule's are right, "
        f"{one['quality']['recall']:.0%} are found)"
        for one in made
    ]
    return f" A rule, not the source, linked {'; '.join(parts)}."


def describe_import(records: Records) -> str:
    """Some sentences on imported records: how many, of when, what was lost, what was linked."""
    rows = count_rows(records)
    files = sum("rows_in" in source for source in records.manifest.get("sources", []))
    city = records.manifest.get("city", "")
    said = f"Imported records{f' of {city}' if city else ''}"
    said += f", {files} file{'' if files == 1 else 's'}" if files else ""
    return (
        f"{said}: {rows['complaints']:,} complaints received {rows['first']} to {rows['last']}. "
        f"{say_located(count_located(records))}{say_where_lost(records)}{say_links(records)}"
    )
