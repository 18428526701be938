"""An office whose policies are proposed, released and rolled back in tests."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.conftest import tiny_tables
from tests.served import PRICES, make_package, random_network, save_package

from parity311.agents.package import Package, write_package
from parity311.audit.spec import AuditSpec
from parity311.domains import get_domain
from parity311.lifecycle.registry import Registry
from parity311.mdp.harness import Harness

BOUNDS = {"PASS": (0.0, 0.02), "FAIL": (0.1, 0.2), "INSUFFICIENT": (0.01, 0.2)}
"""Ends of the band of the gap that give each verdict at a tau of 0.05."""
WHO = {"by": "A. Okafor", "reason": "yearly review"}


def audit_row(verdict: str, policy: str, domain: str = "heat", **more: Any) -> dict[str, Any]:
    """One row about a policy, as `parity311 audit` writes it."""
    low, high = BOUNDS[verdict]
    return {
        "domain": domain,
        "setting": "",
        "policy": policy,
        "strata": "income5",
        "denominator": "actionable",
        "verdict": verdict,
        "measure": "gap",
        "gap": (low + high) / 2,
        "gap_lower": low,
        "gap_upper": high,
        "reason": f"the gap lies between {100 * low:.1f} and {100 * high:.1f} points",
        **more,
    }


def write_audit(
    path: Path, *rows: dict[str, Any], by: AuditSpec = AuditSpec(), **more: Any
) -> Path:
    """An audit file with these rows."""
    plain = {"spec": asdict(by), "spec_sha256": by.sha256, "domains": [], "policies": rows}
    path.write_text(json.dumps(plain | more))
    return path


@cache
def made_package(domain: str, seed: int) -> Package:
    """A package of a small network."""
    harness = Harness(get_domain(domain))
    return make_package(harness, random_network(harness, seed=seed))


def busy_tables(n: int = 4) -> dict[str, pa.Table]:
    """The tiny records with each complaint n times, and what heat's policies see of one."""
    tables = dict(tiny_tables())
    for name in ("complaints", "outcomes", "visits"):
        rows = tables[name].to_pylist()
        ids = [key for key in ("complaint_id", "incident_id", "visit_id") if key in rows[0]]
        more = [
            row | {key: f"{row[key]}-{copy}" for key in ids} for row in rows for copy in range(n)
        ]
        tables[name] = pa.Table.from_pylist(more, schema=tables[name].schema)
    n_rows = len(tables["complaints"])
    for place, flag in enumerate(("is_no_heat", "is_building_wide")):
        values = pa.array([bool((row >> place) & 1) for row in range(n_rows)])
        tables["complaints"] = tables["complaints"].append_column(flag, values)
    return tables


class Office:
    """A folder, a registry, a clock that goes on by itself."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.now = datetime(2026, 1, 5, 9, tzinfo=UTC)
        self.registry = self.open(makes=True)
        self.n_packages = 0
        self.n_audits = 0

    def open(self, *, makes: bool = False) -> Registry:
        """Another connection to the same registry."""
        return Registry(self.address, makes=makes, clock=self.tick)

    def tick(self) -> datetime:
        """One minute later at every look."""
        self.now += timedelta(minutes=1)
        return self.now

    def package(self, domain: str = "heat", **manifest: Any) -> Path:
        """A new package: another network each time, whose manifest says this."""
        self.n_packages += 1
        made = made_package(domain, self.n_packages)
        manifest = made.manifest | manifest
        folder = self.folder / f"policy{self.n_packages}"
        return write_package(folder, replace(made, manifest=manifest))

    def audit(self, verdict: str = "PASS", policy: str = "network", **more: Any) -> Path:
        """An audit file of that verdict; no two have the same figures."""
        self.n_audits += 1
        row = audit_row(verdict, policy, **more)
        row["gap"] += 1e-6 * self.n_audits
        return write_audit(self.folder / f"{verdict}.json", row)

    def propose(self, verdict: str = "PASS", domain: str = "heat") -> str:
        """Propose a new policy with that verdict; its version."""
        audit = self.audit(verdict, domain=domain)
        return self.registry.propose(self.package(domain), audit, **WHO)

    def released(self, domain: str = "heat") -> str:
        """Propose one and release it; its version."""
        version = self.propose(domain=domain)
        self.registry.act("release", version, **WHO)
        return version

    @property
    def states(self) -> dict[str, str]:
        """State by version."""
        return {one.version: one.state.value for one in self.registry.policies()}

    def both_packages(self) -> tuple[Path, Path]:
        """Two that are paid for different things."""
        first = save_package(self.folder / "plain", "heat", "balanced")
        return first, save_package(self.folder / "priced", "heat", "dual_threshold", prices=PRICES)
