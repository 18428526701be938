"""The facts that documents are filled with, each from the run's folder.

An impact table in the form of New York's Local Law 144: rates and ratios by category.

That law is about hiring; its table has become the form in which people expect such figures. The
four-fifths line is a convention from there, not a standard of service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parity311.audit.assess import DomainAudit
from parity311.audit.cells import AuditInputs
from parity311.audit.rates import make_resample, rates_under
from parity311.audit.spec import AuditSpec
from parity311.audit.strata import UNKNOWN, Grouping, income_quintiles, race_majority
from parity311.domains import all_domains
from parity311.evaluation.titles import policy_title
from parity311.mdp.contract import REWARD_NAMES, Domain
from parity311.number_text import format_interval, format_value, is_missing
from parity311.report.audit_words import describe_limit, state_finding
from parity311.report.folder import Run

SMALL_SHARE = 0.02
"""Categories below this share of cases may be left out under the rule; here they are marked."""
FOUR_FIFTHS = 0.8
"""Convention of 29 CFR 1607.4(D)."""


def impact_rows(inputs: AuditInputs, spec: AuditSpec) -> list[dict[str, Any]]:
    """Selection rate and impact ratio of income groups, majority groups and their intersection."""
    income, race = income_quintiles(inputs.places), race_majority(inputs.places)
    rows: list[dict[str, Any]] = []
    for grouping in (income, race, intersect(income, race)):
        rng = np.random.default_rng(spec.seed)
        resample = make_resample(inputs, spec.n_draws, rng)
        drawn = rates_under(inputs, grouping, "cases", resample, rng)
        if isinstance(drawn, str):
            continue
        lower, upper = drawn.interval(spec.level)
        total = drawn.out_of.sum()
        large = grouping.compared & (drawn.out_of >= spec.minimum_events)
        large &= drawn.out_of >= SMALL_SHARE * total
        best = np.nanmax(np.where(large, drawn.rates, np.nan)) if large.any() else np.nan
        for k, label in enumerate(grouping.labels):
            n = drawn.out_of[k]
            if n == 0:
                continue
            hidden = n < spec.minimum_events
            ratio = float("nan") if hidden or not best > 0 else float(drawn.rates[k] / best)
            rows.append(
                {
                    "domain": inputs.domain,
                    "setting": inputs.setting,
                    "by": grouping.name,
                    "category": label,
                    "n_cases": None if hidden else int(n),
                    "n_selected": None if hidden else int(drawn.events[k]),
                    "selection_rate": float("nan") if hidden else float(drawn.rates[k]),
                    "lower": float("nan") if hidden else float(lower[k]),
                    "upper": float("nan") if hidden else float(upper[k]),
                    "impact_ratio": ratio,
                    "below_four_fifths": bool(ratio < FOUR_FIFTHS),
                    "note": _note(label, n, total, hidden, spec),
                }
            )
    return rows


def _note(label: str, n: float, total: float, hidden: bool, spec: AuditSpec) -> str:
    if hidden:
        return f"fewer than {spec.minimum_events} cases: not published"
    if UNKNOWN in label:
        return "category unknown"
    return "under 2 % of cases" if n < SMALL_SHARE * total else ""


def intersect(first: Grouping, second: Grouping) -> Grouping:
    """Every pair of two groupings of tracts."""
    if first.of_tract is None or second.of_tract is None:
        raise ValueError("only groupings of tracts can be intersected")
    labels = tuple(f"{a} · {b}" for a in first.labels for b in second.labels)
    compared = (first.compared[:, None] & second.compared[None, :]).ravel()
    index = first.of_tract * second.n_strata + second.of_tract
    return Grouping(f"{first.name} × {second.name}", labels, compared, of_tract=index)


MEANINGS = {
    "speed": "severity-weighted complaint-days avoided",
    "cost": "inspector hours, counted against",
    "equity": "equal correct escalations per incident across strata",
    "retention": "dwelling-unit days kept habitable",
}
NOT_SHOWN = ("always", "never", "random", "batch_all", "static_thresholds")
"""Rules of the comparison that nobody proposes; the run's own page has them."""
UNCORRECTED = "raw"
"""Estimator that counts complaints and adds nothing."""
SHOWN_METRICS = ("reward", "recall", "precision", "coverage_gap", "share_of_way")


def collect_facts(
    run: Run,
    audits: Sequence[DomainAudit],
    spec: AuditSpec,
    explained: Sequence[dict[str, Any]],
) -> dict[str, str]:
    """Every fact a document may ask for; one that the run does not hold is left out."""
    facts = {
        **_run_facts(run),
        **_domain_facts(run),
        **_result_facts(run, audits, spec),
        **_fixed_facts(),
        **_correction_facts(run),
    }
    flagged = [
        f"{one['domain']}, {policy_title(one['policy'])}: {_flag_words(one) or 'none flagged'}"
        for one in explained
    ]
    if flagged:
        facts["proxies"] = "; ".join(flagged)
    # What the run's own policies look at and are comes before what the domain could offer.
    facts |= _policy_facts(explained)
    return {key: value for key, value in facts.items() if value}


def _policy_facts(explained: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Inputs, place features and kind of the policies that the run kept, one entry a policy."""
    first = {(one["domain"], one["policy"]): one for one in reversed(explained)}
    policies = list(reversed(first.values()))
    if not policies:
        return {}

    def each(text: Callable[[dict[str, Any]], str]) -> str:
        return "; ".join(
            f"{one['domain']}, {policy_title(one['policy'])}: {text(one)}" for one in policies
        )

    return {
        "features": each(lambda one: ", ".join(one["features"])),
        "geographic": each(lambda one: ", ".join(one["geographic"]) or "none"),
        "algorithms": each(
            lambda one: f"network of {'-'.join(str(n) for n in one['layers'])} units, ReLU"
        ),
    }


def _flag_words(policy: dict[str, Any]) -> str:
    """Flagged features with their proxy scores and reasons."""
    return ", ".join(
        f"{flag['feature']} (proxy score {flag['proxy_score']:.2f}; {flag['reason']})"
        for flag in policy["flagged"]
    )


def _run_facts(run: Run) -> dict[str, str]:
    info = run.info
    data = info.get("data", [])
    commit = (info.get("git") or {}).get("commit", "")
    synthetic = [entry for entry in data if entry.get("is_synthetic")]
    windows = run.metrics.get("audit_windows", [])
    return {
        "run_id": run.id,
        "made_at": str(info.get("created_at", ""))[:10],
        "software": f"parity311 {info['versions'].get('parity311', '')}"
        + (f", commit {commit[:12]}" if commit else ""),
        "data": "; ".join(filter(None, (str(e.get("statement", "")) for e in data)))
        + (" Synthetic: not the city's records." if synthetic else ""),
        "fingerprints": "; ".join(f"{e['name']} {e['fingerprint'][:16]}" for e in data),
        "evaluation_data": "; ".join(
            f"{w['domain']} ({w['setting'] or w['policy']}): {w['date_from']} to {w['date_to']}"
            for w in windows
        ),
        "training_data": "The records before the evaluation dates; features use only what was "
        "known at each decision.",
        "tool_name": "parity311 complaint routing",
        "description": "Recommends what to do with each incoming municipal complaint, with "
        "equitable coverage as an objective of its own.",
        "purpose": "Reach more of the incidents that need a visit with the same inspectors, and "
        "equally across neighbourhoods.",
    }


def _run_domains(run: Run) -> list[Domain]:
    known = all_domains()
    named = [row["domain"] for row in run.metrics.get("comparisons", [])]
    named += [row["domain"] for row in run.metrics.get("audit_windows", [])]
    return [known[name] for name in dict.fromkeys(named) if name in known]


def _domain_facts(run: Run) -> dict[str, str]:
    domains = _run_domains(run)
    config = run.config

    def each(text: Any) -> str:
        return "; ".join(f"{d.slug}: {value}" for d in domains if (value := text(d)))

    return {
        "decisions": each(lambda d: d.decision),
        "not_for": each(lambda d: d.not_for),
        "collection": each(lambda d: d.source),
        "actions": each(lambda d: ", ".join(action.name for action in d.actions)),
        "features": each(lambda d: ", ".join(d.observation_names)),
        "geographic": each(lambda d: ", ".join(d.geographic_features)),
        "algorithms": each(lambda d: ", ".join(d.agents)),
        "baselines": each(lambda d: ", ".join(d.heuristics)),
        "reward_weights": each(lambda d: _weights(config, d.preference)),
    }


def _weights(config: dict[str, Any], preference: Sequence[float]) -> str:
    """The weights agents were trained with: without equity, and where there was one with it."""
    weight = config.get("equity_weight")
    if weight is None:
        return ""
    plain = dict(zip(REWARD_NAMES, preference, strict=True))
    paid = {name: value * (1 - weight) for name, value in plain.items()} | {"equity": weight}
    told = [
        ", ".join(f"{name} {value:g}" for name, value in weights.items() if value)
        for weights in (plain, paid)
    ]
    return f"agents without an equity weight ({told[0]}) and with one ({told[1]})"


def _result_facts(run: Run, audits: Sequence[DomainAudit], spec: AuditSpec) -> dict[str, str]:
    rows = []
    for comparison in run.metrics.get("comparisons", []):
        is_real = comparison.get("is_real", False)
        named = ("domain",) if is_real else ("domain", "participation", "capacity")
        where = ", ".join(str(comparison[name]) for name in named if comparison.get(name))
        # A gap that divides by incidents known only within a factor is no figure.
        hidden = {"coverage_gap"} if is_real and comparison.get("is_wide") else set()
        for policy in comparison.get("policies", []):
            if policy["policy"] in NOT_SHOWN:
                continue
            shown = [name for name in SHOWN_METRICS if name not in hidden]
            figures = [_figure(name, policy.get(name)) for name in shown]
            title = policy_title(policy["policy"])
            rows.append(f"{where}, {title}: {', '.join(filter(None, figures))}")
    verdicts = [
        f"{audit.domain}{', ' + audit.setting if audit.setting else ''}: "
        + state_finding(verdict, spec)
        for audit in audits
        for verdict in audit.verdicts
        if verdict.strata == spec.primary_strata
    ]
    counts = [
        f"{audit.domain}{', ' + audit.setting if audit.setting else ''}: "
        f"{audit.n_complaints:,.0f} complaints, {audit.n_cases:,.0f} cases"
        for audit in audits
    ]
    return {
        "results": "; ".join(rows),
        "verdicts": " ".join(verdicts),
        "data_counts": "; ".join(counts),
        "audit_rule": describe_limit(spec).replace("**", ""),
    }


def _figure(name: str, value: Any) -> str:
    if isinstance(value, dict):
        if is_missing(value.get("value")):
            return ""
        interval = format_interval(value.get("lower"), value.get("upper"))
        text = format_value(value["value"])
        return f"{name.replace('_', ' ')} {text}" + (f" ({interval})" if interval else "")
    return "" if is_missing(value) else f"{name.replace('_', ' ')} {format_value(value)}"


def _fixed_facts() -> dict[str, str]:
    """What holds for every run, because the software works that way."""
    terms = "; ".join(f"{name}: {MEANINGS[name]}" for name in REWARD_NAMES)
    return {
        "output_use": "A recommendation to intake staff, who decide; it can be set aside, and "
        "overrides are audited.",
        "strata": "Income quintiles of census tracts; Black and Hispanic share and majority group "
        "of tracts; language and channel of the complaint. Race is used in the audit only.",
        "metrics": "Reward, recall, precision, coverage of actionable incidents by stratum, and "
        "the share of the way from today's rule to the exact or the best known policy, each with "
        "an interval over test episodes.",
        "reward_terms": terms,
        "equity_term": "A price of coverage per income stratum that rises while the stratum is "
        "behind; a correct escalation there earns it. An unserved incident counts against its "
        "stratum.",
        "reward_strata": "Income quintiles of census tracts.",
        "training_attributes": "Income quintile of the tract, through the coverage price only; no "
        "race, language or other attribute of a person.",
        "personal": "No names, telephone numbers or free text are kept; places are census tracts "
        "and building numbers.",
        "missing": "Incidents nobody reported leave no record, and outcomes are known only where "
        "somebody looked; both are estimated and audited, not assumed away.",
        "ethics": "Complaints show who reports, not only what happens. An inspection can be a "
        "service or a burden. Equal rates can be reached by serving some less: the results say "
        "which way a gap closed.",
    }


def _correction_facts(run: Run) -> dict[str, str]:
    """What was done about incidents nobody reported in this run, and what follows from its data."""
    blocks = [one for one in run.metrics.get("comparisons", []) if one.get("estimator")]
    said = "; ".join(dict.fromkeys(_say_correction(block) for block in blocks))
    caveats = (
        "Audits say nothing about groups that are too small to judge. Severity codes are assigned "
        "at intake and may themselves be unequal."
    )
    if any(entry.get("is_synthetic") for entry in run.info.get("data", [])):
        caveats = f"A synthetic city is a model, not the record of any real place. {caveats}"
    return {
        "preprocessing": f"Duplicates are linked to their incident where they are marked. {said}."
        if said
        else "Duplicates are linked to their incident where they are marked.",
        "caveats": caveats,
    }


def _say_correction(block: dict[str, Any]) -> str:
    name = block["domain"].replace("_", " ")
    if block["estimator"] == UNCORRECTED:
        failed = " ".join(block.get("failed_estimators", {}).values())
        return (
            f"{name}: complaints stand for incidents, and incidents nobody reported are not counted"
            + (f" ({failed.rstrip('.')})" if failed else "")
        )
    return (
        f"{name}: incidents nobody reported are added by {block['estimator']} "
        f"({block['assumptions'].rstrip('.')})"
    )
