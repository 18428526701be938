"""The application: rooms, what is asked of every request, and how errors are told."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parity311.desk.desk import Desk
from parity311.desk.refusals import DeskRefusal, TooLargeError
from parity311.desk.rooms import ROOMS
from parity311.desk.telling import RequestLog
from parity311.desk.web import HEADERS, is_same_site, render_error
from parity311.errors import BusyError, Parity311Error, RegistryError, UnreachableError
from parity311.version import __version__

MOST_BYTES = 20_000_000
"""Largest body: a table to audit."""
TOO_LARGE = f"The body is too large; {MOST_BYTES:,} bytes are taken."


def make_app(
    desk: Desk,
    *,
    starts: Callable[[], None] | None = None,
    stops: Callable[[], None] | None = None,
    teller: Any = None,
) -> FastAPI:
    """The web application over a desk.

    `starts` and `stops` run with the server; `teller` is a logger of `telling.make_teller`.
    """

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        if starts is not None:
            starts()
        yield
        if stops is not None:
            stops()

    app = FastAPI(
        title="parity311 desk", version=__version__, docs_url=None, redoc_url=None, lifespan=live
    )
    app.state.desk = desk
    static = resources.files("parity311.desk") / "static"
    app.mount("/static", StaticFiles(directory=str(static)), name="static")
    for room in ROOMS:
        app.include_router(room.router)
    app.add_middleware(Guard)
    if teller is not None:
        app.add_middleware(RequestLog, teller=teller)
    _tell_errors(app)
    return app


class Guard:
    """Refuses other sites' posts and oversized bodies; gives every answer its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, began, taken = Request(scope), time.perf_counter(), 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BYTES:
                # A body that comes in pieces does not say beforehand how long it is.
                raise HTTPException(TooLargeError.status, TOO_LARGE)
            return message

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                timings = {**getattr(request.state, "timings", {})}
                timings["total"] = 1000 * (time.perf_counter() - began)
                headers["Server-Timing"] = ", ".join(
                    f"{name};dur={took:.3f}" for name, took in timings.items()
                )
                add_headers(headers, request.url.path)
            await send(message)

        await (_refusal(request) or self._app)(scope, counted, dressed)


def add_headers(headers: MutableHeaders, path: str) -> None:
    """What every answer has, unless its room says otherwise."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if not path.startswith("/static/"):
        headers["Cache-Control"] = "no-store"


def _refusal(request: Request) -> Response | None:
    """What is answered to a request that is not looked at; None for others."""
    if not is_same_site(request):
        return render_error(request, 403, "This form was sent from another site; it was not "
                            "taken. Open the page here and send it again.")  # fmt: skip
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BYTES:
        return render_error(request, TooLargeError.status, TOO_LARGE)
    return None


def status_of(error: Exception) -> int:
    """The status of an error of ours: who can mend it decides."""
    if isinstance(error, DeskRefusal):
        return error.status
    if isinstance(error, BusyError | UnreachableError):
        return 503
    return 409 if isinstance(error, RegistryError) else 400


def _tell_errors(app: FastAPI) -> None:
    def ours(request: Request, error: Any) -> Response:
        return render_error(request, status_of(error), str(error))

    def malformed(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            said = first.get("ctx", {}).get("error", "it cannot be read")
            return render_error(request, 400, f"The body is no JSON: {said}; correct it and send "
                                "it again.")  # fmt: skip
        where = ".".join(str(part) for part in first["loc"][1:]) or "the form"
        return render_error(request, 400, f"{where}: {first['msg']}; correct it and send it again.")

    def http(request: Request, error: Any) -> Response:
        words = {
            404: "There is no such page; the menu has those there are.",
            405: "This address does not take this kind of request.",
        }
        return render_error(
            request, error.status_code, words.get(error.status_code, str(error.detail))
        )

    def unforeseen(request: Request, error: Any) -> Response:
        response = render_error(
            request, 500, "Something failed that should not have; it was logged. What you did was "
            "kept whole or not at all: look at the case, then try again.",
        )  # fmt: skip
        # This answer is given outside of the guard.
        add_headers(response.headers, request.url.path)
        return response

    app.add_exception_handler(Parity311Error, ours)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unforeseen)
