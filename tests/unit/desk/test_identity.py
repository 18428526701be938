"""Logging in at an agency's identity provider, and what must not let anybody in."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from tests.unit.desk.staff import HOST, SmallDesk

from parity311.desk.identity import BACK, read_provider
from parity311.desk.rooms import entrance
from parity311.errors import InputError

Answer = dict[str, Any]


@contextmanager
def provider_at(claims: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """An identity provider: its address, and what it was asked for tokens with."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, told: Answer) -> None:
            body = json.dumps(told).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            ends = {"authorization_endpoint": f"{base}/in", "token_endpoint": f"{base}/token"}
            self.answer({"issuer": claims.get("told_issuer", base), **ends})

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked.append({name: one[0] for name, one in form.items()} | dict(self.headers))
            told = {"iss": base, "aud": "desk", "exp": time.time() + 60} | claims
            middle = base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=").decode()
            self.answer({"id_token": f"e30.{middle}.x"})

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    base = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield base, asked
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


def use(small: SmallDesk, base: str, folder: Path, **more: str) -> None:
    """Let the desk have this provider, as a file says it."""
    (folder / "secret").write_text("s3:cret\n")
    told = {"name": "City login", "issuer": base, "client_id": "desk", "desk": HOST,
            "client_secret_file": str(folder / "secret"), **more}  # fmt: skip
    told["desk"] = "https://desk.test"
    (folder / "provider.toml").write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items())
    )
    small.desk.provider = read_provider(folder / "provider.toml")


def leave(client: TestClient, to: str = "") -> dict[str, str]:
    """Go out to the provider; what was sent along."""
    away = client.get("/login/provider", params={"to": to}, follow_redirects=False)
    assert away.status_code == 303, away.text
    return {
        name: one[0] for name, one in parse_qs(urlsplit(away.headers["location"]).query).items()
    }


def test_an_account_is_opened_by_who_the_provider_names(small: SmallDesk, tmp_path: Path) -> None:
    claims: Answer = {"preferred_username": "intake"}
    with provider_at(claims) as (base, asked):
        use(small, base, tmp_path)
        client = small.browser()
        assert "Log in with City login" in client.get("/login").text
        sent = leave(client, "/survey")
        claims["nonce"] = sent["nonce"]
        back = client.get(
            BACK, params={"state": sent["state"], "code": "one"}, follow_redirects=False
        )
        assert (back.status_code, back.headers["location"]) == (303, "/survey")
        assert client.get("/queue.json").status_code == 200
        assert client.get("/office.json").status_code == 403
        # The proof key of the way out is what the code was turned in with.
        proof = hashlib.sha256(asked[0]["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(proof).rstrip(b"=").decode() == sent["code_challenge"]
        assert asked[0]["Authorization"] == f"Basic {base64.b64encode(b'desk:s3%3Acret').decode()}"
        # An office shares an address: more than a few of its staff may come at once.
        for _ in range(entrance.TRIES_AT_ONCE + 2):
            leave(small.browser())
        # The way back leads in once: the browser's secret is gone.
        again = client.get(BACK, params={"state": sent["state"], "code": "one"})
        assert again.status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "of another login"}, {"aud": "another client"}, {"aud": ["desk", "more"]},
        {"exp": 1.0}, {"iss": "https://elsewhere.test"}, {"preferred_username": "stranger"},
        {"preferred_username": ""}, {"told_issuer": "https://elsewhere.test"},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_for_somebody_else_lets_nobody_in(
    small: SmallDesk, tmp_path: Path, claims: Answer
) -> None:
    given: Answer = {"preferred_username": "intake"}
    with provider_at(given) as (base, _):
        use(small, base, tmp_path)
        client = small.browser()
        sent = leave(client)
        given |= {"nonce": sent["nonce"]} | claims
        back = client.get(BACK, params={"state": sent["state"], "code": "one"})
        assert back.status_code in (400, 401), back.text
        assert client.get("/queue.json").status_code == 401


def test_an_answer_that_another_browser_began_is_worth_nothing(
    small: SmallDesk, tmp_path: Path
) -> None:
    claims: Answer = {"preferred_username": "intake"}
    with provider_at(claims) as (base, asked):
        use(small, base, tmp_path)
        mine, theirs = small.browser(), small.browser()
        sent = leave(theirs)
        claims["nonce"] = sent["nonce"]
        leave(mine)
        for client in (mine, small.browser()):
            assert client.get(BACK, params={"state": sent["state"], "code": "x"}).status_code == 401
        assert asked == []
        closed = small.browser("administrator").post("/accounts/intake", data={"role": "intake"})
        assert closed.status_code == 200
        back = theirs.get(BACK, params={"state": sent["state"], "code": "x"})
        assert back.status_code == 401


def test_an_unverified_address_names_nobody(small: SmallDesk, tmp_path: Path) -> None:
    claims: Answer = {"email": "ana@example.org", "email_verified": False}
    boss = small.browser("administrator")
    with provider_at(claims) as (base, _):
        use(small, base, tmp_path, claim="email")
        # Without a password nothing but the provider opens it.
        made = boss.post("/accounts", data={"name": "ana@example.org", "role": "auditor"})
        assert made.status_code == 200
        for guess in ("", "x"):
            given = {"name": "ana@example.org", "password": guess}
            assert small.browser().post("/login", data=given).status_code in (400, 401)
        client = small.browser()
        for is_verified, status in ((False, 401), (True, 200)):
            sent = leave(client)
            claims |= {"nonce": sent["nonce"], "email_verified": is_verified}
            back = client.get(BACK, params={"state": sent["state"], "code": "x"})
            assert back.status_code == status
        assert client.get("/audit.json").status_code == 200


def test_a_provider_that_would_send_secrets_in_the_open_is_refused(
    small: SmallDesk, tmp_path: Path
) -> None:
    for wrong in ("http://login.example.org", "login.example.org", "https://"):
        with pytest.raises(InputError, match="https://"):
            use(small, wrong, tmp_path)
    (tmp_path / "provider.toml").write_text('name = "x"\n')
    with pytest.raises(InputError, match="issuer"):
        read_provider(tmp_path / "provider.toml")
    assert small.browser().get("/login/provider").status_code == 404
