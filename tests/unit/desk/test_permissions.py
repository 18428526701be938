"""Every route, every role: let in where the table of permissions says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.routing import APIRoute
from tests.unit.desk.staff import SmallDesk, cases_of

from parity311.desk.app import make_app
from parity311.desk.permissions import PERMISSIONS, Role
from parity311.desk.rooms import ROOMS
from parity311.desk.web import Room

REFUSED = (401, 403)


def routes_of(rooms: Sequence[Room]) -> list[tuple[str, str, str]]:
    """Method, path and permission of every route of these rooms."""
    found = []
    for route in (one for room in rooms for one in room.router.routes):
        assert isinstance(route, APIRoute)
        permission = (route.openapi_extra or {}).get("x-permission", "")
        found += [(method, route.path, permission) for method in sorted(route.methods)]
    return found


def fill(path: str, case: str) -> str:
    names = dict.fromkeys(("complaint_id", "service_request_id", "token"), case)
    names |= {"name": "intake", "domain": "heat", "service_code": "heat"}
    names |= {"run": "none", "kind": "json"}
    for name, value in names.items():
        path = path.replace("{" + name + "}", value)
    return path


def wrong_answers(small: SmallDesk, app: Any, rooms: Sequence[Room]) -> list[str]:
    """Routes that let in whom they should not, or refuse whom they should let in."""
    small.__dict__["app"] = app
    case = cases_of(small.browser("intake"))[0]["complaint_id"]
    wrong = []
    for role in Role:
        client = small.browser("" if role == Role.PUBLIC else role.value)
        for method, path, permission in routes_of(rooms):
            if path in ("/login", "/logout", "/account/password") and method == "POST":
                continue  # would end the login that is tried; tried in test_queue
            answer = client.request(
                method, fill(path, case), headers={"Accept": "application/json"},
                follow_redirects=False,
            )  # fmt: skip
            allowed = permission in PERMISSIONS and role in PERMISSIONS[permission]
            if "open311" in path and method == "POST":
                allowed = False  # it takes a key, whoever is logged in
            if (answer.status_code not in REFUSED) != allowed or answer.status_code >= 500:
                wrong.append(f"{role} {method} {path}: {answer.status_code}")
    return wrong


def test_every_route_asks_for_a_permission(small: SmallDesk) -> None:
    routes = routes_of(ROOMS)
    assert len(routes) > 25
    assert [one for one in routes if one[2] not in PERMISSIONS] == []
    assert wrong_answers(small, small.app, ROOMS) == []


def test_a_route_that_asks_for_too_little_is_noticed(small: SmallDesk) -> None:
    room = Room("broken")

    @room.page("/secret", "error.html", "public.read")
    def show(caller: Any) -> dict[str, Any]:
        """Let anybody in."""
        return {"title": "x", "status": 200, "message": "x"}

    for route in room.router.routes:
        assert isinstance(route, APIRoute)
        assert route.openapi_extra is not None
        route.openapi_extra["x-permission"] = "accounts.manage"  # what it claims to ask for
    app = make_app(small.desk)
    app.include_router(room.router)
    found = wrong_answers(small, app, [room])
    assert found
    assert all("/secret" in one for one in found)


@pytest.mark.parametrize("permission", sorted(PERMISSIONS))
def test_the_public_reads_and_does_nothing_else(permission: str) -> None:
    if Role.PUBLIC in PERMISSIONS[permission]:
        assert permission in ("public.read", "own.login")
