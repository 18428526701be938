"""Mark duplicates in records whose source does not, into a new records folder.

Only reports that the source left unmarked are linked, to each other or to a marked one; what the
source says stays. The rule is the one that does best in a synthetic city whose agency marks
duplicates, and how well it does there goes into the manifest, where every estimate finds it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parity311.errors import InputError, unknown_name
from parity311.records.store import (
    Records,
    open_records,
    table_path,
    write_manifest,
    write_table,
    writing_records,
)
from parity311.reporting.duplicates import (
    LinkQuality,
    LinkRule,
    choose_rule,
    is_repeat,
    link_reports,
)
from parity311.reporting.link_quality import LINKS, is_weak

TRIED_DAYS = (7.0, 14.0, 28.0, 60.0, 120.0)
"""Days a rule may reach; which of them is used, the city decides."""
KNOWN_CLOSINGS = 0.5
"""Share of complaints with a closing after their receipt from which on closings end incidents."""
WRITTEN = ("kind", "format_version", "software_version", "fingerprint", "others", "files", "seal")
"""Entries that writing a manifest makes anew."""
Tell = Callable[[str], None]

_ROWS = """
SELECT c.complaint_id, c.incident_id, c.category, c.building_id,
  epoch(c.received_at) / 86400 AS day,
  epoch(CASE WHEN o.closed_at > c.received_at THEN o.closed_at END) / 86400 AS closed,
  c.building_id IS NOT NULL AND c.channel NOT IN ('OTHER', 'FILING') AS is_linkable
FROM complaints c LEFT JOIN outcomes o USING (complaint_id)
WHERE c.domain = $domain ORDER BY c.received_at, c.complaint_id"""


@dataclass(frozen=True)
class DomainLinks:
    """What was done about the duplicates of one domain."""

    domain: str
    n_reports: int
    n_unmarked: int
    """Reports that the source neither marks as duplicates nor as originals."""
    n_without_building: int
    """Of those, reports that nothing places at a building: linked to nothing."""
    n_linked: int
    """Reports that were taken as repeats of another."""
    n_repeats: int
    """All repeats there are now, those marked by the source too."""
    rule: LinkRule | None
    quality: LinkQuality | None
    reason: str = ""
    """Why nothing was linked; empty where something could be."""

    def describe(self) -> dict[str, Any]:
        """As plain values, and whether estimators that need duplicates refuse these."""
        quality, share = self.quality, self.n_linked / max(self.n_repeats, 1)
        weak = quality is not None and is_weak(quality.precision, quality.recall, share)
        return asdict(self) | {"is_weak": weak}


def link_records(
    folder: Path,
    out: Path,
    city: Callable[[], Path],
    *,
    domains: Sequence[str] | None = None,
    max_days: float | None = None,
    tell: Tell = lambda line: None,
    overwrite: bool = False,
) -> list[DomainLinks]:
    """Write the records again with duplicates linked; what was done by domain.

    Parameters
    ----------
    city
        Gives the folder of the synthetic city that rules are measured in; asked only if needed.
    max_days
        Days from a first report during which another may join it; the city decides if not given.
    """
    records = open_records(folder)
    _check(records, domains)
    found: dict[str, tuple[pa.Table, DomainLinks]] = {}
    for domain in records.domains:
        if domains and domain not in domains:
            continue
        tell(f"linking {domain}")
        found[domain] = _link_domain(records, domain, city, max_days)
    if not any(links.n_unmarked for _, links in found.values()):
        raise InputError(
            f"The source of {folder} marks the duplicates of {', '.join(found)} itself; there is "
            "nothing to link, use the records as they are."
        )
    with writing_records(out, "import", overwrite=overwrite) as aside:
        _copy(records, aside, {domain: complaints for domain, (complaints, _) in found.items()})
        kept = {name: value for name, value in records.manifest.items() if name not in WRITTEN}
        links = kept.get(LINKS, {}) | {name: one.describe() for name, (_, one) in found.items()}
        write_manifest(aside, "import", kept | {LINKS: links})
    return [links for _, links in found.values()]


def _check(records: Records, domains: Sequence[str] | None) -> None:
    if not records.is_real:
        raise InputError(
            f"{records.folder} is a synthetic city, whose agency marks duplicates; link imported "
            "records."
        )
    for domain in domains or ():
        if domain not in records.domains:
            raise unknown_name("domain of these records", domain, records.domains)


def _link_domain(
    records: Records, domain: str, city: Callable[[], Path], max_days: float | None
) -> tuple[pa.Table, DomainLinks]:
    """The complaints of a domain with incidents for those that had none."""
    complaints = records.table("complaints", domain)
    rows = records.sql(_ROWS, domain=domain)
    named = np.array(rows["incident_id"].to_pylist(), dtype=object)
    unmarked = np.array([name is None for name in named])
    can = rows["is_linkable"].to_numpy(zero_copy_only=False).astype(bool)
    ids = np.array(rows["complaint_id"].to_pylist(), dtype=object)
    rule, quality, reason = None, None, ""
    incidents = named.copy()
    if not unmarked.any():
        reason = "the source marks duplicates itself"
    elif not (unmarked & can).any():
        reason = "no unmarked report of a resident has a building"
    elif domain not in open_records(city()).domains:
        reason = f"the synthetic city {city().name} has no {domain} to measure links in"
    else:
        n_categories = len(set(rows["category"].to_pylist()))
        rule, quality = choose_rule(city(), domain, _rules(rows, max_days), n_categories)
        incidents = _incidents(rows, ids, named, can, rule)
    labels = np.array([name or own for name, own in zip(incidents, ids, strict=True)], dtype=object)
    repeats = labels != ids
    by_id = dict(zip(ids, incidents, strict=True))
    place = complaints.column_names.index("incident_id")
    column = pa.array([by_id[one] for one in complaints["complaint_id"].to_pylist()], pa.string())
    return complaints.set_column(place, "incident_id", column), DomainLinks(
        domain=domain,
        n_reports=len(ids),
        n_unmarked=int(unmarked.sum()),
        n_without_building=int((unmarked & ~can).sum()),
        n_linked=int((repeats & unmarked).sum()),
        n_repeats=int(repeats.sum()),
        rule=rule,
        quality=quality,
        reason=reason,
    )


def _rules(rows: pa.Table, max_days: float | None) -> list[LinkRule]:
    """Rules to try: an incident ends with its closing only where closings are mostly known."""
    closed = rows["closed"].to_numpy(zero_copy_only=False)
    until_closed = bool(np.isfinite(closed).mean() >= KNOWN_CLOSINGS)
    days = TRIED_DAYS if max_days is None else (max_days,)
    return [LinkRule(max_days=one, until_closed=until_closed) for one in days]


def _incidents(
    rows: pa.Table, ids: np.ndarray, named: np.ndarray, can: np.ndarray, rule: LinkRule
) -> np.ndarray:
    """Incident of every report: what the source says, else the first of its linked group."""

    def codes(name: str) -> np.ndarray:
        coded = rows[name].combine_chunks().dictionary_encode().indices
        return coded.fill_null(-1).to_numpy(zero_copy_only=False)[can]

    day = rows["day"].to_numpy()[can]
    group = link_reports(
        day,
        codes("category"),
        rule,
        building=codes("building_id"),
        closed_day=rows["closed"].to_numpy(zero_copy_only=False)[can],
    )
    is_first = ~is_repeat(group, day)
    own, marked = ids[can], named[can]
    leader = np.empty(int(group.max()) + 1, dtype=object)
    leader[group[is_first]] = [
        mark or one for mark, one in zip(marked[is_first], own[is_first], strict=True)
    ]
    incidents = named.copy()
    incidents[can] = [mark or leader[one] for mark, one in zip(marked, group, strict=True)]
    return incidents


def _copy(records: Records, aside: Path, changed: dict[str, pa.Table]) -> None:
    """Every file of the records as it is, but for the complaints that were linked."""
    anew = {table_path(records.folder, "complaints", domain) for domain in changed}
    for name in records.manifest["files"]:
        source = records.folder / name
        if source in anew:
            continue
        records.check_unchanged(source)
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, aside / name)
    for source in (records.folder / "quarantine").glob("*.csv"):
        (aside / "quarantine").mkdir(exist_ok=True)
        shutil.copyfile(source, aside / "quarantine" / source.name)
    for domain, complaints in changed.items():
        write_table(aside, "complaints", complaints, domain)
