"""The registry's tables, as they are after the last step of `parity311.lifecycle.migrations`.

What is JSON is kept as the text that was hashed: a database that stores it as anything else gives
back another text. `versions`, `packages`, `log` and `decisions` take new rows only; triggers refuse
the rest.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Float, Index, LargeBinary, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from parity311.storage.strict_json import canonical_json

ONE_IN_OFFICE = "one_policy_in_office_a_domain"
"""Name of the index that lets a domain have one policy that is LIVE, WATCH or SUSPENDED."""
OFFICE_SQL = "state IN ('LIVE', 'WATCH', 'SUSPENDED')"


class Base(DeclarativeBase):
    """What the tables share."""


class PackageRow(Base):
    """A package's two files."""

    __tablename__ = "packages"

    sha256: Mapped[str] = mapped_column(Text, primary_key=True)
    manifest: Mapped[bytes] = mapped_column(LargeBinary)
    weights: Mapped[bytes] = mapped_column(LargeBinary)


class VersionRow(Base):
    """An immutable version of a domain's policy."""

    __tablename__ = "versions"
    __table_args__ = (UniqueConstraint("domain", "number", name="one_number_a_domain"),)

    version: Mapped[str] = mapped_column(Text, primary_key=True)
    """domain and number, as heat-3"""
    domain: Mapped[str] = mapped_column(Text)
    number: Mapped[int]
    package_sha256: Mapped[str] = mapped_column(Text)
    folder: Mapped[str] = mapped_column(Text)
    """where the package lay when it was proposed"""
    schema_version: Mapped[int]
    records: Mapped[str] = mapped_column(Text)
    """fingerprint of the records it was learned from"""
    configuration: Mapped[str] = mapped_column(Text)
    """the package's manifest, as one line of JSON"""
    statement: Mapped[str] = mapped_column(Text)
    """the reward statement, likewise"""
    verdict: Mapped[str] = mapped_column(Text)
    audit: Mapped[str] = mapped_column(Text)
    """what the verdict rests on, likewise"""
    proposed_by: Mapped[str] = mapped_column(Text)
    proposed_at: Mapped[str] = mapped_column(Text)

    @property
    def content_sha256(self) -> str:
        """Hash of all of it but for the time, which the log has; the log has this hash too."""
        names = [one.key for one in VersionRow.__table__.columns if one.key != "proposed_at"]
        plain = {name: getattr(self, name) for name in names}
        return hashlib.sha256(canonical_json(plain).encode()).hexdigest()


class StateRow(Base):
    """Where a version stands now: what the log says, for the database to keep unique."""

    __tablename__ = "states"
    __table_args__ = (
        Index(
            ONE_IN_OFFICE,
            "domain",
            unique=True,
            sqlite_where=text(OFFICE_SQL),
            postgresql_where=text(OFFICE_SQL),
        ),
    )

    version: Mapped[str] = mapped_column(Text, primary_key=True)
    domain: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)


class ChainRow(Base):
    """One entry of a hash-chained log, whichever: the registry's or the desk's."""

    __abstract__ = True

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    domain: Mapped[str] = mapped_column(Text)
    version: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    payload: Mapped[str] = mapped_column(Text)
    previous_hash: Mapped[str] = mapped_column(Text)
    hash: Mapped[str] = mapped_column(Text)


class LogRow(ChainRow):
    """One entry of the log; no two follow on the same one, so that the chain cannot fork."""

    __tablename__ = "log"
    __table_args__ = (UniqueConstraint("previous_hash", name="one_entry_after_each"),)


class DecisionRow(Base):
    """What a version chose, or would have chosen, for one case at one moment."""

    __tablename__ = "decisions"
    __table_args__ = (
        UniqueConstraint(
            "domain", "version", "as_of", "complaint_id", name="one_decision_a_moment"
        ),
    )

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    domain: Mapped[str] = mapped_column(Text)
    version: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    """`office` where it decided, `shadow` where it was not followed"""
    as_of: Mapped[str] = mapped_column(Text)
    complaint_id: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    arm: Mapped[str] = mapped_column(Text)
    """whose order filled the visit: `policy` or `today`; empty where nobody was sent"""
    stratum: Mapped[int]
    slot: Mapped[int]
    """number of the visit from 1; 0 where nobody was sent"""
    chance: Mapped[float] = mapped_column(Float)
    """with which the visit went to that order"""
    is_chosen: Mapped[bool]
    """whether somebody was sent, or would have been"""
    is_todays: Mapped[bool]
    """whether today's rule would have sent somebody"""
