"""The first layout: packages, versions, states and log, with what the database itself refuses.

It repeats names on purpose: a step must do the same whatever later versions of the code say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

APPEND_ONLY = ("versions", "packages", "log")
REFUSAL = "The registry only takes new rows here; nothing was changed."


def upgrade() -> None:
    """Make the tables, the index of the one in office, and the triggers."""
    words = lambda name, **options: sa.Column(name, sa.Text, nullable=False, **options)  # noqa: E731
    number = lambda name, **options: sa.Column(name, sa.Integer, nullable=False, **options)  # noqa: E731
    blob = lambda name: sa.Column(name, sa.LargeBinary, nullable=False)  # noqa: E731
    op.create_table(
        "packages", words("sha256", primary_key=True), blob("manifest"), blob("weights")
    )
    op.create_table(
        "versions",
        words("version", primary_key=True),
        words("domain"),
        number("number"),
        words("package_sha256"),
        words("folder"),
        number("schema_version"),
        *map(words, ("records", "configuration", "statement", "verdict", "audit")),
        *map(words, ("proposed_by", "proposed_at")),
        sa.UniqueConstraint("domain", "number", name="one_number_a_domain"),
    )
    op.create_table("states", words("version", primary_key=True), words("domain"), words("state"))
    in_office = sa.text("state IN ('LIVE', 'WATCH', 'SUSPENDED')")
    op.create_index(
        "one_policy_in_office_a_domain",
        "states",
        ["domain"],
        unique=True,
        sqlite_where=in_office,
        postgresql_where=in_office,
    )
    op.create_table(
        "log",
        number("seq", primary_key=True, autoincrement=False),
        *map(words, ("at", "actor", "action", "domain", "version", "reason", "payload")),
        words("previous_hash"),
        words("hash"),
        sa.UniqueConstraint("previous_hash", name="one_entry_after_each"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION parity311_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
        )
    for table in APPEND_ONLY:
        _refuse_changes(table)


def _refuse_changes(table: str) -> None:
    """Triggers on one table; PostgreSQL empties one by TRUNCATE too."""
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
