"""The desk's tables, beside the registry's in one database (`lifecycle/migrations/v0004_desk.py`).

Times are texts that sort: the city's own time for complaints, UTC for what staff do. What is JSON
is text. `desk_log` takes new rows only; what a person wrote or told about themselves lies in
`desk_notes` and `desk_people`, outside of it, so that it can be erased.
"""

from __future__ import annotations

from sqlalchemy import Float, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from parity311.lifecycle.tables import Base, ChainRow

OPEN, DECIDED, CLOSED = "open", "decided", "closed"
"""Where a case stands: nobody decided yet; somebody did; an inspector or a duplicate ended it."""


def _text() -> Mapped[str]:
    return mapped_column(Text, default="")


class AccountRow(Base):
    """Somebody who may log in."""

    __tablename__ = "desk_accounts"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    role: Mapped[str] = mapped_column(Text)
    password_hash: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    is_active: Mapped[bool] = mapped_column(default=True)


class LoginRow(Base):
    """A login; the token itself is only in the browser."""

    __tablename__ = "desk_logins"

    token_hash: Mapped[str] = mapped_column(Text, primary_key=True)
    account: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    seen_at: Mapped[str] = mapped_column(Text)
    ends_at: Mapped[str] = mapped_column(Text)


class SettingRow(Base):
    """A thing the desk remembers between starts."""

    __tablename__ = "desk_settings"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class CaseRow(Base):
    """A case with the recommendation made when it came in, and where it stands."""

    __tablename__ = "desk_cases"
    __table_args__ = (
        UniqueConstraint("complaint_id", name="one_case_a_complaint"),
        Index("desk_cases_by_status", "status", "domain", "due_at"),
        Index("desk_cases_by_place", "domain", "building_id", "tract"),
        Index("desk_cases_by_closing", "domain", "closed_at"),
        Index("desk_cases_in_order", "status", "escalates", "due_at", "number"),
    )

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    complaint_id: Mapped[str] = mapped_column(Text)
    """of its first report; the tracking number"""
    domain: Mapped[str] = mapped_column(Text)
    category: Mapped[str] = mapped_column(Text)
    severity: Mapped[str] = mapped_column(Text)
    received_at: Mapped[str] = mapped_column(Text)
    due_at: Mapped[str] = mapped_column(Text)
    tract: Mapped[str] = mapped_column(Text)
    building_id: Mapped[str] = _text()
    flags: Mapped[str] = mapped_column(Text, default="{}")
    source: Mapped[str] = _text()
    """how it reached the desk: replay, open311 …"""
    check_salt: Mapped[str] = _text()
    check_hash: Mapped[str] = _text()
    """of the check code that the public page asks for"""
    stratum: Mapped[int]
    n_reports: Mapped[int] = mapped_column(default=1)
    units: Mapped[float] = mapped_column(Float, default=1.0)
    last_report_at: Mapped[str] = _text()

    version: Mapped[str] = _text()
    """who recommended; empty: today's rule"""
    policy: Mapped[str] = _text()
    arm: Mapped[str] = _text()
    """`policy`, or `today` where it was left to today's rule, by chance or for want of a policy"""
    action: Mapped[str] = mapped_column(Text)
    goes: Mapped[str] = _text()
    """visit, no visit left, wait"""
    todays_action: Mapped[str] = _text()
    propensity: Mapped[float] = mapped_column(Float)
    """chance with which it was this order that recommended"""
    escalates: Mapped[bool]
    margin: Mapped[float | None] = mapped_column(Float)
    agreement: Mapped[float | None] = mapped_column(Float)
    reasons: Mapped[str] = mapped_column(Text, default="[]")
    fallback: Mapped[str] = _text()
    """why today's rule decides about this case though a policy is in office"""
    price_effect: Mapped[str] = _text()
    features: Mapped[str] = mapped_column(Text, default="{}")
    scored_at: Mapped[str] = _text()
    is_blind: Mapped[bool] = mapped_column(default=False)
    """whether staff decide before they see what is recommended"""

    status: Mapped[str] = mapped_column(Text, default=OPEN)
    claimed_by: Mapped[str] = _text()
    claimed_until: Mapped[str] = _text()
    chosen: Mapped[str] = _text()
    decided_by: Mapped[str] = _text()
    decided_at: Mapped[str] = _text()
    decided_seq: Mapped[int] = mapped_column(default=0)
    """entry of the log; 0 while nobody decided"""
    closed_at: Mapped[str] = _text()
    disposition: Mapped[str] = _text()
    duplicate_of: Mapped[str] = _text()


class ReportRow(Base):
    """One report by one person; the first of a case has the case's own id."""

    __tablename__ = "desk_reports"
    __table_args__ = (
        Index("desk_reports_of_a_case", "case_number"),
        Index("desk_reports_of_an_incident", "domain", "incident_id"),
    )

    complaint_id: Mapped[str] = mapped_column(Text, primary_key=True)
    case_number: Mapped[int]
    incident_id: Mapped[str] = _text()
    domain: Mapped[str] = mapped_column(Text)
    category: Mapped[str] = mapped_column(Text)
    severity: Mapped[str] = mapped_column(Text)
    received_at: Mapped[str] = mapped_column(Text)
    tract: Mapped[str] = mapped_column(Text)
    building_id: Mapped[str] = _text()
    channel: Mapped[str] = _text()
    language: Mapped[str] = _text()
    flags: Mapped[str] = mapped_column(Text, default="{}")


class VisitRow(Base):
    """What an inspector found."""

    __tablename__ = "desk_visits"
    __table_args__ = (Index("desk_visits_of_a_case", "case_number"),)

    visit_id: Mapped[str] = mapped_column(Text, primary_key=True)
    complaint_id: Mapped[str] = _text()
    """first report of the case"""
    case_number: Mapped[int] = mapped_column(default=0)
    """0: a case that was not open when the desk began"""
    attempt: Mapped[int]
    visited_at: Mapped[str] = mapped_column(Text)
    result: Mapped[str] = mapped_column(Text)
    propensity: Mapped[float | None] = mapped_column(Float)
    n_waiting: Mapped[float | None] = mapped_column(Float)
    n_slots: Mapped[float | None] = mapped_column(Float)


class ClosingRow(Base):
    """How a case ended, as it was told; also of cases that were not open when the desk began."""

    __tablename__ = "desk_closings"

    complaint_id: Mapped[str] = mapped_column(Text, primary_key=True)
    domain: Mapped[str] = mapped_column(Text)
    closed_at: Mapped[str] = mapped_column(Text)
    disposition: Mapped[str] = mapped_column(Text)
    """its class"""
    code: Mapped[str] = _text()
    """closing code of the source"""


class NoteRow(Base):
    """What somebody wrote beside a decision; the log has its salted hash."""

    __tablename__ = "desk_notes"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    case_number: Mapped[int]
    salt: Mapped[str] = mapped_column(Text)
    words: Mapped[str] = mapped_column(Text)


class PersonRow(Base):
    """What a complainant told about themselves."""

    __tablename__ = "desk_people"

    complaint_id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = _text()
    email: Mapped[str] = _text()
    phone: Mapped[str] = _text()
    words: Mapped[str] = _text()
    """the complaint in their own words"""


class DeskLogRow(ChainRow):
    """One entry of the desk's log; no two follow on the same one, so that it cannot fork."""

    __tablename__ = "desk_log"
    __table_args__ = (UniqueConstraint("previous_hash", name="one_desk_entry_after_each"),)


class ActRow(Base):
    """Which case an entry of the log is about."""

    __tablename__ = "desk_acts"
    __table_args__ = (Index("desk_acts_of_a_case", "complaint_id"),)

    seq: Mapped[int] = mapped_column(primary_key=True)
    complaint_id: Mapped[str] = mapped_column(Text)


class SurveyRow(Base):
    """One answer of staff about working with the recommendations; nobody's name is beside it."""

    __tablename__ = "desk_survey"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[str] = mapped_column(Text)
    domain: Mapped[str] = mapped_column(Text)
    words: Mapped[str] = _text()
    score: Mapped[float] = mapped_column(Float)
    """0: no friction, 1: most"""


class ChoiceRow(Base):
    """What a group chose on a frontier, and why."""

    __tablename__ = "desk_choices"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[str] = mapped_column(Text)
    domain: Mapped[str] = mapped_column(Text)
    run: Mapped[str] = mapped_column(Text)
    point: Mapped[str] = mapped_column(Text)
    who: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    told_by: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str] = mapped_column(Text, default="{}")
    """the point's figures as they were shown"""
    seq: Mapped[int]
    """entry of the log"""


class HookRow(Base):
    """A system that is told of every decision."""

    __tablename__ = "desk_hooks"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    address: Mapped[str] = mapped_column(Text)
    secret: Mapped[str] = mapped_column(Text)
    """what messages are signed with"""
    made_by: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    ended_at: Mapped[str] = _text()
    problem: Mapped[str] = _text()
    sent_seq: Mapped[int] = mapped_column(default=0)
    """last entry of the log that it took"""


class SourceRow(Base):
    """Another system that is asked for complaints again and again."""

    __tablename__ = "desk_sources"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    codes: Mapped[str] = mapped_column(Text)
    """its codes -> our domains and categories, JSON"""
    made_by: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    ended_at: Mapped[str] = _text()
    read_to: Mapped[str] = _text()
    problem: Mapped[str] = _text()
    minutes: Mapped[float] = mapped_column(Float, default=5.0)


class KeyRow(Base):
    """A key of another system; the key itself was shown once and is not stored."""

    __tablename__ = "desk_keys"

    key_hash: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    made_by: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    ended_at: Mapped[str] = _text()
