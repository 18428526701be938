"""Explain a run: what drives its policies, what stands in for who lives there, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError, unknown_name
from parity311.explain.estimators import (
    explainer_of_paper,
)
from parity311.explain.gap_parts import FeatureShare
from parity311.explain.inputs import ExplainInputs
from parity311.explain.phrases import translation
from parity311.explain.policy import (
    PolicyExplanation,
    Tell,
    attribute,
    explain_policies,
    is_exact,
    layer_sizes,
    take_rows,
)
from parity311.explain.reasons import Explanation, explain_decision, write_notice
from parity311.pipelines.audit import repeat_data
from parity311.report.explain_inputs import load_policies, load_variants
from parity311.report.explain_page import write_page
from parity311.report.folder import Run
from parity311.report.store import start_run
from parity311.storage.strict_json import to_json

PAGE = "explain.html"
FIGURES_FILE = "explain.json"
ANY = "any"
"""In place of a complaint's id: the first of those that were kept."""


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
    named = explainer_of_paper(one.inputs.domain)
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
        "explainer_named_in_the_paper": named,
        "importance": list(one.importance),
        "gap": None if one.gap is None else asdict(one.gap),
        "flagged": [flag_row(f) for f in one.gap.features if f.is_flagged] if one.gap else [],
        "without_feature": [asdict(row) for row in one.without],
        "agreement": [asdict(row) for row in one.agreement],
        "by_the_papers_explainer": None if one.named is None else asdict(one.named),
    }
