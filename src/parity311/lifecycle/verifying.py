"""Whether a registry is what its log says: chain, versions, packages and states."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from parity311.errors import Parity311Error
from parity311.lifecycle.chain import LogEntry, chain_problems
from parity311.lifecycle.evidence import PackageCopy
from parity311.lifecycle.gates import folder_problem
from parity311.lifecycle.states import ACTS, PROPOSE, PolicyState, Standing
from parity311.lifecycle.tables import PackageRow, StateRow, VersionRow


def replay(entries: Sequence[LogEntry]) -> Standing:
    """Where the acts of a log leave every version; an act that was not allowed is an error."""
    standing = Standing()
    for entry in entries:
        if entry.action == PROPOSE:
            changes = standing.propose(entry.version, entry.domain)
        else:
            act = ACTS.get(entry.action)
            by_domain = act is not None and act.by_domain
            changes = standing.do(entry.action, entry.domain if by_domain else entry.version)
        written = entry.details.get("changes")
        if written != {version: state.value for version, state in changes.items()}:
            raise Parity311Error(f"entry {entry.seq} changes other states than its act does")
    return standing


def log_problems(session: Session, entries: Sequence[LogEntry]) -> list[str]:
    """Where versions and states are not what a log says, a line each."""
    try:
        standing = replay(entries)
    except Parity311Error as error:
        return [f"the log holds an act that was not allowed: {error}"]
    found = []
    told = {one.version: one for one in entries if one.action == PROPOSE}
    rows = {row.version: row for row in session.scalars(select(VersionRow))}
    for version in sorted(rows.keys() | told.keys()):
        if version not in rows or version not in told:
            where = "versions" if version not in rows else "log"
            found.append(f"version {version} is missing from the {where}")
        elif (rows[version].content_sha256, rows[version].proposed_at) != (
            told[version].details.get("version_sha256"),
            told[version].at,
        ):
            found.append(f"version {version} was changed since it was proposed")
    states = {row.version: (row.domain, row.state) for row in session.scalars(select(StateRow))}
    for version in sorted(states.keys() | standing.states.keys()):
        is_told = version in standing.states
        said = (standing.domains[version], standing.states[version].value) if is_told else None
        if states.get(version) != said:
            found.append(
                f"version {version} stands as {states.get(version, ('', 'nothing'))[1]}, and the "
                f"log leaves it {said[1] if said else 'unknown'}"
            )
    return found


def package_problems(session: Session) -> list[str]:
    """Packages that are missing or not what was proposed, in the database or in their folders.

    A folder that is gone, or whose version is out of office, is nobody's concern.
    """
    found = []
    states = {row.version: row.state for row in session.scalars(select(StateRow))}
    for row in session.scalars(select(VersionRow).order_by(VersionRow.version)):
        kept = session.get(PackageRow, row.package_sha256)
        if kept is None:
            found.append(f"the package of {row.version} is missing")
        elif PackageCopy(kept.manifest, kept.weights).sha256 != row.package_sha256:
            found.append(f"the package of {row.version} was changed since it was proposed")
        if kept is not None:
            session.expunge(kept)
        if states.get(row.version) not in (None, PolicyState.SUSPENDED, PolicyState.RETIRED):
            changed = folder_problem(row)
            found += [changed] if changed else []
    return found


def all_problems(session: Session, entries: Sequence[LogEntry]) -> list[str]:
    """Everything that does not fit, a line each; an empty list is what you want."""
    return [
        *chain_problems(entries),
        *log_problems(session, entries),
        *package_problems(session),
    ]
