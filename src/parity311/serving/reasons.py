"""Two or three plain reasons for every recommendation, fast enough to give them with each.

A feature's part is the mean of what it adds to the typical case and what it takes from this one
when it is set to typical there. That is its Shapley value against the typical case wherever no
three features act together, at two scores a feature instead of one for every set of features;
`parity311 explain` has the exact ones. Reasons never say where a complaint comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity311.explain.phrases import PHRASES, Phrase, phrase_for
from parity311.explain.reasons import MAX_REASONS, SMALLEST_PART
from parity311.mdp.contract import COVERAGE_FEATURE

if TYPE_CHECKING:
    from parity311.records.journal import Cases
    from parity311.serving.choose import Routing
    from parity311.serving.served import ServedPolicy

CHUNK = 1024
"""Different cases whose parts are worked out at once, to bound memory."""
LONG_DAYS = 30.0
"""Days from which a case has been waiting for long."""


def give_reasons(
    policy: ServedPolicy, cases: Cases, choice: Routing, as_of: float, rows: np.ndarray
) -> list[tuple[str, ...]]:
    """Reasons for the cases at these positions, the strongest first."""
    if policy.sight.rank is not None:
        return tell_facts(cases, rows, as_of)
    seen, action = choice.observation[rows], choice.action[rows]
    # Cases that look the same to the policy have the same reasons.
    first, which = _find_distinct(np.column_stack([seen, action.astype(seen.dtype)]))
    found: list[tuple[str, ...]] = []
    for start in range(0, len(first), CHUNK):
        chunk = first[start : start + CHUNK]
        found += _phrases(policy, seen[chunk], parts_of(policy, seen[chunk], action[chunk]))
    return [found[number] for number in which.tolist()]


def _find_distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the different rows (n, d), and for every row (n,) which of those it is."""
    if len(rows) == 1:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    whole = np.ascontiguousarray(rows)
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1])))[:, 0]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which


def parts_of(policy: ServedPolicy, seen: np.ndarray, action: np.ndarray) -> np.ndarray:
    """What each feature contributes to the margin of the action, (n, n_features).

    The margin is against the best other action of this case; values are the policy's own.
    """
    typical = policy.package.seen["typical"].astype(np.float32)
    n = len(seen)
    row, column = np.nonzero(seen != typical)
    changed = np.arange(len(row))
    added = np.repeat(typical[None], len(row), axis=0)
    added[changed, column] = seen[row, column]
    taken = seen[row]
    taken[changed, column] = typical[column]
    values = policy.values(np.concatenate([seen, typical[None], added, taken]))
    here, there, added, taken = np.split(values, [n, n + 1, n + 1 + len(row)])
    rest = here.copy()
    rest[np.arange(n), action] = -np.inf
    other = rest.argmax(axis=1)

    def margin(scores: np.ndarray, of: np.ndarray) -> np.ndarray:
        at = np.arange(len(scores)) if len(scores) > 1 else np.zeros(len(of), np.int64)
        return scores[at, action[of]] - scores[at, other[of]]

    gained = margin(added, row) - margin(there, row)
    lost = margin(here, np.arange(n))[row] - margin(taken, row)
    parts = np.zeros(seen.shape)
    parts[row, column] = (gained + lost) / 2.0
    return parts


def _phrases(policy: ServedPolicy, seen: np.ndarray, parts: np.ndarray) -> list[tuple[str, ...]]:
    domain = policy.domain
    typical = policy.package.seen["typical"]
    hidden = {*domain.geographic_features, COVERAGE_FEATURE}
    words = [
        None if name in hidden else phrase_for(name, domain.slug)
        for name in policy.observation_names
    ]
    speaks_for = np.maximum(parts, 0.0)
    share = speaks_for / np.maximum(speaks_for.sum(axis=1, keepdims=True), 1e-12)
    order = np.argsort(-share, axis=1, kind="stable")
    is_high = seen > typical
    said_of = zip(order.tolist(), share.tolist(), is_high.tolist(), strict=True)
    return [_say(words, *one) for one in said_of]


def _say(
    words: list[Phrase | None], order: list[int], share: list[float], is_high: list[bool]
) -> tuple[str, ...]:
    """The phrases of one case's strongest features."""
    said: list[str] = []
    for column in order:
        phrase = words[column]
        if share[column] < SMALLEST_PART or len(said) == MAX_REASONS:
            break
        if phrase is not None:
            said.append(phrase.high if is_high[column] else phrase.low)
    return tuple(dict.fromkeys(said))


def tell_facts(cases: Cases, rows: np.ndarray, as_of: float) -> list[tuple[str, ...]]:
    """What of each case decides its place where a policy decides about the whole office."""
    urgent, aged, often = (PHRASES[name] for name in ("severity", "age_days", "n_reports"))
    is_urgent = (cases.code[rows] <= 1).tolist()
    is_aged = (as_of - cases.began[rows] >= LONG_DAYS).tolist()
    is_often = (cases.n_reports[rows] > 1).tolist()
    return [
        (
            urgent.high if one else urgent.low,
            aged.high if two else aged.low,
            *([often.high] if three else []),
        )
        for one, two, three in zip(is_urgent, is_aged, is_often, strict=True)
    ]
