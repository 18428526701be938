"""Explain a run: what drives its policies, what stands in for who lives there, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.audit_run import repeat_data
from parity311.errors import InputError, unknown_name
from parity311.explain.estimators import (
    N_PERMUTATIONS,
    Agreement,
    compare_explainers,
    explainer_of_paper,
    permutation_shapley,
)
from parity311.explain.exact import Attribution, exact_shapley
from parity311.explain.games import n_layers, score_rows
from parity311.explain.gap_parts import FeatureShare, GapParts, split_gap
from parity311.explain.page import write_page
from parity311.explain.phrases import translation
from parity311.explain.reasons import Explanation, explain_decision, write_notice
from parity311.explain.stored import ExplainInputs, load_policies, load_variants
from parity311.explain.variants import WithoutFeature, take_out
from parity311.mdp.contract import COVERAGE_FEATURE
from parity311.runs.folder import Run
from parity311.runs.store import start_run
from parity311.runs.strict_json import to_json

Tell = Callable[[str], None]
"""Says a line to whoever waits."""
PAGE = "explain.html"
FIGURES_FILE = "explain.json"
ANY = "any"
"""In place of a complaint's id: the first of those that were kept."""
MAX_ROWS = 2000
"""Rows explained of one policy; beyond, a fixed sample is taken."""
MAX_EVALUATIONS = 3e7
"""Evaluations of the network spent on one policy, some five seconds of two cores."""
MAX_EXACT_FEATURES = 12
"""Features up to which all coalitions are played; beyond, permutations with their error."""
MAX_AGREEMENT_ROWS = 64
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
    )


def is_exact(inputs: ExplainInputs) -> bool:
    """Whether all coalitions of a policy's features are played."""
    return len(inputs.feature_names) <= MAX_EXACT_FEATURES


def attribute(inputs: ExplainInputs, *, seed: int = 0) -> Attribution:
    """Shapley values of a policy's rows: exact where features are few, else by permutations."""
    if is_exact(inputs):
        return exact_shapley(inputs.network, inputs.rows, inputs.background)
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
    attribution = attribute(inputs, seed=seed).centred()
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


def explain_complaint(
    inputs: Sequence[ExplainInputs], complaint_id: str
) -> tuple[ExplainInputs, Explanation]:
    """Explain the decision on one complaint; an unknown one is an error with the nearest ids."""
    if complaint_id == ANY:
        complaint_id = str(inputs[0].complaint_id[0])
    for one in inputs:
        found = np.flatnonzero(one.complaint_id == complaint_id)
        if len(found):
            mine = take_rows(one, found[:1])
            attribution = attribute(mine)
            explanation = explain_decision(
                mine.network,
                attribution,
                mine.rows[0],
                0,
                mine.background,
                feature_names=mine.feature_names,
                action_names=mine.action_names,
                geographic=mine.geographic,
                domain=mine.domain,
            )
            return mine, explanation
    known = [str(name) for one in inputs for name in one.complaint_id]
    known = list(dict.fromkeys(known))
    near = get_close_matches(complaint_id, known, n=3, cutoff=0.3) or known[:3]
    raise InputError(
        f"No complaint {complaint_id!r} is among the {len(known):,} of the test period that this "
        f"run kept; the nearest are {', '.join(near)}."
    )


def explain_run(
    source: Run,
    *,
    root: Path,
    domains: Sequence[str] | None = None,
    policy: str | None = None,
    complaint: str | None = None,
    language: str = "en",
    contact: str = "",
    appeal: str = "",
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Explain what a run kept and write explain.html, explain.json and tables as a run.

    With ``complaint`` nothing is written: the reasons for that one decision are returned.
    """
    translation(language)
    kept = load_policies(source)
    inputs = [one for one in kept if not domains or one.domain in domains]
    if not inputs:
        have = ", ".join(dict.fromkeys(one.domain for one in kept))
        raise InputError(
            f"Run {source.id} keeps no policy of {', '.join(domains or ())}; it has {have}."
        )
    if policy is not None:
        names = list(dict.fromkeys(one.policy for one in inputs))
        if policy not in names:
            raise unknown_name("policy", policy, names)
        inputs = [one for one in inputs if one.policy == policy]
    if complaint is not None:
        mine, found = explain_complaint(inputs, complaint)
        notice = write_notice(found, language=language, contact=contact, appeal=appeal)
        return {
            "run": source.id,
            "complaint": str(mine.complaint_id[0]),
            "domain": mine.domain,
            "policy": mine.policy,
            **asdict(found),
            "notice": notice,
        }
    with start_run(root, f"explain {source.id}", {"run": source.id}) as run:
        repeat_data(run, source)
        with run.stage("explain"):
            explained = explain_policies(inputs, tell)
        variants = [row for row in load_variants(source) if not domains or row["domain"] in domains]
        plain = {
            "policies": [explanation_to_plain(one) for one in explained],
            "variants": variants,
        }
        run.set_report(write_page(run, explained, variants))
        (run.path / FIGURES_FILE).write_text(to_json(plain), encoding="utf-8")
        run.add_metrics(plain)
        page = run.name_page(PAGE)
    return {"explanation": run.id, "run": source.id, "page": str(page), **plain}


def layer_sizes(inputs: ExplainInputs) -> list[int]:
    """Units of a policy's network, inputs and outputs included."""
    shapes = [np.shape(inputs.network[f"weight_{i}"]) for i in range(n_layers(inputs.network))]
    return [int(shapes[0][0]), *(int(shape[1]) for shape in shapes)]


def flag_row(feature: FeatureShare) -> dict[str, Any]:
    """A flagged feature with its proxy score and the reason."""
    return {
        "feature": feature.feature,
        "reason": feature.note,
        "proxy_score": feature.proxy_score,
        "lower": feature.proxy_lower,
        "upper": feature.proxy_upper,
    }


def explanation_to_plain(one: PolicyExplanation) -> dict[str, Any]:
    """One policy's explanation as nested plain values."""
    return {
        "domain": one.inputs.domain,
        "setting": one.inputs.setting,
        "policy": one.inputs.policy,
        "features": list(one.inputs.feature_names),
        "geographic": list(one.inputs.geographic),
        "layers": layer_sizes(one.inputs),
        "n_rows": len(one.inputs.rows),
        "n_background": len(one.inputs.background),
        "action": one.action,
        "explainer": "exact" if is_exact(one.inputs) else "permutation",
        "explainer_named_in_the_paper": explainer_of_paper(one.inputs.domain),
        "importance": list(one.importance),
        "gap": None if one.gap is None else asdict(one.gap),
        "flagged": [flag_row(f) for f in one.gap.features if f.is_flagged] if one.gap else [],
        "without_feature": [asdict(row) for row in one.without],
        "agreement": [asdict(row) for row in one.agreement],
    }
