"""Cycles of several domains and cities side by side, for whoever runs many agencies.

A city has records, steps and a registry of its own, and nothing of one is read for another; its
cycles are jobs, so that one that fails costs no other. One report says how all of them ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from parity311.errors import InputError
from parity311.jobs.choose import Workplace
from parity311.jobs.drive import Outcome
from parity311.jobs.job import Job, Task
from parity311.lifecycle.cycle import Progress, run_cycle
from parity311.lifecycle.cycle_config import CycleConfig, check_cycle
from parity311.service_levels.levels import read_levels
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.strict_json import to_plain
from parity311.storage.toml_files import checked, read_toml

REPORT = "cities.md"
NO_DECISION = "failed"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class CityOffice:
    """One city: where its records lie, and where its policies are registered."""

    records: str
    domains: tuple[str, ...] = ()
    """those of the command if none"""
    database: str = ""
    """REGISTRY/NAME.db if empty"""
    service_levels: str = ""


def read_cities(path: Path) -> dict[str, CityOffice]:
    """Cities by name, from a TOML file with a table for each below `cities`."""
    plain = read_toml(path, "a TOML file with a table for each city, as in [cities.albany]")
    tables = plain.get("cities")
    if not isinstance(tables, dict) or not tables:
        raise InputError(
            f"{path} names no city; write a table for each, as in [cities.albany] with records = "
            "'records/albany'."
        )
    for name in tables:
        if not _NAME.fullmatch(name):
            raise InputError(f"{path}: {name!r} is no name of a city; use letters and digits.")
    found = {name: checked(CityOffice, one, f"{path}: {name}") for name, one in tables.items()}
    _check_apart(path, "records", [str(Path(one.records).resolve()) for one in found.values()])
    return found


def _check_apart(where: Path, what: str, places: Sequence[str]) -> None:
    """Refuse a place that two cities share: nothing of one may be read for another."""
    if len(set(places)) < len(places):
        raise InputError(f"{where}: two cities have the same {what}; give each its own.")


def _database_of(name: str, office: CityOffice, registry: Path) -> str:
    """The registry of a city, by its one name."""
    if "://" in office.database:
        return office.database
    return str(Path(office.database or registry / f"{name}.db").resolve())


def run_cycles(
    config: CycleConfig,
    domains: Sequence[str],
    cities: dict[str, CityOffice],
    *,
    out: Path,
    registry: Path,
    by: str,
    reason: str,
    where: Workplace,
    progress: Progress,
) -> dict[str, Any]:
    """Run every domain of every city; how each ended, with a report in the folder of the steps."""
    databases = [_database_of(name, office, registry) for name, office in cities.items()]
    _check_apart(registry, "database", databases)
    jobs = []
    for name, office in cities.items():
        for slug in office.domains or domains:
            own = replace(config, domain=slug)
            check_cycle(own, by=by, reason=reason or "cycle")
            jobs.append(_job_of(name, office, own, out, registry, by, reason))
    told = lambda ended, total, _: progress("cycles", ended, total)  # noqa: E731
    done = where.run(jobs, tell=told)
    rows = [_row_of(one) for one in done]
    found = {"cycles": rows, "n_cycles": len(jobs)}
    if where.shard is None:
        with telling_disk_errors(out / REPORT):
            found["report"] = str(write_text_aside(out / REPORT, _in_words(rows)))
    return found


def _job_of(
    name: str, office: CityOffice, config: CycleConfig, out: Path, registry: Path, by: str,
    reason: str,
) -> Job:  # fmt: skip
    return Job(
        "parity311.lifecycle.many_cycles:cycle_job",
        {
            "city": name,
            "config": to_plain(asdict(replace(config, levels=None))),
            "levels": office.service_levels,
            "records": str(Path(office.records).resolve()),
            "out": str((out / name).resolve()),
            "database": _database_of(name, office, registry),
            "by": by,
            "reason": reason,
        },
        name=f"{name}-{config.domain}",
        program=f"{config.domain}/{config.agent}",
        memory_mb=1_000,
    )


def cycle_job(task: Task) -> dict[str, Any]:
    """Run the cycle of one domain in one city, in whatever process."""
    spec = task.spec
    config = checked(CycleConfig, spec["config"], f"the cycle of {spec['city']}")
    if spec["levels"]:
        config = replace(config, levels=read_levels(Path(spec["levels"])))
    for place in (spec["out"], spec["database"]):
        if "://" not in place:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
    return run_cycle(
        config, Path(spec["records"]), database=spec["database"], out=Path(spec["out"]),
        by=spec["by"], reason=spec["reason"],
    )  # fmt: skip


def _row_of(one: Outcome) -> dict[str, Any]:
    city, slug = one.job.spec["city"], one.job.spec["config"]["domain"]
    if not one.is_there:
        reasons = [one.reason]
        return {"city": city, "domain": slug, "outcome": NO_DECISION, "version": None,
                "reasons": reasons, "folder": ""}  # fmt: skip
    kept = {name: one.result[name] for name in ("outcome", "version", "reasons", "folder")}
    return {"city": city, "domain": slug, **kept}


def _in_words(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "# Cycles by city",
        "",
        "| city | domain | outcome | version | why |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        why = "; ".join(row["reasons"]).replace("|", "/")
        lines.append(
            f"| {row['city']} | {row['domain']} | {row['outcome']} | {row['version'] or '–'} "
            f"| {why} |"
        )
    return "\n".join(lines) + "\n"
