"""How the desk asks an address that an administrator named: no redirects, no address of its own.

Somebody who may name an address must not reach by it what only the desk's machine can reach: its
own services, and the address at which a cloud tells its machines their secrets. Other machines of
the agency's network are meant to be reached.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.request
from typing import Any

ANSWER_SECONDS, WHOLE_SECONDS = 5.0, 30.0
"""For one piece of an answer, and for all of it: one that drips must not hold the others up."""
LARGEST_ANSWER = 20_000_000
PIECE = 65_536


def ask(request: urllib.request.Request, *, loopback: bool = True) -> tuple[bytes, str]:
    """What an address answered, or why it did not; `loopback`: it may be this machine."""
    opener = urllib.request.build_opener(_NoRedirects, _Http(loopback), _Https(loopback))
    ends = time.monotonic() + WHOLE_SECONDS
    body = bytearray()
    try:
        with opener.open(request, timeout=ANSWER_SECONDS) as answer:
            while piece := answer.read1(PIECE):
                body += piece
                if len(body) > LARGEST_ANSWER:
                    return b"", f"its answer is larger than {LARGEST_ANSWER:,} bytes"
                if time.monotonic() > ends:
                    return b"", f"its answer took longer than {WHOLE_SECONDS:g} seconds"
    except urllib.error.HTTPError as error:
        error.close()
        return b"", f"it answered {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return b"", f"it cannot be reached ({getattr(error, 'reason', error)})"
    return bytes(body), ""


def is_refused(address: str, *, loopback: bool) -> bool:
    """Whether an address of a network is one that is not asked."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback:
        return not loopback
    return found.is_link_local or found.is_multicast or found.is_unspecified or found.is_reserved


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any, **more: Any) -> None:
        """Go nowhere else than where the administrator said."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, loopback: bool) -> None:
        super().__init__()
        self._loopback = loopback

    def http_open(self, req: urllib.request.Request) -> Any:
        """Open a connection that looks where it arrived."""
        return self.do_open(_looking(http.client.HTTPConnection, self._loopback), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, loopback: bool) -> None:
        super().__init__()
        self._loopback = loopback

    def https_open(self, req: urllib.request.Request) -> Any:
        """Open a connection that looks where it arrived."""
        return self.do_open(_looking(http.client.HTTPSConnection, self._loopback), req)


def _looking(kind: Any, loopback: bool) -> Any:
    """A maker of connections that end where they must not be, before anything is sent.

    By where it arrived and not by name: a name may lead elsewhere when it is asked again.
    """

    def connect(*given: Any, **more: Any) -> socket.socket:
        found = socket.create_connection(*given, **more)
        if is_refused(found.getpeername()[0], loopback=loopback):
            found.close()
            raise OSError("this machine's own addresses are not asked")
        return found

    def make(*given: Any, **more: Any) -> Any:
        connection = kind(*given, **more)
        connection._create_connection = connect
        return connection

    return make
