"""Logging in and out, one's password, and the administrator's list of accounts."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Form, Query, Response
from fastapi.responses import RedirectResponse

from parity311.desk import accounts, identity
from parity311.desk.limits import Bucket
from parity311.desk.permissions import FIRST_PAGE, Role
from parity311.desk.refusals import NothingThereError
from parity311.desk.web import (
    Caller,
    Room,
    Went,
    away_name,
    cookie_name,
    set_away,
    set_cookie,
)

ROOM = Room("entrance")
TRIES_AT_ONCE, TRIES_A_MINUTE = 8, 6.0
"""Logins by account and address."""
NAMES_AT_ONCE, NAMES_A_MINUTE = 60, 30.0
"""Logins by address alone: one password is not tried on every name. An office may share one."""
ROLES = tuple(one.value for one in Role if one != Role.PUBLIC)
Name = Annotated[str, Form(max_length=60)]
Password = Annotated[str, Form(max_length=200)]


@ROOM.page("/login", "login.html", "own.login")
def show_login(caller: Caller, to: Annotated[str, Query(max_length=200)] = "") -> dict[str, Any]:
    """Where one logs in."""
    return {"title": "Log in", "to": safe_path(to), "provider": provider_of(caller)}


@ROOM.act("/login", "own.login")
def log_in(
    caller: Caller, name: Name, password: Password,
    to: Annotated[str, Form(max_length=200)] = "",
) -> Went:  # fmt: skip
    """Log in with name and password."""
    count_try(caller, name)
    with caller.desk.database.reading() as session:
        actor = accounts.find_account(session, name, password)
    with caller.desk.database.writing() as session:
        token = accounts.start_login(session, actor)
    return Went(safe_path(to) or FIRST_PAGE[actor.role], "", cookie=token)


@ROOM.raw("/login/provider", "own.login", methods=["GET"], include_in_schema=False)
def leave_for_provider(caller: Caller, to: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Go and log in at the agency's identity provider."""
    provider = _own_provider(caller)
    count_address(caller)
    departure = identity.draw_departure()
    response = RedirectResponse(identity.way_out(provider, departure), status_code=303)
    set_away(response, caller.desk, f"{departure} {safe_path(to)}")
    return response


@ROOM.raw(identity.BACK, "own.login", methods=["GET"], include_in_schema=False)
def come_back(
    caller: Caller,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4000)] = "",
) -> Response:
    """Come back from the identity provider, logged in or not."""
    provider, desk = _own_provider(caller), caller.desk
    departure, _, to = unquote(caller.request.cookies.get(away_name(desk), "")).partition(" ")
    name = identity.name_of(provider, departure, state, code)
    with desk.database.writing() as session:
        actor = accounts.known_account(session, name)
        token = accounts.start_login(session, actor)
    response = RedirectResponse(safe_path(to) or FIRST_PAGE[actor.role], status_code=303)
    set_away(response, desk, "")
    set_cookie(response, desk, token)
    return response


def _own_provider(caller: Caller) -> identity.Provider:
    if caller.desk.provider is None:
        raise NothingThereError("This desk has no identity provider; log in with a password.")
    return caller.desk.provider


def provider_of(caller: Caller) -> str:
    """What the identity provider is called; empty where there is none."""
    return caller.desk.provider.name if caller.desk.provider else ""


@ROOM.act("/logout", "own.account")
def log_out(caller: Caller) -> Went:
    """Log out here."""
    token = caller.request.cookies.get(cookie_name(caller.desk), "")
    with caller.desk.database.writing() as session:
        accounts.end_login(session, token)
    return Went("/login", "logged_out", cookie="")


@ROOM.page("/account", "account.html", "own.account")
def show_account(caller: Caller) -> dict[str, Any]:
    """One's own account."""
    return {"title": "Your account", "name": caller.actor.name, "role": caller.actor.role}


@ROOM.act("/account/password", "own.account")
def change_password(caller: Caller, old: Password, new: Password) -> Went:
    """Change one's password; all logins of the account end."""
    name, desk = caller.actor.name, caller.desk
    count_try(caller, name)
    with desk.database.reading() as session:
        before = accounts.check_own_password(session, name, old)
    hashed = accounts.hash_password(new)
    with desk.database.writing() as session:
        accounts.set_password(session, name, hashed, before)
    return Went("/login", "password", cookie="")


@ROOM.page("/accounts", "accounts.html", "accounts.manage")
def show_accounts(caller: Caller) -> dict[str, Any]:
    """All accounts."""
    with caller.desk.database.reading() as session:
        listed = accounts.list_accounts(session)
    return {"title": "Accounts", "accounts": listed, "roles": ROLES,
            "provider": provider_of(caller)}  # fmt: skip


@ROOM.act("/accounts", "accounts.manage")
def make_account(caller: Caller, name: Name, role: Name, password: Password = "") -> Went:
    """Make an account; without a password only an identity provider opens it."""
    hashed = accounts.hash_password(password) if password or not caller.desk.provider else ""
    with caller.desk.database.writing() as session:
        accounts.make_account(session, name, role, hashed)
    return Went("/accounts", "account")


@ROOM.act("/accounts/{name}", "accounts.manage")
def change_account(
    caller: Caller, name: str, role: Name, is_active: Annotated[bool, Form()] = False
) -> Went:
    """Change an account's role, or close it."""
    with caller.desk.database.writing() as session:
        accounts.change_account(session, name, role, is_active)
    return Went("/accounts", "account")


@ROOM.act("/accounts/{name}/password", "accounts.manage")
def give_password(caller: Caller, name: str, password: Password) -> Went:
    """Give somebody who forgot theirs a new password; all logins of the account end."""
    hashed = accounts.hash_password(password)
    with caller.desk.database.writing() as session:
        accounts.set_password(session, name, hashed)
    return Went("/accounts", "account")


def count_try(caller: Caller, name: str) -> None:
    """Refuse who tries passwords too often."""
    count_address(caller)
    bucket = caller.desk.more.setdefault("tries", Bucket(TRIES_AT_ONCE, TRIES_A_MINUTE))
    bucket.take(f"{caller.address} {name}")


def count_address(caller: Caller) -> None:
    """Refuse an address from which too many log in, whoever they are."""
    names = caller.desk.more.setdefault("names", Bucket(NAMES_AT_ONCE, NAMES_A_MINUTE))
    names.take(caller.address)


def safe_path(to: str) -> str:
    """A path of our own, or nothing: an address cannot send people elsewhere."""
    is_own = to.startswith("/") and not to.startswith("//") and "\\" not in to
    return to if is_own and to.isprintable() else ""
