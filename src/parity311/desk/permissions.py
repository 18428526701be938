"""Who may do what: a table of roles by permission, asked at every route."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What somebody is at the desk."""

    PUBLIC = "public"
    INTAKE = "intake"
    SUPERVISOR = "supervisor"
    AUDITOR = "auditor"
    ADMINISTRATOR = "administrator"


STAFF = frozenset({Role.INTAKE, Role.SUPERVISOR, Role.AUDITOR, Role.ADMINISTRATOR})
EVERYBODY = frozenset(Role)

PERMISSIONS: dict[str, frozenset[Role]] = {
    "public.read": EVERYBODY,
    "own.login": EVERYBODY,
    "own.account": STAFF,
    "queue.read": frozenset({Role.INTAKE, Role.SUPERVISOR}),
    "case.decide": frozenset({Role.INTAKE, Role.SUPERVISOR}),
    "office.read": frozenset({Role.SUPERVISOR, Role.ADMINISTRATOR}),
    "choice.record": frozenset({Role.SUPERVISOR, Role.AUDITOR}),
    "policy.act": frozenset({Role.SUPERVISOR}),
    "audit.read": frozenset({Role.AUDITOR, Role.SUPERVISOR, Role.ADMINISTRATOR}),
    "table.upload": frozenset({Role.AUDITOR, Role.SUPERVISOR, Role.ADMINISTRATOR}),
    "records.export": frozenset({Role.ADMINISTRATOR}),
    "accounts.manage": frozenset({Role.ADMINISTRATOR}),
    "keys.manage": frozenset({Role.ADMINISTRATOR}),
}
"""Permission -> roles that have it. Every route names one; the matrix is tested whole."""

FIRST_PAGE = {
    Role.PUBLIC: "/",
    Role.INTAKE: "/queue",
    Role.SUPERVISOR: "/office",
    Role.AUDITOR: "/audit",
    Role.ADMINISTRATOR: "/accounts",
}
"""Where each role arrives after logging in."""


def may(role: Role, permission: str) -> bool:
    """Whether a role has a permission."""
    return role in PERMISSIONS[permission]
