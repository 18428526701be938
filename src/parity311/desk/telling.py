"""Structured logs: one JSON line a request, with what was asked and how long it took.

No complaint, no text, no address, no name of a person: a path's own names are left out too.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from fastapi import Request, Response

Next = Callable[[Request], Awaitable[Response]]


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


def log_requests(teller: Any) -> Callable[[Request, Next], Awaitable[Response]]:
    """A middleware that tells of every request when it was answered."""

    async def tell(request: Request, go_on: Next) -> Response:
        name, began = secrets.token_hex(8), time.perf_counter()
        request.state.name = name
        try:
            response = await go_on(request)
        except Exception:
            teller.error("failed", request=name, method=request.method, route=route_of(request),
                         exc_info=True)  # fmt: skip
            raise
        took = round(1000 * (time.perf_counter() - began), 2)
        teller.info(
            "answered", request=name, method=request.method, route=route_of(request),
            status=response.status_code, milliseconds=took,
        )  # fmt: skip
        response.headers["X-Request-Id"] = name
        return response

    return tell


def route_of(request: Request) -> str:
    """The path as it is declared, with no case or account in it."""
    route = request.scope.get("route")
    return str(getattr(route, "path", "")) or "(none)"
