"""What linked duplicates are worth to an estimate: it is refused, or its intervals are wider.

An estimate reads how often incidents are reported again. Where a rule decided which reports are
repeats, the rate of repeats is off by what the rule takes too many and misses, as measured in a
synthetic city. Incidents nobody reported go with one over that rate, so the same factor bounds
them; it is one factor for the whole table, because a rule errs everywhere alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.errors import EstimationError
from parity311.records.store import Records

LINKS = "links"
"""Entry of a manifest: what was linked, by domain."""
WEAKEST = 0.5
"""Precision or recall below which links say nothing: half of the repeats would be none."""
REACH = 1.645
"""Standard deviations from the middle of a 90 % interval to its end."""


def is_weak(precision: float, recall: float, share: float) -> bool:
    """Whether fewer than `WEAKEST` of all repeats are right or found, of which a rule made a share.

    What the source marks is taken as right.
    """
    return 1.0 - share * (1.0 - min(precision, recall)) < WEAKEST


@dataclass(frozen=True)
class UsedLinks:
    """Duplicates of one domain that a rule linked, and how well it does elsewhere."""

    domain: str
    city: str
    precision: float
    recall: float
    n_linked: int
    """Reports the rule took as repeats."""
    n_repeats: int
    """All repeats of the table, marked by the source too."""

    @property
    def share(self) -> float:
        """Share of the repeats that the rule made."""
        return self.n_linked / max(self.n_repeats, 1)

    @property
    def is_weak(self) -> bool:
        """Whether too many repeats are wrong, or missing, those marked by the source included."""
        return is_weak(self.precision, self.recall, self.share)

    @property
    def log_spread(self) -> float:
        """Standard deviation of the logarithm of the factor that links may be off by."""
        worst = max(-np.log(self.precision), -np.log(self.recall))
        return float(worst * self.share / REACH)

    @property
    def words(self) -> str:
        """The rule's record, as part of a sentence."""
        return (
            f"{self.n_linked:,} of {self.n_repeats:,} repeats were linked by a rule, of whose "
            f"repeats {self.precision:.0%} are right and which finds {self.recall:.0%} of them in "
            f"the synthetic city {self.city}"
        )


def used_links(records: Records, domain: str) -> UsedLinks | None:
    """What `records link` wrote about a domain; None where the source marks duplicates itself."""
    entry: dict[str, Any] | None = records.manifest.get(LINKS, {}).get(domain)
    if entry is None or not entry["n_linked"]:
        return None
    quality = entry["quality"]
    return UsedLinks(
        domain=domain,
        city=quality["city"],
        precision=quality["precision"],
        recall=quality["recall"],
        n_linked=entry["n_linked"],
        n_repeats=entry["n_repeats"],
    )


def check_links(links: UsedLinks) -> None:
    """Refuse an estimate from duplicates that were linked too badly."""
    if links.is_weak:
        raise EstimationError(
            f"Duplicates of {links.domain!r} are too weakly linked to tell how fast people report: "
            f"{links.words}; both must reach {WEAKEST:.0%}. Import a source that marks them, or "
            "use estimator 'raw'."
        )
