"""The states of a policy and the acts that lead from one to another.

    PROPOSED → SHADOW → LIVE → WATCH → SUSPENDED → RETIRED

A domain has at most one policy in office: LIVE, WATCH (it decides, and is looked at closely) or
SUSPENDED (it keeps the office, today's rule decides). Where none is LIVE or WATCH, today's rule
decides. A release retires whoever was in office; a rollback retires it too, and brings back the one
before. What was retired by name does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parity311.errors import RegistryError, unknown_name


class PolicyState(StrEnum):
    """Where a version stands."""

    PROPOSED = "PROPOSED"
    SHADOW = "SHADOW"
    LIVE = "LIVE"
    WATCH = "WATCH"
    SUSPENDED = "SUSPENDED"
    RETIRED = "RETIRED"


DECIDING = (PolicyState.LIVE, PolicyState.WATCH)
"""States in which a policy decides."""
IN_OFFICE = (*DECIDING, PolicyState.SUSPENDED)
"""States of which a domain has one at most."""
WAITING = (PolicyState.PROPOSED, PolicyState.SHADOW)
"""States before a first release."""


@dataclass(frozen=True)
class Act:
    """One thing that can be done with a policy."""

    begins: tuple[PolicyState, ...]
    """states in which it is allowed"""
    ends: PolicyState
    by_domain: bool
    """whether it is about the one in office of a domain, not about a version by name"""


PROPOSE = "propose"
ACTS = {
    "shadow": Act((PolicyState.PROPOSED,), PolicyState.SHADOW, by_domain=False),
    "release": Act(WAITING, PolicyState.LIVE, by_domain=False),
    "watch": Act((PolicyState.LIVE,), PolicyState.WATCH, by_domain=True),
    "suspend": Act(DECIDING, PolicyState.SUSPENDED, by_domain=True),
    "resume": Act((PolicyState.WATCH, PolicyState.SUSPENDED), PolicyState.LIVE, by_domain=True),
    "rollback": Act(IN_OFFICE, PolicyState.RETIRED, by_domain=True),
    "retire": Act((*WAITING, *IN_OFFICE), PolicyState.RETIRED, by_domain=False),
}
"""Acts by name, beside `PROPOSE`, which makes a version."""


@dataclass
class Standing:
    """Where every version stands, as the log tells it."""

    states: dict[str, PolicyState] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    """domain of each version"""
    succession: dict[str, list[str]] = field(default_factory=dict)
    """by domain the versions to roll back through, the one in office last"""

    def in_office(self, domain: str) -> str | None:
        """The version in office of a domain; None where today's rule is on its own."""
        last = self.succession.get(domain, [])[-1:]
        return last[0] if last and self.states[last[0]] in IN_OFFICE else None

    def deciding(self, domain: str) -> str | None:
        """The version that decides; None where today's rule does."""
        holder = self.in_office(domain)
        return holder if holder and self.states[holder] in DECIDING else None

    def propose(self, version: str, domain: str) -> dict[str, PolicyState]:
        """Take up a version; what that changes."""
        if version in self.states:
            raise RegistryError(f"Version {version} was proposed twice; verify the registry.")
        self.domains[version] = domain
        return self._set({version: PolicyState.PROPOSED})

    def do(self, action: str, subject: str) -> dict[str, PolicyState]:
        """Do an act on a version, or on the one in office of a domain; what that changes.

        The act is refused, and nothing changed, where the state does not allow it.
        """
        version = self.subject_of(action, subject)
        domain = self.domains[version]
        line = self.succession.setdefault(domain, [])
        changes = {version: ACTS[action].ends}
        if action == "release":
            holder = self.in_office(domain)
            changes |= {holder: PolicyState.RETIRED} if holder else {}
            line.append(version)
        elif action == "rollback":
            line.remove(version)
            changes |= {line[-1]: PolicyState.LIVE} if line else {}
        elif action == "retire" and version in line:
            line.remove(version)
        return self._set(changes)

    def subject_of(self, action: str, subject: str) -> str:
        """The version that an act is about, checked for the state it must be in."""
        if action not in ACTS:
            raise unknown_name("act", action, ACTS)
        act = ACTS[action]
        if act.by_domain:
            version = self.in_office(subject)
            if version is None and subject in self.states:
                raise RegistryError(
                    f"{subject} is a version, and {action} is about a domain's policy in office: "
                    f"name {self.domains[subject]!r}. Nothing was changed."
                )
            known = set(self.domains.values())
            if version is None and known and subject not in known:
                raise unknown_name("domain of this registry", subject, known)
            if version is None:
                raise RegistryError(
                    f"No policy is in office in {subject!r}, today's rule decides; there is "
                    f"nothing to {_VERBS.get(action, action)}. `parity311 policies list` has what "
                    "there is."
                )
        elif subject not in self.states:
            raise unknown_name("version", subject, self.states)
        else:
            version = subject
        if self.states[version] not in act.begins:
            allowed = ", ".join(act.begins)
            raise RegistryError(
                f"Version {version} is {self.states[version]}; {action} is allowed from {allowed}. "
                "`parity311 policies list` has what there is."
            )
        return version

    def after_rollback(self, version: str) -> str | None:
        """Who would be in office after this one is rolled back; None: today's rule."""
        line = [one for one in self.succession.get(self.domains[version], []) if one != version]
        return line[-1] if line else None

    def _set(self, changes: Mapping[str, PolicyState]) -> dict[str, PolicyState]:
        self.states |= changes
        return dict(changes)


_VERBS = {"rollback": "roll back"}
