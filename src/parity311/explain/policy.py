"""What drives one policy, what stands in for who lives there, and how far explainers agree.

What a gap becomes without a feature, taken out of this policy without training again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity311.agents.forward import SAVES, part_of
from parity311.explain.estimators import (
    N_PERMUTATIONS,
    Agreement,
    compare_explainers,
    explain_as_named,
    explainer_of_paper,
    measure_agreement,
    permutation_shapley,
)
from parity311.explain.exact import Attribution, exact_shapley
from parity311.explain.games import Policy, check_rows, is_priced, n_layers, score_rows
from parity311.explain.gap_parts import GapParts, split_gap
from parity311.explain.inputs import ExplainInputs
from parity311.mdp.contract import COVERAGE_FEATURE


@dataclass(frozen=True)
class WithoutFeature:
    """The gap between two groups with and without a feature."""

    feature: str
    gap: float
    gap_without: float
    """With the feature drawn from the background for everybody."""
    mean_change: float
    """Mean absolute change of the score: what taking it out costs in sharpness."""


def take_out(
    policy: Policy,
    rows: np.ndarray,
    background: np.ndarray,
    *,
    action: int,
    in_group: np.ndarray,
    in_reference: np.ndarray,
    feature_names: Sequence[str],
) -> tuple[WithoutFeature, ...]:
    """Take each feature out of the policy in hand, one at a time, without training again."""
    rows, background = check_rows(rows, background)
    scores = score_rows(policy, rows)[:, action]
    gap = float(scores[in_group].mean() - scores[in_reference].mean())
    found = []
    for i, name in enumerate(feature_names):
        mixed = np.repeat(rows[:, None], len(background), axis=1)
        mixed[:, :, i] = background[None, :, i]
        without = score_rows(policy, mixed.reshape(-1, rows.shape[1]))[:, action]
        without = without.reshape(len(rows), -1).mean(axis=1)
        found.append(
            WithoutFeature(
                name,
                gap,
                float(without[in_group].mean() - without[in_reference].mean()),
                float(np.abs(without - scores).mean()),
            )
        )
    return tuple(found)


Tell = Callable[[str], None]
"""Says a line to whoever waits."""
MAX_ROWS = 2000
"""Rows explained of one policy; beyond, a fixed sample is taken."""
MAX_EVALUATIONS = 3e7
"""Evaluations of the network spent on one policy, some five seconds of two cores."""
MAX_EXACT_FEATURES = 12
"""Features up to which all coalitions are played; beyond, permutations with their error."""
MAX_AGREEMENT_ROWS = 64
MAX_NAMED_ROWS = 256
"""Rows that the explainer named in the paper explains too."""
LOW, HIGH = (1, 2), (4, 5)
"""Income quintiles compared: the paper's low and high strata."""


@dataclass(frozen=True)
class PolicyExplanation:
    """Everything said about one policy."""

    inputs: ExplainInputs
    attribution: Attribution
    action: str
    """The action whose score is split: the escalating one that is chosen most."""
    importance: tuple[dict[str, Any], ...]
    gap: GapParts | None
    """None where one of the two income groups has no row."""
    without: tuple[WithoutFeature, ...]
    agreement: tuple[Agreement, ...]
    named: NamedExplanation | None = None
    """By the explainer the paper names for the domain; None where it names none."""


@dataclass(frozen=True)
class NamedExplanation:
    """What the explainer that the paper names says, beside ours on the same rows."""

    agreement: Agreement
    """how far apart the two are, and what the named one is"""
    n_rows: int
    importance: tuple[dict[str, Any], ...]
    """by feature, the heaviest first: mean size by the named explainer, by ours, and the
    difference"""


def explain_policies(
    inputs: Sequence[ExplainInputs], tell: Tell = lambda line: None
) -> list[PolicyExplanation]:
    """Explain policies one by one, and say which before each: it takes seconds to minutes."""
    explained = []
    for number, one in enumerate(inputs, start=1):
        name = ", ".join(filter(None, (one.domain, one.setting, one.policy)))
        tell(f"explaining {name} ({number} of {len(inputs)})")
        explained.append(explain_policy(one))
    return explained


def explain_policy(inputs: ExplainInputs, *, seed: int = 0) -> PolicyExplanation:
    """Explain one policy: importance, gap by feature, proxies, agreement of explainers."""
    inputs = _sample(inputs, seed)
    attribution = attribute(inputs, seed=seed).centred()
    action = _main_action(inputs)
    low, high = (np.isin(inputs.income_quintile, group) for group in (LOW, HIGH))
    gap, without = None, ()
    if low.any() and high.any():
        gap = _split(inputs, attribution, action, low, high, seed)
        without = take_out(
            _centred_policy(inputs),
            inputs.rows,
            inputs.background,
            action=action,
            in_group=low,
            in_reference=high,
            feature_names=inputs.feature_names,
        )
    size = np.abs(attribution.values).mean(axis=0)
    importance = tuple(
        {
            "feature": name,
            "is_geographic": name in inputs.geographic,
            "importance": float(size[i].mean()),
            "for_action": float(size[i, action]),
        }
        for i, name in enumerate(inputs.feature_names)
    )
    some = slice(0, MAX_AGREEMENT_ROWS)
    return PolicyExplanation(
        inputs=inputs,
        attribution=attribution,
        action=inputs.action_names[action],
        importance=tuple(sorted(importance, key=lambda row: -row["importance"])),
        gap=gap,
        without=without,
        # Agreement is measured against exact values, so it ends where they do.
        agreement=(
            compare_explainers(inputs.network, inputs.rows[some], inputs.background)
            if is_exact(inputs)
            else ()
        ),
        named=explain_by_name(inputs, attribution, explainer_of_paper(inputs.domain)),
    )


def explain_by_name(
    inputs: ExplainInputs, ours: Attribution, explainer: str
) -> NamedExplanation | None:
    """Explain with the explainer of this name, and set ours (centred, of all rows) beside it."""
    if not explainer:
        return None
    n_rows = min(len(inputs.rows), MAX_NAMED_ROWS)
    found, note = explain_as_named(
        inputs.network, inputs.rows[:n_rows], inputs.background, inputs.rows, explainer
    )
    named = found.centred()
    same = Attribution(ours.values[:n_rows], ours.base, ours.scores[:n_rows])
    sizes = [np.abs(one.values).mean(axis=(0, 2)) for one in (named, same)]
    rows = [
        {"feature": name, "named": float(theirs), "ours": float(own), "apart": float(theirs - own)}
        for name, theirs, own in zip(inputs.feature_names, *sizes, strict=True)
    ]
    return NamedExplanation(
        measure_agreement(explainer, named, same, note),
        n_rows,
        tuple(sorted(rows, key=lambda row: -row["named"])),
    )


def is_exact(inputs: ExplainInputs) -> bool:
    """Whether all coalitions of a policy's features are played."""
    return len(inputs.feature_names) <= MAX_EXACT_FEATURES


def attribute(inputs: ExplainInputs, *, seed: int = 0, precision: str = "float64") -> Attribution:
    """Shapley values of a policy's rows: exact where features are few, else by permutations."""
    if is_exact(inputs):
        return exact_shapley(inputs.network, inputs.rows, inputs.background, precision=precision)
    return permutation_shapley(inputs.network, inputs.rows, inputs.background, seed=seed)


def _centred_policy(inputs: ExplainInputs):
    def score(rows: np.ndarray) -> np.ndarray:
        scores = score_rows(inputs.network, rows)
        return scores - scores.mean(axis=1, keepdims=True)

    return score


def _split(
    inputs: ExplainInputs,
    attribution: Attribution,
    action: int,
    low: np.ndarray,
    high: np.ndarray,
    seed: int,
) -> GapParts:
    return split_gap(
        attribution,
        inputs.rows,
        action=action,
        action_name=inputs.action_names[action],
        in_group=low,
        in_reference=high,
        group="low income (quintiles 1 and 2)",
        reference="high income (quintiles 4 and 5)",
        tract=np.unique(inputs.tract, return_inverse=True)[1],
        severity=np.unique(inputs.severity, return_inverse=True)[1],
        feature_names=inputs.feature_names,
        geographic=inputs.geographic,
        seed=seed,
    )


def find_top_proxy(inputs: ExplainInputs, *, only_clear: bool = False, seed: int = 0) -> str | None:
    """The feature with the largest proxy score, the coverage price left out; None without one.

    The price is there to follow the groups, so dropping it is no question. With ``only_clear`` the
    score must be clear of what is flagged.
    """
    inputs = _sample(inputs, seed)
    low, high = (np.isin(inputs.income_quintile, group) for group in (LOW, HIGH))
    if not (low.any() and high.any()):
        return None
    # Only the order of the features is asked for, which a millionth does not move.
    attribution = attribute(inputs, seed=seed, precision="float32").centred()
    parts = _split(inputs, attribution, _main_action(inputs), low, high, seed)
    some = [
        f
        for f in parts.features
        if f.feature != COVERAGE_FEATURE and (f.is_proxy if only_clear else f.proxy_score > 0)
    ]
    return some[0].feature if some else None


def _sample(inputs: ExplainInputs, seed: int) -> ExplainInputs:
    """At most as many rows as the evaluations allow, distinct observations counted once."""
    n_features = len(inputs.feature_names)
    walks = 2 * N_PERMUTATIONS * n_features
    per_row = (2**n_features if is_exact(inputs) else walks) * len(inputs.background)
    order = np.random.default_rng(seed).permutation(len(inputs.rows))
    is_new = np.zeros(len(order), bool)
    is_new[np.unique(inputs.rows[order], axis=0, return_index=True)[1]] = True
    affordable = np.cumsum(is_new) <= max(MAX_EVALUATIONS // per_row, 50)
    keep = np.sort(order[affordable][:MAX_ROWS])
    return inputs if len(keep) == len(inputs.rows) else take_rows(inputs, keep)


def take_rows(inputs: ExplainInputs, rows: np.ndarray) -> ExplainInputs:
    """The same policy with these rows only."""
    names = ("rows", "tract", "severity", "income_quintile", "complaint_id")
    return ExplainInputs(**{**vars(inputs), **{name: vars(inputs)[name][rows] for name in names}})


def _main_action(inputs: ExplainInputs) -> int:
    chosen = np.bincount(
        score_rows(inputs.network, inputs.rows).argmax(axis=1), minlength=len(inputs.action_names)
    )
    allowed = [i for i, name in enumerate(inputs.action_names) if name in inputs.escalating]
    options = allowed or list(range(len(inputs.action_names)))
    return max(options, key=lambda i: (chosen[i], -i))


def layer_sizes(inputs: ExplainInputs) -> list[int]:
    """Units of a policy's network, inputs and outputs included; of each of two alike."""
    network = inputs.network
    own = part_of(network, SAVES) if is_priced(network) else network
    shapes = [np.shape(own[f"weight_{i}"]) for i in range(n_layers(own))]
    return [len(inputs.feature_names), *(int(shape[1]) for shape in shapes)]
