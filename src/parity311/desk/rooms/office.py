"""Supervisors: load, overrides, clocks, prices in force; a policy can be suspended from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form

from parity311.desk import ledger
from parity311.desk.figures import read_anchoring, read_load, read_overrides, read_survey
from parity311.desk.pictures import draw_bars
from parity311.desk.web import Caller, Room, Went
from parity311.mdp.contract import STRATUM_NAMES

ROOM = Room("office")


@ROOM.page("/office", "office.html", "office.read")
def show_office(caller: Caller) -> dict[str, Any]:
    """How the office stands."""
    desk = caller.desk
    with desk.database.reading() as session:
        load = read_load(session, desk.clock.now())
        overrides, anchoring = read_overrides(session), read_anchoring(session)
        survey = read_survey(session)
    registered = {one.version: one for one in desk.registry.policies()}
    policies = []
    for domain, office in desk.offices.items():
        version, policy = office.deciding
        last = [one for one in registered.values() if one.domain == domain]
        state = next((one.state for one in last if one.state == "SUSPENDED"), "")
        policies.append(
            {
                "domain": domain,
                "version": version,
                "state": registered[version].state if version else state,
                "prices": [
                    {"group": name.replace("_", " "), "price": float(price)}
                    for name, price in zip(STRATUM_NAMES, policy.prices, strict=True)
                ],
            }
        )
    picture = draw_bars([(one["domain"], one["open"]) for one in load], "Open cases by kind")
    return {
        "title": "The office",
        "load": load,
        "picture": picture,
        "overrides": overrides,
        "anchoring": anchoring,
        "survey": survey,
        "policies": policies,
    }


@ROOM.act("/office/{domain}/act", "policy.act")
def act_on_policy(
    caller: Caller,
    domain: str,
    action: Annotated[Literal["suspend", "resume"], Form()],
    reason: Annotated[str, Form(max_length=2000)],
) -> Went:
    """Suspend the policy of a domain, or let it decide again."""
    office = caller.desk.office(domain)
    entry = caller.desk.registry.act(action, domain, by=caller.actor.name, reason=reason)
    office.forget()
    with caller.desk.database.writing() as session:
        ledger.append(
            session, actor=caller.actor.name, action=action, domain=domain, version=entry.version,
            reason="see the registry", details={"role": caller.actor.role, "registry": entry.hash},
        )  # fmt: skip
    return Went("/office", "acted", {"entry": entry.seq})
