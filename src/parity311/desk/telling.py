"""Structured logs: one JSON line a request, with what was asked and how long it took.

No complaint, no text, no address, no name of a person: a path's own names are left out too.
"""

from __future__ import annotations

import secrets
import sys
import time
from typing import Any

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def make_teller(out: Any = None) -> Any:
    """A logger that writes JSON lines."""
    return structlog.wrap_logger(
        structlog.PrintLogger(out or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
    )


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
        except Exception:
            self._teller.error("failed", **told, route=route_of(scope), exc_info=True)
            raise
        took = round(1000 * (time.perf_counter() - began), 2)
        self._teller.info(
            "answered", **told, route=route_of(scope), status=status, milliseconds=took
        )


def route_of(scope: Scope) -> str:
    """The path as it is declared, with no case or account in it."""
    return str(getattr(scope.get("route"), "path", "")) or "(none)"
