"""Audit a run: from its folder alone, into a run of its own.

The paper's own gate, labelled as such, so that its behaviour can be shown.

Calibration step 5: suspend where max |e_i − e_j| > τ over strata, with e = n / N̂ (Eq. 10). N̂ sums
C/ρ̂ over tracts (Eq. 5 and 6) in a window of four weeks; ρ̂ = 1 − D/C (Eq. 3) in tracts with at
least m_min = 10 duplicates in it, the logistic proxy of Eq. 4 in the others, fitted on tracts where
duplicates are observed; Î is C where ρ̂ < 0.05. Beside it stands the 5th to 95th percentile of
B = 200 normal draws of ρ̂.

Neither is a test: with 500 incidents a stratum at a rate of one half the gate suspends equal
service half of the time, and a percentile interval of a largest difference lies above zero whatever
is true. One reading is ours: the paper divides the escalations of a single step by the need of four
weeks, which is near zero whatever happens; here service is counted over the same four weeks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.assess import assess_domains, audit_to_plain, verdict_row
from parity311.audit.cells import AuditInputs
from parity311.audit.episodes import EpisodeInputs, assess_episodes
from parity311.audit.gap import TAU
from parity311.audit.simulate import compare_rules
from parity311.audit.spec import AuditSpec, write_spec
from parity311.audit.strata import STRATA_OF_TRACTS, make_grouping
from parity311.errors import InputError
from parity311.pipelines.overrides import Recommendation, assess_overrides
from parity311.records.strata import INCOME
from parity311.report.audit_inputs import load_episodes, load_inputs, restrict
from parity311.report.audit_page import write_page
from parity311.report.folder import Run
from parity311.report.store import RunWriter, start_run
from parity311.reporting.as_published import clipped_factor, measure_propensity, proxy_design
from parity311.storage.strict_json import to_json

N_DRAWS = 200
"""Draws of the published parametric bootstrap."""


@dataclass(frozen=True)
class PublishedGate:
    """What the paper's calibration step 5 says of one window."""

    largest_gap: float
    is_suspended: bool
    """Whether the point estimate is beyond tau."""
    lower: float
    """5th percentile of the largest gap over the draws of the propensity."""
    upper: float
    """95th percentile."""


def published_gate(
    served: np.ndarray,
    complaints: np.ndarray,
    repeats: np.ndarray,
    design: np.ndarray,
    membership: np.ndarray,
    *,
    tau: float = TAU,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> PublishedGate:
    """Apply the paper's audit to the counts of one window of four weeks.

    Parameters
    ----------
    served, complaints, repeats
        (n_tracts,) n, C and D.
    design
        (n_tracts, columns) x of Eq. 4, from `parity311.reporting.as_published.proxy_design`.
    membership
        (n_tracts, K) one where a tract belongs to a stratum.
    """
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau is {tau}; it must lie between 0 and 1, 0.05 is usual.")
    some = complaints > 0
    if not some.any():
        nan = float("nan")
        return PublishedGate(nan, False, nan, nan)
    rows = measure_propensity(complaints[some], repeats[some], design[some])
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n_draws, int(some.sum())))
    drawn = (
        [rows.draw(one, None) for one in noise]
        if rows.proxy is None
        else map(rows.draw, noise, rows.proxy.draw(n_draws, rng))
    )
    factors = np.stack([clipped_factor(rows.value), *map(clipped_factor, drawn)])
    need = (complaints[some] * factors) @ membership[some]
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(need > 0, (served @ membership) / need, np.nan)
    gaps = np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)
    lower, upper = np.quantile(gaps[1:], [0.05, 0.95])
    return PublishedGate(float(gaps[0]), bool(gaps[0] > tau), float(lower), float(upper))


PAGE = "audit.html"
SPEC_FILE = "audit_spec.toml"
FIGURES_FILE = "audit.json"
N_RULE_TRIALS = 200
"""Simulated cities a row of the comparison of rules: the error of a share is below 3.6 points."""


def audit_run(
    source: Run,
    spec: AuditSpec = AuditSpec(),
    *,
    root: Path = Path("runs"),
    domains: Sequence[str] | None = None,
    with_rules: bool = False,
    n_rule_trials: int = N_RULE_TRIALS,
    overrides: Sequence[Recommendation] = (),
) -> dict[str, Any]:
    """Audit what a run kept and write audit.html, audit.json and tables as a run of its own.

    ``overrides`` is a log of what staff did with recommendations (`parity311.pipelines.overrides`).

    Examples
    --------
    >>> first = parity311.open_run("latest", "kept")
    >>> found = parity311.audit_run(first, domains=["heat"])
    >>> found["domains"][0]["domain"]
    'heat'
    """
    if spec.date_from or spec.date_to:
        raise InputError(
            "A run is audited over the dates it kept; the specification names others. Leave "
            "date_from and date_to out, or audit the records folder instead."
        )
    inputs = restrict(load_inputs(source), domains)
    episodes = [one for one in load_episodes(source) if not domains or one.domain in domains]
    found = write_audit(
        inputs,
        episodes,
        spec,
        root=root,
        command=f"audit {source.id}",
        config={"run": source.id, "spec": spec, "spec_sha256": spec.sha256},
        add_data=lambda run: repeat_data(run, source),
        with_rules=with_rules,
        n_rule_trials=n_rule_trials,
        overrides=overrides,
    )
    return {**found, "run": source.id}


def write_audit(
    inputs: Sequence[AuditInputs],
    episodes: Sequence[EpisodeInputs],
    spec: AuditSpec,
    *,
    root: Path,
    command: str,
    config: dict[str, Any],
    add_data: Callable[[RunWriter], None],
    with_rules: bool = False,
    n_rule_trials: int = N_RULE_TRIALS,
    overrides: Sequence[Recommendation] = (),
    estimates: Mapping[str, str] | None = None,
    package: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Judge inputs and write page, figures and tables as a run.

    The specification is written, with its hash, before anything is measured. ``estimates`` says by
    domain how incidents were estimated, where that is known; ``package`` names the one policy that
    was played, where it is one (by its `seal`).
    """
    with start_run(root, command, config) as run:
        (run.path / SPEC_FILE).write_text(write_spec(spec), encoding="utf-8")
        add_data(run)
        run.set_seeds(audit=spec.seed)
        with run.stage("audit"):
            audits = assess_domains(inputs, spec)
            played = [assess_episodes(one, spec) for one in episodes]
            changed = assess_overrides(overrides, inputs, spec) if overrides else []
        rules, published = [], []
        if with_rules:
            with run.stage("rules compared"):
                rules = compare_rules(n_trials=n_rule_trials, tau=spec.tau)
                by_place = [name for name in spec.strata if name in STRATA_OF_TRACTS]
                published = [
                    apply_published(one, spec, name) for one in inputs for name in by_place
                ]
        run.set_report(
            write_page(
                run,
                audits,
                played,
                spec,
                rules=rules,
                published=published,
                inputs=inputs,
                estimates=estimates,
                overrides=changed,
            )
        )
        plain = audit_to_plain(audits, spec)
        plain["policies"] = [verdict_row(v) for one in played for v in one.verdicts]
        plain |= {"rules": rules, "as_published": published, "overrides": changed}
        if package is not None:
            plain["package"] = dict(package)
        (run.path / FIGURES_FILE).write_text(to_json(plain), encoding="utf-8")
        run.add_metrics(plain)
        page = run.name_page(PAGE)
    return {"audit": run.id, "page": str(page), **plain}


def apply_published(inputs: AuditInputs, spec: AuditSpec, strata: str = INCOME) -> dict[str, Any]:
    """What the paper's own gate says of the same cases, by groups of tracts, every four weeks.

    The figures are those of the last window whose service levels have all passed.
    """
    named = {"domain": inputs.domain, "setting": inputs.setting, "strata": strata}
    windows, places = inputs.windows, inputs.places
    if windows is None:
        nan = float("nan")
        missing = "this run kept no counts by four weeks; make it again with this version"
        nothing = PublishedGate(nan, False, nan, nan)
        return {**named, **asdict(nothing), "n_windows": 0, "n_suspended": 0, "reason": missing}
    grouping = make_grouping(strata, places)
    design = proxy_design(tuple(places.covariates.values()), places.households)
    gates = [
        published_gate(
            windows.n_served[w],
            windows.n_complaints[w],
            windows.n_repeats[w],
            design,
            grouping.membership[:, grouping.compared],
            tau=spec.tau,
        )
        for w in windows.complete
    ]
    suspended = sum(gate.is_suspended for gate in gates)
    counted = {"n_windows": len(gates), "n_suspended": suspended, "reason": ""}
    return {**named, **asdict(gates[-1]), **counted}


def repeat_data(run: RunWriter, source: Run, known: Collection[str] = ()) -> None:
    """Record the data of the run that is looked at as the data of this one.

    Data whose fingerprint is `known` is recorded already.
    """
    for entry in source.info.get("data", []):
        if entry["fingerprint"] in known:
            continue
        details = dict(entry)
        name, fingerprint = details.pop("name"), details.pop("fingerprint")
        run.add_data(name, fingerprint, **details)
