"""Keys of other systems that file complaints at the desk.

It repeats names on purpose: a step must do the same whatever later versions of the code say.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    words = lambda name, **options: sa.Column(name, sa.Text, nullable=False, **options)  # noqa: E731
    op.create_table(
        "desk_keys",
        words("key_hash", primary_key=True),
        *map(words, ("name", "made_by", "made_at", "ended_at")),
    )
