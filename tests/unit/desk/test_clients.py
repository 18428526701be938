"""Programs others wrote use the desk: an Open311 client, and a fuzzer of the whole interface."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import schemathesis
import uvicorn
from fastapi.testclient import TestClient
from georeport import GeoReport
from hypothesis import HealthCheck, Phase, given, settings
from tests.unit.desk.staff import HOST, SmallDesk, cases_of

pytestmark = pytest.mark.slow
N_TRIES = 3
"""Requests an operation: some sixty operations, each of which the suite tries at every run."""


@pytest.fixture
def address(small: SmallDesk) -> Iterator[str]:
    """The desk at a real address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        server = uvicorn.Server(uvicorn.Config(small.app, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            until = time.monotonic() + 20
            while not server.started and time.monotonic() < until:
                time.sleep(0.02)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/open311/v2"
        finally:
            server.should_exit = True
            thread.join(timeout=20)


@pytest.mark.parametrize("kind", ["json", "xml"])
def test_a_client_from_the_package_index_reads_what_was_filed(
    small: SmallDesk, address: str, kind: str
) -> None:
    key = small.browser("administrator").post(
        "/keys", data={"name": "an app"}, headers={"Accept": "application/json"}
    ).json()["key"]  # fmt: skip
    filed = small.browser().post(
        "/open311/v2/requests.json",
        data={"api_key": key, "service_code": "heat", "lat": "40.8", "long": "-73.9"},
    )
    number = filed.json()[0]["service_request_id"]
    client = GeoReport(address, output_format=kind)
    services = client.get_service_list()
    services = services if isinstance(services, list) else [services]
    assert [one["service_code"] for one in services] == ["heat"]
    assert client.get_service_definition("heat")["service_code"] == "heat"
    one = client.get_service_request(number)
    assert (one["service_request_id"], one["status"]) == (number, "open")


def test_no_request_of_the_interface_ends_in_a_server_error(small: SmallDesk) -> None:
    """Every operation of the OpenAPI description, with what a fuzzer makes up."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", small.app)
    small.play(days=2)
    clients = [small.browser("administrator"), small.browser("intake")]
    assert cases_of(clients[1])
    faults: list[str] = []
    n_operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        n_operations += 1
        if operation.path in ("/logout", "/account/password"):
            continue  # ends the login of whoever tries
        faults += [fault for client in clients for fault in _fuzz(client, operation)]
    assert n_operations > 30, n_operations
    assert not faults, faults[:5]
    assert small.problems == []


def _fuzz(client: TestClient, operation: schemathesis.APIOperation) -> list[str]:
    faults: list[str] = []

    @settings(
        max_examples=N_TRIES, deadline=None, database=None, phases=[Phase.generate],
        derandomize=True, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def try_it(case: schemathesis.Case) -> None:
        asked = case.as_transport_kwargs(base_url=HOST)
        asked = {k: v for k, v in asked.items() if k in ("method", "url", "params", "data", "json",
                                                         "content", "headers")}  # fmt: skip
        answer = client.request(**asked, follow_redirects=False)
        if answer.status_code >= 500:
            faults.append(f"{asked['method']} {asked['url']}: {answer.status_code}")

    try_it()
    return faults


def test_the_fuzzer_sees_a_server_error(small: SmallDesk) -> None:
    @small.app.get("/broken")
    def broken(number: int) -> int:
        return 1 // (number - number)

    schema = schemathesis.openapi.from_asgi("/openapi.json", small.app)
    operation = schema["/broken"]["GET"]
    assert _fuzz(small.browser(), operation)
