"""When a policy should not decide: what it sees lies outside what its training saw.

Today's rule then decides about the case, and the recommendation says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity311.errors import InputError

if TYPE_CHECKING:
    from parity311.mdp.contract import Domain
    from parity311.records.journal import Journal
    from parity311.serving.served import ServedPolicy

NOT_REFUSED = -1
UNKNOWN_FEATURE, LONG_LINE, UNSERVED, OUTSIDE = range(4)

MARGIN_SHARE = 0.5
"""A feature may lie beyond what training saw by this share of its range there. That range is of
some short episodes: with a tenth, an office of fifty features was refused on most days of a year
in which nothing had changed (city 7, for tuning)."""
FAR = 2.0
"""A line is far longer than any trained on beyond so many times its room (assumed)."""


def find_refusals(
    policy: ServedPolicy,
    journal: Journal,
    seen: np.ndarray,
    ahead: np.ndarray,
    action: np.ndarray,
) -> np.ndarray:
    """Why each of these observations (n, n_features) is refused, (n,); NOT_REFUSED if it is not.

    `action` (n,) is what the policy would take. `OUTSIDE` + i says that feature i lies outside.
    """
    found = np.full(len(seen), NOT_REFUSED)
    low, high = policy.package.seen.get("low"), policy.package.seen.get("high")
    if low is not None and high is not None:
        slack = MARGIN_SHARE * (high - low) + 1e-4
        is_outside = (seen < low - slack) | (seen > high + slack)
        # The coverage price moves on in service, and is clipped by rule.
        is_outside[:, -1] = False
        worst = is_outside.argmax(axis=1)
        found = np.where(is_outside.any(axis=1), OUTSIDE + worst, found)
    room = policy.sight.room
    if room is not None:
        is_far = ahead > FAR * room(policy.package.params, journal)
        found = np.where(is_far, LONG_LINE, found)
    found = np.where(policy.is_served[action], found, UNSERVED)
    return np.where(np.isfinite(seen).all(axis=1), found, UNKNOWN_FEATURE)


def say_refusal(policy: ServedPolicy, number: int) -> str:
    """The reason in words; empty where there is none."""
    if number == NOT_REFUSED:
        return ""
    if number == UNKNOWN_FEATURE:
        return "a feature of the case is not known"
    if number == LONG_LINE:
        return "the line is far longer than any the policy was trained on"
    if number == UNSERVED:
        return f"{' or '.join(policy.sight.unserved)} cannot be done about a case on record"
    return f"{policy.observation_names[number - OUTSIDE]} lies outside what training saw"


def check_fields(domain: Domain, journal: Journal) -> None:
    """Refuse records without a field that tells the domain's kinds apart."""
    process = domain.process
    needed = [flag.name for flag in getattr(process, "flags", ())]
    needed += getattr(process, "category_flags", ())
    used = [name for name in needed if name in domain.observation_names]
    missing = [name for name in used if name not in journal.flags]
    if missing:
        raise InputError(
            f"The records of {journal.domain!r} lack {', '.join(missing)}, which its policies see; "
            "import a feed that has it, or use a policy that does without."
        )
