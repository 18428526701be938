"""Decisions: what the policy in office chose, and what those in shadow would have.

It repeats names on purpose: a step must do the same whatever later versions of the code say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0001"

REFUSAL = "The registry only takes new rows here; nothing was changed."


def upgrade() -> None:
    """Make the table and its triggers."""
    words = lambda name: sa.Column(name, sa.Text, nullable=False)  # noqa: E731
    number = lambda name: sa.Column(name, sa.Integer, nullable=False)  # noqa: E731
    op.create_table(
        "decisions",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        *map(words, ("domain", "version", "role", "as_of", "complaint_id", "action", "arm")),
        *map(number, ("stratum", "slot")),
        sa.Column("chance", sa.Float, nullable=False),
        sa.Column("is_chosen", sa.Boolean, nullable=False),
        sa.Column("is_todays", sa.Boolean, nullable=False),
        sa.UniqueConstraint(
            "domain", "version", "as_of", "complaint_id", name="one_decision_a_moment"
        ),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE TRIGGER decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON decisions "
            "FOR EACH STATEMENT EXECUTE FUNCTION parity311_append_only()"
        )
        return
    for event in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER decisions_no_{event.lower()} BEFORE {event} ON decisions "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
