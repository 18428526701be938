"""The desk's further tables: entries by case, closings, survey, choices, hooks, sources.

It repeats names on purpose: a step must do the same whatever later versions of the code say.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def _words(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _number() -> sa.Column:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=True)


def upgrade() -> None:
    """Make the tables, find the case of every entry there is, and mark no case as blind."""
    op.create_table(
        "desk_acts",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        *_words("complaint_id"),
    )
    op.create_index("desk_acts_of_a_case", "desk_acts", ["complaint_id"])
    _find_acts()
    op.add_column(
        "desk_cases", sa.Column("is_blind", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column(
        "desk_visits", sa.Column("complaint_id", sa.Text, nullable=False, server_default="")
    )
    op.execute(
        "UPDATE desk_visits SET complaint_id = (SELECT complaint_id FROM desk_cases c "
        "WHERE c.number = desk_visits.case_number)"
    )
    op.create_table(
        "desk_closings",
        sa.Column("complaint_id", sa.Text, primary_key=True),
        *_words("domain", "closed_at", "disposition", "code"),
    )
    op.execute(
        "INSERT INTO desk_closings (complaint_id, domain, closed_at, disposition, code) "
        "SELECT complaint_id, domain, closed_at, disposition, '' FROM desk_cases "
        "WHERE closed_at <> ''"
    )
    op.create_index(
        "desk_cases_in_order",
        "desk_cases",
        ["status", "escalates", "due_at", "number"],
    )
    op.create_index("desk_cases_by_closing", "desk_cases", ["domain", "closed_at"])
    score = sa.Column("score", sa.Float, nullable=False)
    op.create_table("desk_survey", _number(), *_words("at", "domain", "words"), score)
    op.create_table(
        "desk_choices",
        _number(),
        *_words("at", "domain", "run", "point", "who", "reason", "told_by", "outcome"),
        sa.Column("seq", sa.Integer, nullable=False),
    )
    op.create_table(
        "desk_hooks",
        sa.Column("name", sa.Text, primary_key=True),
        *_words("address", "secret", "made_by", "made_at", "ended_at", "problem"),
        sa.Column("sent_seq", sa.Integer, nullable=False),
    )
    op.create_table(
        "desk_sources",
        sa.Column("name", sa.Text, primary_key=True),
        *_words("kind", "address", "codes", "made_by", "made_at", "ended_at", "read_to", "problem"),
        sa.Column("minutes", sa.Float, nullable=False),
    )


def _find_acts() -> None:
    """The case of every entry that is in the log already."""
    bind = op.get_bind()
    for seq, payload in bind.execute(sa.text("SELECT seq, payload FROM desk_log")).fetchall():
        case = json.loads(payload)["details"].get("case")
        if case:
            bind.execute(
                sa.text("INSERT INTO desk_acts (seq, complaint_id) VALUES (:seq, :case)"),
                {"seq": seq, "case": case},
            )
