"""How a room is built: pages with a JSON twin, acts that are plain form posts, one error envelope.

A handler says what it needs and returns plain data. `Room.page` makes of it two routes, the page
and, with `.json` at the end, the same data; `Room.act` makes a POST that answers a browser with a
redirect and a program with JSON. Both ask the table of permissions first, and every route carries
the permission it asks for, so that a test can try each role on each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from parity311.desk import georeport
from parity311.desk.accounts import Actor, note_seen, who_is
from parity311.desk.desk import Desk
from parity311.desk.identity import SECONDS_AWAY
from parity311.desk.languages import ENGLISH, direction, speak
from parity311.desk.permissions import FIRST_PAGE, PERMISSIONS, Role, may
from parity311.desk.refusals import NoLoginError, NotAllowedError
from parity311.storage.strict_json import to_json
from parity311.version import __version__

COOKIE = "parity311_login"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), camera=(), microphone=()",
}
MENU = (
    ("/queue", "Queue", "queue.read"),
    ("/office", "Office", "office.read"),
    ("/audit", "Audit", "audit.read"),
    ("/records", "Your own records", "table.upload"),
    ("/survey", "How it works for you", "case.decide"),
    ("/", "Public", "public.read"),
    ("/choices", "Choices", "public.read"),
    ("/status", "My complaint", "public.read"),
    ("/accounts", "Accounts", "accounts.manage"),
    ("/keys", "Keys", "keys.manage"),
    ("/partners", "Other systems", "keys.manage"),
)
"""Rooms of the menu: address, name, and the permission without which it is not shown."""
SAID = {
    "accepted": "Accepted.",
    "accepted_many": "Accepted together.",
    "decided": "Decided. What was recommended stands on the page now.",
    "answered": "Thank you; your answer was kept without your name.",
    "chosen": "Recorded, with the reason, in the log and on the public page.",
    "hooked": "Done.",
    "brought": "Kept. Read what its columns were taken for, and correct it.",
    "placed": "The columns are as you chose them.",
    "reading": "It is being read in beside the work here.",
    "removed": "Removed, with all that was made of it.",
    "overridden": "Decided otherwise; your reason is on record.",
    "undone": "Taken back; the case is open again.",
    "claimed": "The case is yours for a while.",
    "given_back": "The case is free for others.",
    "logged_out": "You are logged out.",
    "password": "Your password was changed; log in again.",
    "account": "The account was changed; whoever used it has to log in again.",
    "acted": "Done; the registry has it with your name and reason.",
    "merged": "Closed as a duplicate; updates go to the other case.",
}
"""What a page says after an act: fixed sentences, so that an address cannot put words in it."""


@dataclass(frozen=True)
class Caller:
    """A request with who made it."""

    request: Request
    desk: Desk
    actor: Actor

    @property
    def address(self) -> str:
        """Where it came from."""
        return self.request.client.host if self.request.client else ""


@dataclass(frozen=True)
class Went:
    """Where a browser goes after an act, and what it is told there."""

    to: str
    said: str
    more: dict[str, Any] | None = None
    """for programs"""
    cookie: str | None = None
    """a new login; empty: none any more"""


def cookie_name(desk: Desk) -> str:
    """Behind HTTPS the name binds the cookie to this host."""
    return f"__Host-{COOKIE}" if desk.behind_https else COOKIE


def find_caller(request: Request) -> Caller:
    """Who asks, by the cookie."""
    desk: Desk = request.app.state.desk
    token = request.cookies.get(cookie_name(desk), "")
    if not token:
        return Caller(request, desk, Actor())
    with desk.database.reading() as session:
        actor, is_due = who_is(session, token)
    if is_due:
        with desk.database.writing() as session:
            note_seen(session, token)
    return Caller(request, desk, actor)


def needs(permission: str) -> Callable[[Request], Caller]:
    """A dependency that lets through who has a permission."""
    assert permission in PERMISSIONS, permission

    def check(request: Request) -> Caller:
        caller = find_caller(request)
        if may(caller.actor.role, permission):
            return caller
        if caller.actor.role == Role.PUBLIC:
            raise NoLoginError("This page is for staff, and nobody is logged in; log in first.")
        raise NotAllowedError(
            f"The role {caller.actor.role} may not do this; it takes one of "
            f"{', '.join(sorted(PERMISSIONS[permission]))}."
        )

    return check


class Room:
    """The routes of one room."""

    def __init__(self, name: str) -> None:
        self.router = APIRouter(tags=[name])

    def page(self, path: str, template: str, permission: str) -> Callable[..., Any]:
        """A page at a path and its JSON twin at the path with `.json`."""

        def register(handler: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
            def html(caller: Caller, **given: Any) -> Response:
                content = handler(caller, **given)
                return HTMLResponse(render(caller, template, content))

            def plain(caller: Caller, **given: Any) -> Response:
                return json_response(handler(caller, **given))

            twin = "/index.json" if path == "/" else f"{path}.json"
            # The twin first: a name in a path would take its ending for part of the name.
            for where, endpoint, in_schema in ((twin, plain, True), (path, html, False)):
                _dress(endpoint, handler, permission)
                self.router.add_api_route(
                    where, endpoint, methods=["GET"], include_in_schema=in_schema,
                    openapi_extra={"x-permission": permission},
                    response_model=None, summary=_first_line(handler),
                    operation_id=f"{handler.__name__}_{'json' if in_schema else 'page'}",
                )  # fmt: skip
            return handler

        return register

    def act(self, path: str, permission: str) -> Callable[..., Any]:
        """A form post; a browser goes on to where the handler says, a program gets JSON."""

        def register(handler: Callable[..., Went]) -> Callable[..., Went]:
            def post(caller: Caller, **given: Any) -> Response:
                return _answer_act(caller, handler(caller, **given))

            _dress(post, handler, permission)
            self.router.add_api_route(
                path, post, methods=["POST"], openapi_extra={"x-permission": permission},
                response_model=None, summary=_first_line(handler),
                operation_id=handler.__name__,
            )  # fmt: skip
            return handler

        return register

    def raw(self, path: str, permission: str, **options: Any) -> Callable[..., Any]:
        """A route whose handler answers by itself: other formats, streams, metrics."""

        def register(handler: Callable[..., Any]) -> Callable[..., Any]:
            def endpoint(caller: Caller, **given: Any) -> Any:
                return handler(caller, **given)

            _dress(endpoint, handler, permission)
            self.router.add_api_route(
                path, endpoint, openapi_extra={"x-permission": permission},
                response_model=None, summary=_first_line(handler),
                operation_id=handler.__name__, **options,
            )  # fmt: skip
            return handler

        return register


def _dress(endpoint: Callable[..., Any], handler: Callable[..., Any], permission: str) -> None:
    """Give an endpoint its handler's parameters, with the caller by the permission."""
    hints = get_type_hints(handler, include_extras=True)
    parameters = []
    for name, one in inspect.signature(handler).parameters.items():
        if name == "caller":
            one = one.replace(default=Depends(needs(permission)))
        parameters.append(one.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    endpoint.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    endpoint.__doc__, endpoint.__name__ = handler.__doc__, handler.__name__


def _first_line(handler: Callable[..., Any]) -> str:
    return (handler.__doc__ or handler.__name__).strip().splitlines()[0]


def _answer_act(caller: Caller, went: Went) -> Response:
    if wants_json(caller.request):
        told = {"said": SAID[went.said], "to": went.to, **(went.more or {})}
        response: Response = json_response(told)
    else:
        mark = "&" if "?" in went.to else "?"
        where = f"{went.to}{mark}{urlencode({'said': went.said})}" if went.said else went.to
        response = RedirectResponse(where, status_code=303)
    if went.cookie is not None:
        set_cookie(response, caller.desk, went.cookie)
    return response


def set_cookie(response: Response, desk: Desk, token: str) -> None:
    """Give a browser its login, or take it away."""
    name = cookie_name(desk)
    if token:
        response.set_cookie(
            name, token, httponly=True, secure=desk.behind_https, samesite="lax", path="/"
        )
    else:
        response.delete_cookie(name, path="/", secure=desk.behind_https, httponly=True)


def away_name(desk: Desk) -> str:
    """The cookie of a browser whose user is logging in at the identity provider."""
    return f"{cookie_name(desk)}_away"


def set_away(response: Response, desk: Desk, kept: str) -> None:
    """Remember in the browser that somebody is away, for a while; or that they are back."""
    response.set_cookie(
        away_name(desk), quote(kept), max_age=SECONDS_AWAY if kept else 0, httponly=True,
        secure=desk.behind_https, samesite="lax", path="/",
    )  # fmt: skip


def wants_json(request: Request) -> bool:
    """Whether a program asks, or the desk's own module."""
    kinds = request.headers.get("accept", ""), request.headers.get("content-type", "")
    return request.url.path.endswith(".json") or any("application/json" in one for one in kinds)


def json_response(content: Any, status: int = 200) -> Response:
    """Plain data as strict JSON."""
    return Response(to_json(content), status_code=status, media_type="application/json")


@cache
def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("parity311.desk", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["moment"] = lambda text: str(text)[:16].replace("T", " ")
    env.filters["words"] = lambda text: str(text).replace("_", " ")
    env.filters["flag"] = lambda name: str(name).removeprefix("is_").replace("_", " ").capitalize()
    return env


def render(caller: Caller, template: str, content: dict[str, Any]) -> str:
    """A page with what all pages show."""
    desk, actor = caller.desk, caller.actor
    said = SAID.get(caller.request.query_params.get("said", ""), "")
    language = content.get("language", ENGLISH)
    return (
        _environment()
        .get_template(template)
        .render(
            **{"language": language, **content},
            direction=direction(language),
            say=speak(language),
            actor=actor,
            rooms=[(to, words) for to, words, needed in MENU if may(actor.role, needed)],
            may=lambda permission: may(actor.role, permission),
            home=FIRST_PAGE[actor.role],
            city_time=desk.clock.now(),
            is_synthetic=desk.is_synthetic,
            is_replay="replay" in desk.more,
            said=said,
            path=caller.request.url.path,
            version=__version__,
        )
    )


def render_error(request: Request, status: int, message: str) -> Response:
    """One envelope for programs, one page for people; Open311 has a form of its own."""
    if request.url.path.startswith(georeport.PREFIX):
        return georeport.answer_error(request.url.path, status, message)
    if wants_json(request):
        return json_response({"error": {"code": status, "message": message}}, status)
    # Who was just refused a login reads why, and is not sent to log in again.
    if status == 401 and request.method == "GET" and not request.url.path.startswith("/login"):
        back = urlencode({"to": request.url.path})
        return RedirectResponse(f"/login?{back}", status_code=303)
    try:
        caller = find_caller(request)
    except Exception:
        # Without a database nobody can be known; the page still comes.
        caller = Caller(request, request.app.state.desk, Actor())
    text = render(caller, "error.html", {"title": "That did not work", "status": status,
                                         "message": message})  # fmt: skip
    return HTMLResponse(text, status_code=status)


def is_same_site(request: Request) -> bool:
    """Whether a request that changes something comes from our own pages.

    By `Sec-Fetch-Site` where a browser sends it, else by `Origin`; without either it is no browser
    of today, and without our cookie there is nothing to abuse.
    """
    if request.method in SAFE_METHODS:
        return True
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc == request.headers.get("host")
    return not any(name.endswith(COOKIE) for name in request.cookies)
