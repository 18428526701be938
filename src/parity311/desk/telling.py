"""Structured logs: one JSON line a request, with what was asked and how long it took.

No complaint, no text, no address, no name of a person: a path's own names are left out too. Of a
failure stand the kind of error and the lines of the program, never its words or values: those may
be what a resident wrote, or a password.
"""

from __future__ import annotations

import logging
import secrets
import sys
import time
import traceback
from typing import Any

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_CAUSES = 5
"""Errors behind an error that are told."""


def make_teller(out: Any = None) -> Any:
    """A logger that writes JSON lines."""
    return structlog.wrap_logger(
        structlog.PrintLogger(out or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
    )


def tell_failure(error: BaseException) -> dict[str, Any]:
    """An unforeseen error and what it came from: kinds and places in the program, no values."""
    kinds: list[str] = []
    places: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(kinds) < MOST_CAUSES:
        kinds.append(type(seen).__name__)
        frames = traceback.extract_tb(seen.__traceback__)
        places += [f"{one.filename}:{one.lineno} {one.name}" for one in frames]
        seen = seen.__cause__ or seen.__context__
    return {"kinds": kinds, "places": places}


class ServerNotes(logging.Handler):
    """What the server itself says, as lines of the same log: its fixed words, without values."""

    def __init__(self, teller: Any) -> None:
        super().__init__(logging.WARNING)
        self._teller = teller

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one note; a failure was told with its request already."""
        self._teller.warning("server", note=str(record.msg).strip().splitlines()[0])


def follow_server(teller: Any) -> None:
    """Let what uvicorn says come into the log, in place of its own tracebacks with their values."""
    found = logging.getLogger("uvicorn")
    found.handlers, found.propagate = [ServerNotes(teller)], False


class RequestLog:
    """Tells of every request when it was answered."""

    def __init__(self, app: ASGIApp, teller: Any) -> None:
        self._app, self._teller = app, teller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name, began, status = secrets.token_hex(8), time.perf_counter(), 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = name
            await send(message)

        told = {"request": name, "method": scope["method"]}
        try:
            await self._app(scope, receive, named)
        except Exception as error:
            self._teller.error("failed", **told, route=route_of(scope), **tell_failure(error))
            raise
        took = round(1000 * (time.perf_counter() - began), 2)
        self._teller.info(
            "answered", **told, route=route_of(scope), status=status, milliseconds=took
        )


def route_of(scope: Scope) -> str:
    """The path as it is declared, with no case or account in it."""
    return str(getattr(scope.get("route"), "path", "")) or "(none)"
