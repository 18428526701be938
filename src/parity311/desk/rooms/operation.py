"""For whoever runs the desk: whether it lives, whether it can serve, and its figures."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from parity311.desk import ledger
from parity311.desk.figures import count_open, read_load, read_overrides
from parity311.desk.web import Caller, Room, json_response
from parity311.errors import Parity311Error

ROOM = Room("operation")


@ROOM.raw("/healthz", "public.read", methods=["GET"])
def tell_life(caller: Caller) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


@ROOM.raw("/readyz", "public.read", methods=["GET"])
def tell_readiness(caller: Caller) -> Response:
    """The database answers, and every office knows who decides."""
    try:
        with caller.desk.database.reading() as session:
            n_open = count_open(session)
        deciding = {name: one.deciding[0] for name, one in caller.desk.offices.items()}
    except Parity311Error as error:
        return json_response({"status": "not ready", "why": str(error)}, 503)
    return json_response({"status": "ready", "open_cases": n_open, "deciding": deciding})


@ROOM.raw("/metrics", "public.read", methods=["GET"])
def tell_metrics(caller: Caller) -> Response:
    """Figures for Prometheus; counts alone, nothing about a person or a case."""
    desk, kept = caller.desk, CollectorRegistry()

    def gauge(name: str, words: str, labels: tuple[str, ...] = ()) -> Any:
        return Gauge(f"parity311_{name}", words, labels, registry=kept)

    with desk.database.reading() as session:
        load = read_load(session, desk.clock.now())
        overrides = read_overrides(session)
        seq, _ = ledger.head_of(session)
    cases = gauge("cases", "Cases by domain and status", ("domain", "status"))
    late = gauge("cases_overdue", "Cases past their service level", ("domain",))
    for one in load:
        late.labels(one["domain"]).set(one["overdue"])
        for status in ("open", "decided", "closed"):
            cases.labels(one["domain"], status).set(one[status])
    gauge("decisions", "Decisions that staff took").set(overrides["decisions"])
    why = gauge("overrides", "Decisions other than recommended", ("reason",))
    for reason, times in overrides["by_reason"].items():
        why.labels(reason).set(times)
    gauge("log_entries", "Entries of the desk's log").set(seq)
    failing = gauge("work_failing", "1 where work beside the requests failed last", ("work",))
    for keeper in desk.more.get("keepers", ()):
        for work in keeper.works:
            failing.labels(work).set(1 if work in keeper.problems else 0)
    in_office = gauge("policy_in_office", "1 where a policy decides", ("domain",))
    for name, office in desk.offices.items():
        in_office.labels(name).set(1 if office.deciding[0] else 0)
    return Response(generate_latest(kept), media_type="text/plain; version=0.0.4; charset=utf-8")
