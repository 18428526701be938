"""What a version rests on: its package, byte for byte, and the verdict of its audit.

An audit file is what `parity311 audit` writes as audit.json. The rows that count are those of
`policies` about this policy, over every grouping that was asked for, per incident where incidents
were estimated: the worst of them is the verdict. A file that names the `package` it judged (its
`seal`) is held to it. Rules of one estimate share their weights, whatever they are paid for: of
them `weights_sha256` alone names none.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity311.agents import all_agents
from parity311.agents.package import FORMAT_VERSION, MANIFEST, WEIGHTS, read_package
from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.audit.spec import AuditSpec, spec_from_plain
from parity311.domains import get_domain
from parity311.errors import RegistryError
from parity311.evaluation.titles import EQUITY_MARK
from parity311.mdp.contract import EQUITY
from parity311.records.schema import FORMAT_VERSION as SCHEMA_VERSION
from parity311.report.folder import RUN_FILE, read_run_folder
from parity311.storage.hashes import SEAL

AUDIT_FILE = "audit.json"
NAMES = (SEAL, "weights_sha256")
"""By what an audit may name the package that it judged."""
PER_NEED = ("actionable", "incidents")
"""Denominators that count what was wrong, not who said so."""
GRAVEST_FIRST = (FAIL, INSUFFICIENT, PASS)
MOST_BYTES = 500_000_000
"""Largest package: a database row holds it."""


@dataclass(frozen=True)
class PackageCopy:
    """A package's two files as bytes."""

    manifest_bytes: bytes
    weights_bytes: bytes

    @property
    def sha256(self) -> str:
        """Hash of both."""
        files = (self.manifest_bytes, self.weights_bytes)
        both = "".join(hashlib.sha256(one).hexdigest() for one in files)
        return hashlib.sha256(both.encode()).hexdigest()

    @property
    def manifest(self) -> dict[str, Any]:
        """What it says of itself."""
        return json.loads(self.manifest_bytes)


@dataclass(frozen=True)
class AuditEvidence:
    """What an audit says of one policy."""

    verdict: str
    """PASS, FAIL or INSUFFICIENT"""
    reason: str
    """of the row that decides"""
    spec: AuditSpec
    rows: tuple[dict[str, Any], ...]
    """the rows that were looked at"""
    sha256: str
    """of the file"""
    is_named: bool = False
    """whether the file says that it judged this very package"""


def copy_package(folder: Path) -> PackageCopy:
    """Read a package whole; one that is damaged, too large or of another version is refused."""
    read_package(folder)
    files = [folder / MANIFEST, folder / WEIGHTS]
    if sum(path.stat().st_size for path in files) > MOST_BYTES:
        raise RegistryError(
            f"The package in {folder} has more than {MOST_BYTES:,} bytes; a registry keeps smaller "
            "ones. Save it with fewer voters."
        )
    copy = PackageCopy(*(path.read_bytes() for path in files))
    check_versions(copy.manifest, f"the policy in {folder}")
    return copy


def check_versions(manifest: Mapping[str, Any], what: str) -> None:
    """Refuse a policy of another schema, package format or version of its domain."""
    domain = get_domain(str(manifest.get("domain")))
    for name, given, current in (
        ("the records' schema", manifest.get("schema_version"), SCHEMA_VERSION),
        ("the package format", manifest.get("format_version"), FORMAT_VERSION),
        (f"the domain {domain.slug!r}", manifest.get("domain_version"), domain.version),
    ):
        if given != current:
            raise RegistryError(
                f"{what[0].upper()}{what[1:]} was made for version {given} of {name}; this is "
                f"version {current}. Train it again from records of this version, then propose it."
            )


def read_audit(path: Path, manifest: Mapping[str, Any]) -> AuditEvidence:
    """What an audit file, or the folder of an audit's run, says of the policy with this manifest.

    Refused where the file is no audit, is about another policy, was changed since its run was
    written, or names a verdict that does not follow from its own figures.
    """
    file = path / AUDIT_FILE if path.is_dir() else path
    try:
        content = file.read_bytes()
        plain = json.loads(content)
        spec_plain, rows = plain["spec"], plain["policies"]
        package = dict(plain.get("package") or {})
        assert all(isinstance(row["verdict"], str) for row in rows)
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise RegistryError(
            f"{file} holds no audit of policies ({type(error).__name__}: {error}); give the "
            "audit.json that `parity311 audit RUN` writes."
        ) from error
    spec = spec_from_plain(spec_plain)
    if plain.get("spec_sha256", spec.sha256) != spec.sha256:
        raise RegistryError(f"The specification in {file} was changed; make the audit again.")
    given = {name: package[name] for name in NAMES if name in package}
    if any(value != manifest.get(name) for name, value in given.items()):
        raise RegistryError(f"{file} is the audit of another package; audit this one.")
    is_named = SEAL in given or (bool(given) and manifest["agent"] in all_agents())
    if (file.parent / RUN_FILE).is_file():
        _check_run(file, manifest, is_named=is_named)
    mine = _rows_about(rows, manifest, is_named=is_named)
    if not mine:
        there = sorted({f"{row.get('policy')} in {row.get('domain')}" for row in rows})
        raise RegistryError(
            f"{file} does not judge {manifest['agent']} in {manifest['domain']} "
            f"({_equity(manifest):.0%} on equity); it judges {', '.join(there) or 'no policy'}. "
            "Audit the run that the policy comes from."
        )
    verdict, reason = _worst(mine, spec, file)
    sha256 = hashlib.sha256(content).hexdigest()
    return AuditEvidence(verdict, reason, spec, tuple(mine), sha256, is_named)


def _check_run(file: Path, manifest: Mapping[str, Any], *, is_named: bool) -> None:
    """Refuse an audit that is not as its run was written, or is of another run than the policy."""
    run = read_run_folder(file.parent)
    if file.name in run.changed_files():
        raise RegistryError(f"{file} was changed since its run was written; make the audit again.")
    audited, made_in = run.config.get("run"), (manifest.get("origin") or {}).get("run")
    if audited and audited != made_in and not is_named:
        raise RegistryError(
            f"{file} audits the run {audited}, and the policy comes from {made_in or 'no run'}; "
            "audit the run it comes from, or let `parity311 cycle` make it and audit it."
        )


def _equity(manifest: Mapping[str, Any]) -> float:
    return float(manifest["preference"][EQUITY])


def _rows_about(
    rows: Sequence[dict[str, Any]], manifest: Mapping[str, Any], *, is_named: bool
) -> list[dict[str, Any]]:
    """The rows about this policy: of its domain, under the name that runs give it."""
    agent, weight = manifest["agent"], _equity(manifest)
    paid = f"{agent}{EQUITY_MARK}{weight:.2f}"
    # A rule keeps its name; an agent with a weight on equity is another than the one without.
    names = {paid} if agent in all_agents() and weight > 0 else {agent, paid}
    own = [row for row in rows if row.get("domain") == manifest["domain"]]
    own = own if is_named else [row for row in own if row.get("policy") in names]
    setting = (manifest.get("origin") or {}).get("scenario")
    there = [row for row in own if setting and row.get("setting") == setting]
    return there or own


def _worst(rows: Sequence[dict[str, Any]], spec: AuditSpec, file: Path) -> tuple[str, str]:
    """The gravest verdict over all groupings, with its reason."""
    found: list[tuple[str, str]] = []
    for strata in dict.fromkeys(row.get("strata") for row in rows):
        mine = [row for row in rows if row.get("strata") == strata]
        for row in _rows_that_count(mine):
            if row["verdict"] not in GRAVEST_FIRST or not _follows(row, spec):
                raise RegistryError(
                    f"{file} says {row['verdict']!r} by {strata} per {row.get('denominator')}, "
                    "which does not follow from the figures beside it; make the audit again."
                )
            reason = f"by {strata} per {row.get('denominator')}: {row.get('reason', '')}"
            found.append((row["verdict"], reason))
    return min(found, key=lambda one: GRAVEST_FIRST.index(one[0]))


def _rows_that_count(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of one grouping the rows per actionable incident, else per incident, else all of them.

    It is the verdict at the top of the audit's page; what fails per any incident counts as well.
    """
    need = [[row for row in rows if row.get("denominator") == name] for name in PER_NEED]
    first = next((some for some in need if some), list(rows))
    failed = [row for some in need for row in some if row["verdict"] == FAIL and row not in first]
    return [*first, *failed]


def _follows(row: Mapping[str, Any], spec: AuditSpec) -> bool:
    """Whether a verdict is no better than the bounds beside it allow; without bounds, never PASS.

    A worse one may have other grounds, such as strata that are too small.
    """
    measure = row.get("measure")
    low, high = row.get(f"{measure}_lower"), row.get(f"{measure}_upper")
    is_known = all(isinstance(one, int | float) and math.isfinite(one) for one in (low, high))
    if not is_known:
        return row["verdict"] == INSUFFICIENT
    assert low is not None
    assert high is not None
    if measure == "gap":
        is_within, is_beyond = high <= spec.tau, low > spec.tau
    else:
        is_within, is_beyond = low >= spec.smallest_ratio, high < spec.smallest_ratio
    return is_within if row["verdict"] == PASS else row["verdict"] == FAIL or not is_beyond
