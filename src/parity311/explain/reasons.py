"""Two or three plain reasons for one decision, and what would change it.

For intake staff and for the person who complained: from the fixed phrases, without demographics and
without naming a place as a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity311.explain.games import Policy, score_rows
from parity311.explain.phrases import (
    CIRCUMSTANCES,
    COMMAS,
    SENTENCES,
    action_words,
    phrase_for,
    translation,
)

if TYPE_CHECKING:
    from parity311.explain.exact import Attribution

MAX_REASONS = 3
SMALLEST_PART = 0.1
"""A reason carries at least this part of what speaks for the action."""
N_CANDIDATES = 20
"""Values of a feature that are tried when looking for what would change a decision."""


@dataclass(frozen=True)
class Reason:
    """One feature's part in a decision."""

    feature: str
    part: float
    """Share of everything that speaks for the action, 0 … 1."""
    is_high: bool
    """Whether the feature is high here, beside the background."""
    phrase: str
    """In words, in English; empty where the feature has no phrase."""


@dataclass(frozen=True)
class Explanation:
    """One decision in words and figures."""

    action: str
    runner_up: str
    margin: float
    """Score of the action less that of the runner-up."""
    reasons: tuple[Reason, ...]
    """What a resident is told."""
    all_parts: tuple[Reason, ...]
    """Every feature, for staff and auditors."""
    place_part: float
    """Share of what speaks for the action that only says where the complaint comes from."""
    change_feature: str
    """Feature whose change alone would make the runner-up win; empty if there is none."""
    change_phrase: str


def explain_decision(
    policy: Policy,
    attribution: Attribution,
    row: np.ndarray,
    index: int,
    background: np.ndarray,
    *,
    feature_names: Sequence[str],
    action_names: Sequence[str],
    geographic: Sequence[str] = (),
    domain: str = "",
) -> Explanation:
    """Explain the decision on row ``index`` of an attribution.

    What is explained is the margin between the best and the second-best action, which is a
    difference of scores, so the values are exact.
    """
    order = np.argsort(-attribution.scores[index], kind="stable")
    best, second = int(order[0]), int(order[1] if len(order) > 1 else order[0])
    values = attribution.of_margin(best, second)[index]
    if best == second:
        values = attribution.values[index, :, best]
    speaks_for = np.maximum(values, 0.0)
    total = speaks_for.sum()
    parts = speaks_for / total if total > 0 else speaks_for
    is_high = _is_high(row, background)
    found = [
        _reason(feature_names[i], float(parts[i]), bool(is_high[i]), domain)
        for i in map(int, np.argsort(-parts, kind="stable"))
    ]
    usable = [r for r in found if r.phrase and r.feature not in geographic]
    reasons = [r for r in usable if r.part >= SMALLEST_PART][:MAX_REASONS]
    changed, phrase = _what_would_change(
        policy, row, background, best, feature_names, geographic, domain
    )
    return Explanation(
        action=action_names[best],
        runner_up=action_names[second],
        margin=float(attribution.scores[index, best] - attribution.scores[index, second]),
        reasons=tuple(reasons),
        all_parts=tuple(found),
        place_part=float(sum(r.part for r in found if r.feature in geographic)),
        change_feature=changed,
        change_phrase=phrase,
    )


def _is_high(row: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Whether each value is high; at the median (a common flag is there), the mean decides."""
    middle = np.median(background, axis=0)
    return np.where(row == middle, row > background.mean(axis=0), row > middle)


def _reason(feature: str, part: float, is_high: bool, domain: str) -> Reason:
    phrase = phrase_for(feature, domain)
    text = "" if phrase is None else phrase.high if is_high else phrase.low
    return Reason(feature, part, is_high, text)


def _what_would_change(
    policy: Policy,
    row: np.ndarray,
    background: np.ndarray,
    best: int,
    feature_names: Sequence[str],
    geographic: Sequence[str],
    domain: str,
) -> tuple[str, str]:
    """The feature whose smallest change, in background spreads, changes the action.

    What the complaint says comes before how things stand elsewhere.
    """
    found: list[tuple[bool, float, str, str]] = []
    spread = background.std(axis=0)
    for i, name in enumerate(feature_names):
        phrase = phrase_for(name, domain)
        if phrase is None or name in geographic or spread[i] == 0:
            continue
        values = np.unique(background[:, i])
        if len(values) > N_CANDIDATES:
            values = np.quantile(values, np.linspace(0, 1, N_CANDIDATES))
        values = values[values != row[i]]
        changed = np.repeat(row[None], len(values), axis=0)
        changed[:, i] = values
        differs = score_rows(policy, changed).argmax(axis=1) != best
        if not differs.any():
            continue
        distance = np.abs(values - row[i]) / spread[i]
        k = int(np.where(differs, distance, np.inf).argmin())
        words = phrase.high if values[k] > row[i] else phrase.low
        found.append((name in CIRCUMSTANCES, float(distance[k]), name, words))
    return min(found)[2:] if found else ("", "")


def write_notice(
    explanation: Explanation, *, language: str = "en", contact: str = "", appeal: str = ""
) -> str:
    """The notice for the person who complained, one sentence a line, in their language."""
    say = translation(language).gettext
    action = say(action_words(explanation.action))
    lines = [say(SENTENCES["decided"]).format(action=action)]
    if explanation.reasons:
        texts = [say(reason.phrase) for reason in explanation.reasons]
        joined = COMMAS.get(language, ", ").join(texts[:-1]) or texts[0]
        if len(texts) > 1:
            joined = say(SENTENCES["list"]).format(first=joined, last=texts[-1])
        lines.append(say(SENTENCES["because"]).format(reasons=joined))
    else:
        lines.append(say(SENTENCES["no_reason"]))
    if explanation.place_part >= SMALLEST_PART:
        lines.append(say(SENTENCES["place"]))
    change = explanation.change_phrase
    sentence = say(SENTENCES["change" if change else "no_change"])
    lines.append(sentence.format(change=say(change)) if change else sentence)
    lines.append(say(SENTENCES["human"]))
    missing = say(SENTENCES["not_provided"])
    lines.append(say(SENTENCES["contact"]).format(contact=contact or missing))
    lines.append(say(SENTENCES["appeal"]).format(appeal=appeal or missing))
    return "\n".join(lines)
