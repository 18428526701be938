"""The registry of policies: versions that do not change, acts that need a name and a reason.

Every act reads the log, checks it, asks the gates, and writes states and one entry together. What
was decided on before somebody else acted on the same domain is refused, and says who did.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.agents.package import MANIFEST, WEIGHTS
from parity311.errors import RegistryError, unknown_name
from parity311.lifecycle.chain import COLUMNS, FIRST, LogEntry, add_entry, chain_problems
from parity311.lifecycle.database import Database
from parity311.lifecycle.evidence import AuditEvidence, PackageCopy, copy_package, read_audit
from parity311.lifecycle.gates import GOES_LIVE, check_gates, check_text, check_words
from parity311.lifecycle.statement import STATEMENT_VERSION, StatedLine, state_policy
from parity311.lifecycle.states import PROPOSE, PolicyState, Standing
from parity311.lifecycle.tables import LogRow, PackageRow, StateRow, VersionRow
from parity311.lifecycle.verifying import all_problems, log_problems, replay
from parity311.serving.policy import LoadedPolicy, load_policy
from parity311.storage.aside import write_bytes_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.storage.strict_json import canonical_json
from parity311.version import __version__

ENTRY_FIELDS = (*COLUMNS, "payload", "previous_hash", "hash")


@dataclass(frozen=True)
class RegisteredPolicy:
    """A version as the registry lists it."""

    version: str
    domain: str
    state: PolicyState
    verdict: str
    package_sha256: str
    proposed_by: str
    proposed_at: str
    last_act: str
    by: str
    """who did the last act"""
    at: str
    reason: str


@dataclass(frozen=True)
class Verified:
    """What a look over the whole registry found."""

    n_entries: int
    n_versions: int
    head: str
    """hash of the last entry: to be kept somewhere else"""
    problems: tuple[str, ...]


class Registry:
    """Policies and what was done with them; `makes` makes the database where there is none."""

    def __init__(
        self,
        address: str | Path,
        *,
        makes: bool = False,
        clock: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        self.database = Database(address, makes=makes)
        self._clock = clock

    def propose(
        self, folder: Path, audit: Path, *, by: str, reason: str, clock_because: str = ""
    ) -> str:
        """Take a package and its audit up as a new version; its name.

        What is kept is a copy: what happens to the folder later changes nothing here.
        """
        copy, evidence = check_proposal(folder, audit, by=by, reason=reason)
        check_text("--clock-because", clock_because)
        manifest = copy.manifest
        domain = manifest["domain"]
        statement = {
            "statement_version": STATEMENT_VERSION,
            "reward": manifest["reward"],
            "lines": [asdict(line) for line in state_policy(manifest, evidence.spec)],
        }
        with self.database.writing() as session:
            entries, standing = self._look(session)
            number = 1 + sum(1 for one in standing.domains.values() if one == domain)
            row = VersionRow(
                version=f"{domain}-{number}",
                domain=domain,
                number=number,
                package_sha256=copy.sha256,
                folder=str(folder.resolve()),
                schema_version=manifest["schema_version"],
                records=(manifest.get("origin") or {}).get("records", ""),
                configuration=canonical_json(manifest),
                statement=canonical_json(statement),
                verdict=evidence.verdict,
                audit=canonical_json(evidence),
                proposed_by=by.strip(),
                proposed_at="",
            )
            self._refuse_same(session, row, standing)
            _refuse_used(session, row, evidence)
            details = {"package_sha256": copy.sha256, "audit_sha256": evidence.sha256}
            changes = standing.propose(row.version, domain)
            entry = self._entry(
                entries, PROPOSE, row, by, reason,
                {**details, "changes": changes, "version_sha256": row.content_sha256},
                clock_because,
            )  # fmt: skip
            row.proposed_at = entry.at
            if session.get(PackageRow, copy.sha256) is None:
                session.add(
                    PackageRow(
                        sha256=copy.sha256,
                        manifest=copy.manifest_bytes,
                        weights=copy.weights_bytes,
                    )
                )
            session.add(row)
            self._write(session, entry, standing, changes)
        return row.version

    def seen(self, subject: str, entry: int | None = None) -> str:
        """Hash of the last entry about a domain (or a version's): what a decision is based on.

        Given to `act`, it is refused where somebody else acted since. ``entry`` is the last number
        that the log had for whoever decided; the last there is if not given.
        """
        with self.database.reading() as session:
            entries = self._entries(session)
        if entry is not None and not 0 <= entry <= len(entries):
            raise RegistryError(
                f"Entry {entry} was seen, and the log has {len(entries)}; `parity311 policies "
                "list` tells the last."
            )
        return _last_about(entries[:entry], _domain_of(subject))

    def act(
        self,
        action: str,
        subject: str,
        *,
        by: str,
        reason: str,
        seen: str | None = None,
        insufficient_because: str = "",
        clock_because: str = "",
    ) -> LogEntry:
        """Do something with a version, or with the one in office of a domain.

        Parameters
        ----------
        action
            One of `parity311.lifecycle.states.ACTS`.
        subject
            A version (shadow, release, retire), or a domain (watch, suspend, resume, rollback).
        by, reason
            Who decided, and why.
        seen
            What `seen` said when that was decided; just now if not given.
        insufficient_because
            Why a policy goes live though its audit could not tell.
        clock_because
            Why the log's last entry is ahead of this clock: the act then has its time.
        """
        check_words(by, reason)
        check_text("--clock-because", clock_because)
        if seen is None:
            seen = self.seen(subject)
        with self.database.writing() as session:
            entries, standing = self._look(session)
            version = standing.subject_of(action, subject)
            row = _row(session, version)
            last = _last_about(entries, row.domain)
            if last != seen:
                other = next(one for one in entries if one.hash == last)
                raise RegistryError(
                    f"{other.actor} did {other.action} {other.version} at {other.at}, after this "
                    f"{action} was decided; nothing was changed. Look with `parity311 policies "
                    "list`, then decide again."
                )
            goes_live = standing.after_rollback(version) if action == "rollback" else version
            if action in GOES_LIVE and goes_live is not None:
                try:
                    target = _row(session, goes_live)
                    package = self._package(session, target)
                    check_gates(action, target, package, insufficient_because)
                except RegistryError as error:
                    if action != "rollback" or standing.deciding(row.domain) is None:
                        raise
                    raise RegistryError(
                        f"{error} Until then `parity311 policies suspend {row.domain}` lets "
                        "today's rule decide."
                    ) from error
            changes = standing.do(action, subject)
            details: dict[str, Any] = {
                "changes": changes,
                "decides": standing.deciding(row.domain),
                "verdict": row.verdict,
            }
            if insufficient_because:
                details["insufficient_because"] = insufficient_because.strip()
            entry = self._entry(entries, action, row, by, reason, details, clock_because)
            self._write(session, entry, standing, changes)
        return entry

    def policies(self) -> list[RegisteredPolicy]:
        """All versions, oldest first, with the last act on each."""
        with self.database.reading() as session:
            entries, standing = self._look(session)
            last_act = {version: one for one in entries for version in one.details["changes"]}
            found = []
            for version in standing.states:
                row, last = _row(session, version), last_act[version]
                found.append(
                    RegisteredPolicy(
                        row.version, row.domain, standing.states[version], row.verdict,
                        row.package_sha256, row.proposed_by, row.proposed_at,
                        last.action, last.actor, last.at, last.reason,
                    )
                )  # fmt: skip
        return found

    def log(self) -> list[LogEntry]:
        """All acts, oldest first."""
        with self.database.reading() as session:
            return self._entries(session)

    def deciding(self, domain: str) -> str | None:
        """The version that decides in a domain; None where today's rule does.

        A registry that does not verify is refused: then nobody can say.
        """
        with self.database.reading() as session:
            return self._look(session)[1].deciding(domain)

    def package(self, version: str) -> PackageCopy:
        """The bytes of a version's package, as they were proposed."""
        with self.database.reading() as session:
            return self._package(session, _row(session, version))

    def export(self, version: str, out: Path) -> None:
        """Write a version's package to a folder; the manifest last, so that a half is none."""
        copy = self.package(version)
        holds_own(out, (WEIGHTS, MANIFEST), "a policy", RegistryError)
        with telling_disk_errors(out, RegistryError):
            write_bytes_aside(out / WEIGHTS, copy.weights_bytes)
            write_bytes_aside(out / MANIFEST, copy.manifest_bytes)

    def load(self, version: str) -> LoadedPolicy:
        """A version as it would serve."""
        with tempfile.TemporaryDirectory() as folder:
            self.export(version, Path(folder))
            return load_policy(folder)

    def statement(self, version: str) -> tuple[StatedLine, ...]:
        """The reward statement of a version, as it was when it was proposed."""
        return tuple(
            StatedLine(**one) for one in json.loads(self.stored(version).statement)["lines"]
        )

    def stored(self, version: str) -> VersionRow:
        """A version as it is stored."""
        with self.database.reading() as session:
            row = _row(session, version)
            session.expunge(row)
        return row

    def verify(self, head: str = "") -> Verified:
        """Look over the log, versions, packages and states; `head` is a hash that was kept."""
        with self.database.reading() as session:
            entries = self._entries(session)
            problems = all_problems(session, entries)
            n_versions = len(session.scalars(select(VersionRow.version)).all())
        if head and head not in {FIRST, *(one.hash for one in entries)}:
            problems.append(f"the log does not hold the entry {head[:12]}… that was kept")
        last = entries[-1].hash if entries else FIRST
        return Verified(len(entries), n_versions, last, tuple(problems))

    def _entries(self, session: Session) -> list[LogEntry]:
        rows = session.scalars(select(LogRow).order_by(LogRow.seq))
        return [LogEntry(**{name: getattr(row, name) for name in ENTRY_FIELDS}) for row in rows]

    def _look(self, session: Session) -> tuple[list[LogEntry], Standing]:
        """The log and where it leaves every version; refused where it cannot be trusted."""
        entries = self._entries(session)
        problems = chain_problems(entries) or log_problems(session, entries)
        if problems:
            raise RegistryError(
                f"The registry at {self.database.where} was tampered with: {problems[0]}. Nothing "
                "was changed; `parity311 policies verify` has all of it, and a copy from before is "
                "the cure."
            )
        return entries, replay(entries)

    def _package(self, session: Session, row: VersionRow) -> PackageCopy:
        kept = session.get(PackageRow, row.package_sha256)
        copy = PackageCopy(kept.manifest, kept.weights) if kept else None
        if copy is None or copy.sha256 != row.package_sha256:
            raise RegistryError(
                f"The package of {row.version} was tampered with: it is not what was proposed. "
                "Propose the policy again from its folder; nothing was changed."
            )
        return copy

    def _refuse_same(self, session: Session, row: VersionRow, standing: Standing) -> None:
        """A package with the same audit is one version, until it is retired."""
        alike = select(VersionRow.version).where(
            VersionRow.package_sha256 == row.package_sha256, VersionRow.audit == row.audit
        )
        for version in session.scalars(alike):
            if standing.states[version] != PolicyState.RETIRED:
                raise RegistryError(
                    f"This package with this audit is {version} already, "
                    f"{standing.states[version]}; release that, or propose another audit."
                )

    def _entry(
        self, entries: list[LogEntry], action: str, row: VersionRow, by: str, reason: str,
        details: dict[str, Any], clock_because: str,
    ) -> LogEntry:  # fmt: skip
        return add_entry(
            entries,
            self._clock(),
            clock_because=clock_because.strip(),
            actor=by.strip(),
            action=action,
            domain=row.domain,
            version=row.version,
            reason=reason.strip(),
            details={**details, "software_version": __version__},
        )

    def _write(
        self,
        session: Session,
        entry: LogEntry,
        standing: Standing,
        changes: dict[str, PolicyState],
    ) -> None:
        """Write an entry and what it changes; who leaves office first, so that it is free."""
        session.add(LogRow(**{name: getattr(entry, name) for name in ENTRY_FIELDS}))
        for version in sorted(changes, key=lambda one: changes[one] != PolicyState.RETIRED):
            kept = session.get(StateRow, version)
            if kept is None:
                kept = StateRow(version=version, domain=standing.domains[version])
                session.add(kept)
            kept.state = changes[version].value
            session.flush()


def check_proposal(
    folder: Path, audit: Path, *, by: str, reason: str
) -> tuple[PackageCopy, AuditEvidence]:
    """What would be proposed, read and checked; no registry is needed for it, nor made."""
    check_words(by, reason)
    copy = copy_package(folder)
    return copy, read_audit(audit, copy.manifest)


def _refuse_used(session: Session, row: VersionRow, evidence: AuditEvidence) -> None:
    """Refuse what an audit said of another package; one that names this package judged this."""
    if evidence.is_named:
        return
    others = select(VersionRow).where(
        VersionRow.domain == row.domain, VersionRow.package_sha256 != row.package_sha256
    )
    said = json.loads(row.audit)["rows"]
    for other in session.scalars(others.order_by(VersionRow.number)):
        if json.loads(other.audit)["rows"] == said:
            raise RegistryError(
                f"The same figures were given for {other.version}, which is another package; no "
                "audit has judged this one. Audit it, or let `parity311 cycle` make and audit it."
            )


def _row(session: Session, version: str) -> VersionRow:
    row = session.get(VersionRow, version)
    if row is None:
        raise unknown_name("version", version, session.scalars(select(VersionRow.version)))
    return row


def _domain_of(subject: str) -> str:
    """Domain of a version's name, or the domain itself."""
    domain, _, number = subject.rpartition("-")
    return domain if domain and number.isdigit() else subject


def _last_about(entries: list[LogEntry], domain: str) -> str:
    """Hash of the last entry about a domain that changed who is in office, or of nothing."""
    about = [one.hash for one in entries if one.domain == domain and one.action != PROPOSE]
    return about[-1] if about else FIRST
