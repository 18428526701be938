"""A policy read from disk, and in what two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from parity311.agents.package import read_package
from parity311.records.journal import Journal
from parity311.records.store import Records
from parity311.serving.recommend import Recommendations, recommend
from parity311.serving.served import ServedPolicy


class LoadedPolicy(ServedPolicy):
    """A policy read from disk.

    Examples
    --------
    >>> policy.manifest["domain"], policy.manifest["agent"]
    ('boiler', 'dqn')
    >>> import numpy
    >>> policy.decide(numpy.zeros((3, harness.n_features))).shape
    (3,)
    """

    def recommend(
        self,
        cases: Records | Journal,
        as_of: datetime | None = None,
        *,
        capacity: int | None = None,
        complaint: Mapping[str, Any] | None = None,
    ) -> Recommendations:
        """What to do with every open case, in the order to work them.

        Parameters
        ----------
        cases
            A records folder that was opened, or a journal.
        as_of
            The moment; the end of the records if not given.
        capacity
            Visits there are; what was made a working day over the last four weeks if not given.
        complaint
            One new complaint as plain data: it is answered alone, beside the queue.

        Examples
        --------
        >>> found = policy.recommend(records)
        >>> found.rows(1)[0]["action"] in policy.action_names
        True
        """
        return recommend(self, cases, as_of, capacity=capacity, complaint=complaint)


def load_policy(folder: str | Path) -> LoadedPolicy:
    """Read a policy and check that it is whole and of a format that can be read.

    Examples
    --------
    >>> policy = parity311.load_policy("policies/first")
    """
    return LoadedPolicy(read_package(Path(folder)))


N_COMPARED = 4096
"""Observations, drawn within what training saw, on which decisions are compared."""
NOT_COMPARED = ("seal", "weights_sha256", "saved_on")


def differences(first: LoadedPolicy, second: LoadedPolicy) -> dict[str, Any]:
    """Fields of the manifests that differ, and the share of decisions on which both agree.

    The share is over observations drawn evenly within what the first one's training saw; None
    where the two do not see or may not do the same.
    """
    a, b = first.manifest, second.manifest
    names = [name for name in {**a, **b} if name not in NOT_COMPARED]
    changed = {
        name: {"first": a.get(name), "second": b.get(name)}
        for name in names
        if a.get(name) != b.get(name)
    }
    return {"fields": changed, "same_decisions": _agreement(first, second)}


def _agreement(first: LoadedPolicy, second: LoadedPolicy) -> float | None:
    is_alike = (
        first.observation_names == second.observation_names
        and first.action_names == second.action_names
    )
    seen = first.package.seen
    if not is_alike or not seen:
        return None
    rng = np.random.default_rng(311)
    spread = rng.random((N_COMPARED, len(seen["low"])))
    drawn = (seen["low"] + spread * (seen["high"] - seen["low"])).astype(np.float32)
    return float((first.decide(drawn) == second.decide(drawn)).mean())
