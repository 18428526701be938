"""Taking part: staff say how the recommendations help, groups choose between outcomes.

A choice is between points that a frontier run measured; it is recorded with its reason in the log
and stands on the public page beside the reward statement. It releases nothing: that takes the
gates and a named person (`parity311 policies release`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from fastapi import Form

from parity311.audit.spec import AuditSpec
from parity311.desk import ledger
from parity311.desk.accounts import utc_now
from parity311.desk.figures import choices_made
from parity311.desk.pictures import draw_points
from parity311.desk.refusals import DeskRefusal, NothingThereError, OvertakenError
from parity311.desk.tables import ChoiceRow, SettingRow, SurveyRow
from parity311.desk.web import Caller, Room, Went
from parity311.report.folder import list_runs, open_run
from parity311.storage.strict_json import read_json

ROOM = Room("voices")
FRONTIER_FILE = "frontier.json"
SCALE = {"0": "not at all", "1": "a little", "2": "somewhat", "3": "much", "4": "very much"}
SHOWN = ("gap", "recall", "visits", "price")
VERDICTS = {
    "within": "would pass an audit",
    "beyond": "would fail an audit",
    "open": "an audit would not settle it",
}
"""What an audit of an outcome would say, by where the interval of its gap lies."""
MOST_POINTS = 12


@ROOM.page("/survey", "survey.html", "own.account")
def show_survey(caller: Caller) -> dict[str, Any]:
    """How much the recommendations get in one's way; one answer a week and kind."""
    with caller.desk.database.reading() as session:
        given = [one for one in caller.desk.offices
                 if session.get(SettingRow, _week(caller, one)) is not None]  # fmt: skip
    return {
        "title": "How do the recommendations work for you?",
        "domains": list(caller.desk.offices),
        "given": given,
        "scale": SCALE,
    }


@ROOM.act("/survey", "own.account")
def answer_survey(
    caller: Caller,
    domain: Annotated[str, Form(max_length=40)],
    score: Annotated[Literal["0", "1", "2", "3", "4"], Form()],
    words: Annotated[str, Form(max_length=1000)] = "",
) -> Went:
    """Keep an answer without a name; who answered this week is kept apart."""
    caller.desk.office(domain)
    if "\0" in words:
        raise DeskRefusal("The words hold a character that no text has; write them again.")
    with caller.desk.database.writing() as session:
        mark = _week(caller, domain)
        if session.get(SettingRow, mark) is not None:
            raise OvertakenError("You answered for this week already; come back next week.")
        session.add(SettingRow(name=mark, value="true"))
        day = utc_now()[:10]
        value = int(score) / (len(SCALE) - 1)
        session.add(SurveyRow(at=day, domain=domain, score=value, words=words.strip()))
    return Went("/survey", "answered")


def _week(caller: Caller, domain: str) -> str:
    year, week, _ = date.fromisoformat(utc_now()[:10]).isocalendar()
    return f"survey {year}-{week} {domain} {caller.actor.name}"


@ROOM.page("/choices", "choices.html", "public.read")
def show_choices(caller: Caller) -> dict[str, Any]:
    """Outcomes that can be had, and what groups chose among them."""
    menus = [one for one in map(read_menu, find_frontiers(caller)) if one]
    for one in menus:
        one["picture"] = draw_points(
            [(point["name"], point["gap"]["value"], point["recall"]["value"])
             for point in one["points"]],
            "Gap between areas (across) and share of true problems found (up)",
        )  # fmt: skip
    with caller.desk.database.reading() as session:
        made = choices_made(session)
    for one in made:
        one["outcome"] = dict.fromkeys(("verdict", "price", "preference")) | one["outcome"]
    return {"title": "What should be possible?", "menus": menus, "made": made,
            "verdicts": VERDICTS}  # fmt: skip


@ROOM.act("/choices", "choice.record")
def record_choice(
    caller: Caller,
    run: Annotated[str, Form(max_length=100)],
    point: Annotated[str, Form(max_length=40)],
    who: Annotated[str, Form(min_length=2, max_length=120)],
    reason: Annotated[str, Form(min_length=10, max_length=2000)],
) -> Went:
    """Record what a group chose and why."""
    menus = filter(None, map(read_menu, find_frontiers(caller)))
    menu = next((one for one in menus if one["run"] == run), None)
    points = menu["points"] if menu else []
    chosen = next((one for one in points if one["name"] == point), None)
    if menu is None or chosen is None:
        raise NothingThereError(
            f"There is no outcome {point!r} of {run[:60]!r}; the page has those there are."
        )
    if not (who + reason).replace("\n", " ").replace("\r", " ").isprintable():
        raise DeskRefusal("Who or why hold a character that no text has; write them again.")
    told = (*SHOWN, "preference", "verdict", "limit")
    outcome = {name: chosen[name] for name in told if chosen.get(name) is not None}
    with caller.desk.database.writing() as session:
        entry = ledger.append(
            session, actor=caller.actor.name, action="choose", domain=menu["domain"], version="",
            reason=reason.strip(),
            details={"role": caller.actor.role, "who": who.strip(), "run": run, "point": point,
                     "outcome": outcome},
        )  # fmt: skip
        session.add(
            ChoiceRow(
                at=entry.at[:19], domain=menu["domain"], run=run, point=point, who=who.strip(),
                reason=reason.strip(), told_by=caller.actor.name, outcome=json.dumps(outcome),
                seq=entry.seq,
            )
        )  # fmt: skip
    return Went("/choices", "chosen", {"entry": entry.seq})


def find_frontiers(caller: Caller) -> list[str]:
    """The newest frontier run of every domain served here."""
    root = caller.desk.runs
    found: dict[str, str] = {}
    if root is None:
        return []
    for name in list_runs(root):
        if (root / name / FRONTIER_FILE).is_file():
            domain = str(open_run(name, root).config.get("domain"))
            if domain in caller.desk.offices:
                found[domain] = str(root / name)
    return list(found.values())


def read_menu(path: str) -> dict[str, Any] | None:
    """A frontier as a menu: its best points from the least gap to the most found, spread out."""
    run = open_run(path)
    told = read_json(run.path / FRONTIER_FILE)
    points = sorted((one for one in told["points"] if one["is_best"]),
                    key=lambda one: one["gap"]["value"])  # fmt: skip
    if not points:
        return None
    n = min(len(points), MOST_POINTS)
    spread = [points[round(at * (len(points) - 1) / max(n - 1, 1))] for at in range(n)]
    return {
        "run": run.id,
        "domain": told["domain"],
        "setting": told["setting"],
        "test_from": told["test_from"],
        "seeds": told["seeds"],
        "points": [
            {"price": None, "command": "", "name": str(one["place"]), **one, **_audit_of(one)}
            for one in spread
        ],
        "rules": [{"price": None, **one, **_audit_of(one)} for one in told["rules"]],
        "verdicts": VERDICTS,
    }


def _audit_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit would say of an outcome: its largest gap, with its interval, by the limit."""
    limit, gap = AuditSpec().tau, point["gap"]
    is_open = gap["lower"] <= limit < gap["upper"]
    verdict = "open" if is_open else "within" if gap["upper"] <= limit else "beyond"
    return {"verdict": verdict, "limit": limit}
