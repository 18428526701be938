"""The desk: accounts, logins, cases with their recommendation, reports, visits, notes and a log.

It repeats names on purpose: a step must do the same whatever later versions of the code say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

REFUSAL = "The desk only adds rows here; nothing was changed."


def _words(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _key(name: str, kind: type = sa.Text) -> sa.Column:
    return sa.Column(name, kind, primary_key=True, nullable=False, autoincrement=False)


def _counted(name: str) -> sa.Column:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=True)


def upgrade() -> None:
    """Make the tables, their indices, and the triggers of the log."""
    op.create_table(
        "desk_accounts",
        _key("name"),
        *_words("role", "password_hash", "made_at"),
        sa.Column("is_active", sa.Boolean, nullable=False),
    )
    op.create_table(
        "desk_logins",
        _key("token_hash"),
        *_words("account", "made_at", "seen_at", "ends_at"),
    )
    op.create_table("desk_settings", _key("name"), *_words("value"))
    _make_cases()
    op.create_table(
        "desk_reports",
        _key("complaint_id"),
        *_numbers("case_number"),
        *_words("incident_id", "domain", "category", "severity", "received_at", "tract"),
        *_words("building_id", "channel", "language", "flags"),
    )
    op.create_index("desk_reports_of_a_case", "desk_reports", ["case_number"])
    op.create_index("desk_reports_of_an_incident", "desk_reports", ["domain", "incident_id"])
    op.create_table(
        "desk_visits",
        _key("visit_id"),
        *_numbers("case_number", "attempt"),
        *_words("visited_at", "result"),
        *(sa.Column(name, sa.Float) for name in ("propensity", "n_waiting", "n_slots")),
    )
    op.create_index("desk_visits_of_a_case", "desk_visits", ["case_number"])
    op.create_table(
        "desk_notes", _counted("number"), *_numbers("case_number"), *_words("salt", "words")
    )
    op.create_table(
        "desk_people",
        _key("complaint_id"),
        *_words("name", "email", "phone", "words"),
    )
    op.create_table(
        "desk_log",
        _key("seq", sa.Integer),
        *_words("at", "actor", "action", "domain", "version", "reason", "payload"),
        *_words("previous_hash", "hash"),
        sa.UniqueConstraint("previous_hash", name="one_desk_entry_after_each"),
    )
    _refuse_changes("desk_log")


def _make_cases() -> None:
    op.create_table(
        "desk_cases",
        _counted("number"),
        *_words("complaint_id", "domain", "category", "severity", "received_at", "due_at"),
        *_words("tract", "building_id", "flags", "source", "check_salt", "check_hash"),
        *_numbers("stratum", "n_reports"),
        sa.Column("units", sa.Float, nullable=False),
        *_words("last_report_at", "version", "policy", "arm", "action", "goes", "todays_action"),
        sa.Column("propensity", sa.Float, nullable=False),
        sa.Column("escalates", sa.Boolean, nullable=False),
        *(sa.Column(name, sa.Float) for name in ("margin", "agreement")),
        *_words("reasons", "fallback", "price_effect", "features", "scored_at"),
        *_words("status", "claimed_by", "claimed_until", "chosen", "decided_by", "decided_at"),
        *_numbers("decided_seq"),
        *_words("closed_at", "disposition", "duplicate_of"),
        sa.UniqueConstraint("complaint_id", name="one_case_a_complaint"),
    )
    op.create_index("desk_cases_by_status", "desk_cases", ["status", "domain", "due_at"])
    op.create_index("desk_cases_by_place", "desk_cases", ["domain", "building_id", "tract"])


def _refuse_changes(table: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION parity311_append_only()"
        )
        return
    for event in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
