"""Staff who log in at an identity provider of their agency (OpenID Connect, authorization code).

The provider says who somebody is; what they may do is decided here: an account of that name must
have been made by the administrator. The browser's cookie holds a secret from which `state`,
`nonce` and the proof key (PKCE) are derived, so that nothing is kept on the server between leaving
and coming back, and an answer meant for another browser is worth nothing.

The identity token comes from the provider's own address over TLS, which stands for its signature
(OpenID Connect Core 3.1.3.7, 6); nothing that came through the browser is believed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from pydantic import ConfigDict

from parity311.desk.outside import ask
from parity311.desk.refusals import DeskRefusal, NoLoginError
from parity311.errors import InputError, UnreachableError
from parity311.storage.toml_files import checked, read_toml

BACK = "/login/provider/back"
"""Where the provider sends people back to: register the desk's address with this at its end."""
SECONDS_AWAY = 600
"""How long one may take to log in there."""
LEEWAY_SECONDS = 60
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WELL_KNOWN = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class Provider:
    """An identity provider, as its file says."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    """what staff call it"""
    issuer: str
    """its address, as its tokens have it"""
    client_id: str
    client_secret_file: Path
    """file that holds the secret alone, readable by the desk only"""
    desk: str
    """the desk's own address, as browsers see it: https://desk.example.org"""
    claim: str = "preferred_username"
    """what of a token names the account here; of `email`, only a verified one is taken"""

    def secret(self) -> str:
        """The secret that the desk and the provider share."""
        return self.client_secret_file.read_text("utf-8").strip()


def read_provider(path: Path) -> Provider:
    """The provider of a TOML file; one that would send secrets in the open is refused."""
    found = checked(Provider, read_toml(path, "a file of an identity provider"), str(path))
    for address in (found.issuer, found.desk):
        _check_safe(address, f"{path} has {address!r}")
    try:
        if not found.secret():
            raise InputError(f"{found.client_secret_file} is empty; put the client's secret there.")
    except OSError as error:
        raise InputError(
            f"{found.client_secret_file} cannot be read ({error.strerror}); put the client's "
            "secret there."
        ) from error
    return found


def _check_safe(address: str, told: str) -> None:
    parts = urlsplit(address)
    is_safe = parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in LOOPBACK
    )  # fmt: skip
    if not is_safe or not parts.hostname:
        raise InputError(f"{told}; write an address that begins with https://.")


def draw_departure() -> str:
    """The secret that a browser keeps while somebody is away."""
    return secrets.token_urlsafe(32)


def derived(departure: str, purpose: str) -> str:
    """What is sent along of a departure: not to be had from each other, nor told back."""
    return hashlib.sha256(f"{purpose} {departure}".encode()).hexdigest()


def way_out(provider: Provider, departure: str) -> str:
    """Where the browser is sent to log in."""
    proof = hashlib.sha256(derived(departure, "verifier").encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": provider.desk.rstrip("/") + BACK,
        "scope": "openid profile email",
        "state": derived(departure, "state"),
        "nonce": derived(departure, "nonce"),
        "code_challenge": base64.urlsafe_b64encode(proof).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return f"{_told(provider)['authorization_endpoint']}?{urlencode(asked)}"


def name_of(provider: Provider, departure: str, state: str, code: str) -> str:
    """Who came back: the account's name, as the provider itself says it."""
    if not departure or not hmac.compare_digest(state, derived(departure, "state")):
        raise NoLoginError("This login was begun elsewhere or long ago; begin it again here.")
    asked = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": provider.desk.rstrip("/") + BACK,
        "code_verifier": derived(departure, "verifier"),
    }
    pair = f"{quote(provider.client_id, safe='')}:{quote(provider.secret(), safe='')}"
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    address = _told(provider)["token_endpoint"]
    answer = _ask(provider, urllib.request.Request(address, urlencode(asked).encode(), headers))
    return _read_name(provider, _claims(answer), derived(departure, "nonce"), time.time())


def _told(provider: Provider) -> Mapping[str, Any]:
    """What the provider says of itself: where to log in, where tokens are."""
    address = provider.issuer.rstrip("/") + WELL_KNOWN
    found = _ask(provider, urllib.request.Request(address))
    places = [found.get(one) for one in ("authorization_endpoint", "token_endpoint")]
    if found.get("issuer") != provider.issuer or not all(isinstance(one, str) for one in places):
        raise DeskRefusal(
            f"{provider.name} says of itself that it is another; the administrator should look at "
            "the issuer."
        )
    for one in places:
        _check_safe(str(one), f"{provider.name} has the address {str(one)[:80]!r}")
    return found


def _ask(provider: Provider, request: urllib.request.Request) -> Mapping[str, Any]:
    body, problem = ask(request)
    if problem:
        raise UnreachableError(f"{provider.name} did not let anybody in: {problem}. Try again.")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreachableError(f"{provider.name} answered what cannot be read; try again.")
    return found


def _claims(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the identity token says."""
    try:
        middle = str(answer["id_token"]).split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (KeyError, IndexError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoLoginError("The identity provider sent no token that can be read; try again.")
    return found


def _read_name(
    provider: Provider, claims: Mapping[str, Any], nonce: str, now: float
) -> str:  # fmt: skip
    """The name in a token that is from this provider, for this desk, for this login, of now."""
    audience = claims.get("aud")
    meant = audience if isinstance(audience, list) else [audience]
    ends = claims.get("exp")
    fits = (
        claims.get("iss") == provider.issuer
        and provider.client_id in meant
        and (len(meant) == 1 or claims.get("azp") == provider.client_id)
        and isinstance(ends, int | float)
        and now < ends + LEEWAY_SECONDS
        and hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode())
    )
    if not fits:
        raise NoLoginError("The identity provider's token is not for this login; begin it again.")
    name = claims.get(provider.claim)
    if not isinstance(name, str) or not name:
        raise NoLoginError(f"The identity provider did not say the {provider.claim}.")
    if provider.claim == "email" and claims.get("email_verified") is not True:
        raise NoLoginError("The identity provider has not verified this e-mail address.")
    return name
