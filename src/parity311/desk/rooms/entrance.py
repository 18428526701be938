"""Logging in and out, one's password, and the administrator's list of accounts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Form, Query

from parity311.desk import accounts
from parity311.desk.limits import Bucket
from parity311.desk.permissions import FIRST_PAGE, Role
from parity311.desk.web import Caller, Room, Went, cookie_name

ROOM = Room("entrance")
TRIES_AT_ONCE, TRIES_A_MINUTE = 8, 6.0
"""Logins by account and address."""
ROLES = tuple(one.value for one in Role if one != Role.PUBLIC)
Name = Annotated[str, Form(max_length=60)]
Password = Annotated[str, Form(max_length=200)]


@ROOM.page("/login", "login.html", "own.login")
def show_login(caller: Caller, to: Annotated[str, Query(max_length=200)] = "") -> dict[str, Any]:
    """Where one logs in."""
    return {"title": "Log in", "to": safe_path(to)}


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
    count_try(caller, caller.actor.name)
    with caller.desk.database.writing() as session:
        accounts.change_password(session, caller.actor.name, old, new)
    return Went("/login", "password", cookie="")


@ROOM.page("/accounts", "accounts.html", "accounts.manage")
def show_accounts(caller: Caller) -> dict[str, Any]:
    """All accounts."""
    with caller.desk.database.reading() as session:
        return {"title": "Accounts", "accounts": accounts.list_accounts(session), "roles": ROLES}


@ROOM.act("/accounts", "accounts.manage")
def make_account(caller: Caller, name: Name, role: Name, password: Password) -> Went:
    """Make an account."""
    with caller.desk.database.writing() as session:
        accounts.make_account(session, name, role, password)
    return Went("/accounts", "account")


@ROOM.act("/accounts/{name}", "accounts.manage")
def change_account(
    caller: Caller, name: str, role: Name, is_active: Annotated[bool, Form()] = False
) -> Went:
    """Change an account's role, or close it."""
    with caller.desk.database.writing() as session:
        accounts.change_account(session, name, role, is_active)
    return Went("/accounts", "account")


def count_try(caller: Caller, name: str) -> None:
    """Refuse who tries passwords too often."""
    bucket = caller.desk.more.setdefault("tries", Bucket(TRIES_AT_ONCE, TRIES_A_MINUTE))
    bucket.take(f"{caller.address} {name}")


def safe_path(to: str) -> str:
    """A path of our own, or nothing: an address cannot send people elsewhere."""
    is_own = to.startswith("/") and not to.startswith("//") and "\\" not in to
    return to if is_own and to.isprintable() else ""
