"""Open311 GeoReport v2: discovery, services, requests in XML and JSON, and its errors."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from tests.unit.desk.staff import SmallDesk, cases_of

BASE = "/open311/v2"


@pytest.fixture
def key(small: SmallDesk) -> str:
    made = small.browser("administrator").post(
        "/keys", data={"name": "311 app"}, headers={"Accept": "application/json"}
    )
    return made.json()["key"]


def test_a_complaint_is_filed_and_followed(small: SmallDesk, key: str) -> None:
    other = small.browser()
    del other.headers["Origin"]  # no browser
    found = other.get("/open311/discovery.json").json()
    assert found["endpoints"][0]["formats"] == ["text/xml", "application/json"]
    tree = ElementTree.fromstring(other.get("/open311/discovery.xml").content)
    assert tree.findtext("endpoints/endpoint/specification", "").endswith("GeoReport_v2")
    services = ElementTree.fromstring(other.get(f"{BASE}/services.xml").content)
    assert [one.findtext("service_code") for one in services] == ["heat"]
    meant = other.get(f"{BASE}/services/heat.json").json()
    assert meant["attributes"][0]["code"] == "category"
    given = {
        "api_key": key, "service_code": "heat", "lat": "40.8", "long": "-73.9",
        "attribute[is_no_heat]": "true", "description": "Cold <b>&", "first_name": "Ana",
        "email": "ana@example.org", "device_id": "",
    }  # fmt: skip
    filed = other.post(f"{BASE}/requests.xml", data=given)
    assert filed.status_code == 200, filed.text
    assert filed.headers["content-type"] == "text/xml; charset=utf-8"
    request = ElementTree.fromstring(filed.content).find("request")
    assert request is not None
    number = request.findtext("service_request_id", "")
    one = other.get(f"{BASE}/requests/{number}.json").json()[0]
    assert (one["status"], one["service_code"]) == ("open", "heat")
    assert one["requested_datetime"].endswith("-05:00")
    assert "ana" not in str(one).lower()
    assert other.get(f"{BASE}/tokens/{number}.json").json()[0]["service_request_id"] == number
    listed = other.get(f"{BASE}/requests.json", params={"status": "open"}).json()
    assert number in {each["service_request_id"] for each in listed}
    # It is in the queue, scored, and its check code opens it on the public page.
    assert number in {line["complaint_id"] for line in cases_of(small.browser("intake"))}
    code = request.findtext("service_notice", "").split("check code ")[1].rstrip(".")
    told = small.browser().post("/status", data={"tracking": number, "code": code})
    assert told.status_code == 200


def test_errors_are_told_as_specified(small: SmallDesk, key: str) -> None:
    other = small.browser()
    good = {"api_key": key, "service_code": "heat", "lat": "40.8", "long": "-73.9"}
    tries: dict[str, tuple[dict[str, Any], int]] = {
        "no key": ({"api_key": ""}, 403),
        "a wrong key": ({"api_key": "x"}, 403),
        "no service": ({"service_code": ""}, 400),
        "an unknown service": ({"service_code": "police"}, 404),
        "another city": ({"lat": "48.8", "long": "2.3"}, 400),
        "no place": ({"lat": "nan", "long": "x"}, 400),
        "not a number": ({"lat": "nan", "long": "nan"}, 400),
        "an unknown category": ({"attribute[category]": "NOISE"}, 400),
        "too many words": ({"description": "x" * 4001}, 400),
    }
    for what, (wrong, status) in tries.items():
        answer = other.post(f"{BASE}/requests.json", data=good | wrong)
        assert answer.status_code == status, (what, answer.text)
        (told,) = answer.json()
        assert told["code"] == status
        assert told["description"]
    missing = other.get(f"{BASE}/requests/none.xml")
    tree = ElementTree.fromstring(missing.content)
    assert (missing.status_code, tree.tag, tree.findtext("error/code")) == (404, "errors", "404")
    ended = small.browser("administrator").post("/keys/end", data={"name": "311 app"})
    assert ended.status_code == 200
    assert other.post(f"{BASE}/requests.json", data=good).status_code == 403
