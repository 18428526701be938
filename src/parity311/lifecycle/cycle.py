"""One retraining cycle: the paper's calibration steps, a training, an audit, and a decision.

Propensity, incidents, strata, denominators into buffer and episode start, training, audit. Every
step is kept under a hash of its inputs (`steps.py`), so that a cycle that was killed goes on where
it was. It ends in one of three ways, with the reasons in writing: the package is PROPOSED in the
registry, HELD there for review, or REFUSED, and then no registry has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from parity311.agents.package import MANIFEST
from parity311.audit.gap import FAIL, INSUFFICIENT
from parity311.audit.spec import AuditSpec
from parity311.errors import EstimationError
from parity311.estimation.correction import FALLBACK
from parity311.lifecycle.calibrating import calibrate_step, incidents_step, strata_step
from parity311.lifecycle.cycle_config import CycleConfig, check_cycle
from parity311.lifecycle.evidence import AuditEvidence, copy_package, read_audit
from parity311.lifecycle.learning import Learner, audit_step, denominators_step, train_step
from parity311.lifecycle.promised import check_levels, doubts_about, promises_step
from parity311.lifecycle.registry import Registry
from parity311.lifecycle.states import PolicyState
from parity311.lifecycle.steps import DoneStep, Steps, read_result
from parity311.records.store import open_records
from parity311.serving.served import SERVED_MODE
from parity311.storage.aside import write_text_aside
from parity311.storage.locks import one_writer
from parity311.storage.strict_json import canonical_json, to_json

PROPOSED, HELD, REFUSED = "proposed", "held", "refused"
NOT_AUDITED = "NONE"
"""In the place of a verdict where there was nothing to audit."""
MOSTLY = 0.5
"""Share of a band from which on it is told where it comes from."""
DECISION, DECISION_TEXT = "decision.json", "decision.md"
Progress = Callable[[str, float, float], None]
"""(stage, so far, total)"""


def run_cycle(
    config: CycleConfig,
    records: Path,
    *,
    database: str,
    out: Path = Path("cycles"),
    by: str,
    reason: str = "",
    progress: Progress = lambda stage, so_far, total: None,
) -> dict[str, Any]:
    """Run one cycle; what was decided, why, and every step with its artefacts.

    Parameters
    ----------
    records
        Folder of records, imported or a synthetic city; the truth of a city is not read.
    database
        Address of the registry.
    out
        Folder under which each domain keeps its steps.
    by, reason
        Who proposes, and why; the records are named where no reason is given.
    """
    opened = open_records(records, config.term.strata)
    reason = reason or f"cycle on records {opened.fingerprint[:12]}"
    domain = check_cycle(config, by=by, reason=reason)
    if config.levels is not None:
        check_levels(config.levels, domain.slug, opened)
    # Another process may write the same database; a wrong address is told before any work.
    registry = Registry(database, makes=True)
    root = out / domain.slug
    with one_writer(root):
        steps = Steps(root)
        tell = lambda number, name: progress(f"{domain.slug}: {name}", number, 7)  # noqa: E731
        try:
            tell(0, "propensity")
            propensity = calibrate_step(steps, domain, opened, config)
            tell(1, "incidents")
            incidents = incidents_step(steps, propensity)
            tell(2, "strata")
            strata = strata_step(steps, propensity, incidents)
            learner = Learner(domain, opened, config, propensity)
            tell(3, "denominators")
            denominators = denominators_step(steps, learner, strata)
            tell(4, "training")
            trained = train_step(steps, learner, denominators, progress)
            tell(5, "audit")
            audited = audit_step(steps, learner, denominators, trained)
            package = trained.folder / trained.result["package"]
            before = [propensity, trained, audited]
            if config.levels is not None:
                tell(6, "promises")
                before.append(promises_step(steps, config.levels, opened, package, trained))
            tell(6, "decision")
            decided = steps.take(
                "decision",
                {"by": by, "reason": reason, "database": registry.database.where},
                lambda folder: _decide(folder, registry, config, package, before, by, reason),
                after=before[2:],
                stands=lambda result: is_registered(registry, result, package),
            )
        except EstimationError as error:
            why = " ".join(str(error).split())
            decided = steps.take(
                "decision",
                {"by": by, "reason": reason, "cannot": why},
                lambda folder: _give_up(folder, config, why),
                after=list(steps.done),
            )
        tell(7, "decision")
    return {
        **decided.result,
        "domain": domain.slug,
        "records": str(opened.folder),
        "preference": list(config.preference),
        "steps": [one.describe() for one in steps.done],
        "folder": str(decided.folder),
        "database": registry.database.where,
    }


def _decide(
    folder: Path,
    registry: Registry,
    config: CycleConfig,
    package: Path,
    before: Sequence[DoneStep],
    by: str,
    reason: str,
) -> dict[str, Any]:
    """Propose, hold or refuse, and say why."""
    propensity, trained, audited, *promised = before
    audit = audited.folder / audited.result["audit"]
    copy = copy_package(package)
    evidence = read_audit(audit, copy.manifest)
    reasons = [f"audit: {evidence.verdict}, {evidence.reason}"]
    doubts = find_doubts(config, propensity.result, audited.result["trial"])
    for one in promised:
        doubts += doubts_about(one.result)
    if evidence.verdict == FAIL:
        outcome, version = REFUSED, None
        reasons.append(
            "a policy whose audit fails never goes live: give equity more weight, or gather what "
            "shows that the gap is not there"
        )
        reasons += doubts
    else:
        reasons += doubts
        is_open = evidence.verdict == INSUFFICIENT
        if is_open:
            simulated = audited.result["trial"].get("simulated_share")
            reasons.append(what_it_needs(evidence.rows, config.spec, simulated))
        outcome = HELD if doubts or is_open else PROPOSED
        words = f"{reason}; {outcome}: {'; '.join(reasons)}"[:1900]
        version = find_same(registry, copy.sha256, evidence)
        if version is None:
            version = registry.propose(package, audit, by=by, reason=words)
    found = {
        "outcome": outcome,
        "version": version,
        "verdict": evidence.verdict,
        "reasons": reasons,
        "package": str(package),
        "audit": str(audit),
        "denominators": trained.result["way"],
        "trial": audited.result["trial"],
        "reward": copy.manifest["reward"],
        "action_set": copy.manifest["action_set"],
        "saved": read_result(package, MANIFEST)["saved_on"],
        "promises": promised[0].result if promised else None,
    }
    write_text_aside(folder / DECISION, to_json(found))
    write_text_aside(folder / DECISION_TEXT, _in_words(config, found))
    return found


def _give_up(folder: Path, config: CycleConfig, why: str) -> dict[str, Any]:
    """Refuse where the records do not suffice for an estimate; the reason says what is needed."""
    reasons = [f"the records do not suffice: {why}"]
    found = {"outcome": REFUSED, "version": None, "verdict": NOT_AUDITED, "reasons": reasons}
    write_text_aside(folder / DECISION, to_json(found))
    write_text_aside(folder / DECISION_TEXT, f"# {config.domain}: {REFUSED}\n\n- {reasons[0]}\n")
    return found


def find_same(registry: Registry, package_sha256: str, evidence: AuditEvidence) -> str | None:
    """The version with this package and audit: a cycle may have been killed after it."""
    audit = canonical_json(evidence)
    for one in registry.policies():
        is_same = one.package_sha256 == package_sha256 and one.state != PolicyState.RETIRED
        if is_same and registry.stored(one.version).audit == audit:
            return one.version
    return None


def is_registered(registry: Registry, result: Mapping[str, Any], package: Path) -> bool:
    """Whether the registry has what was decided: it may be another one, or an older copy."""
    version = result["version"]
    known = {one.version: one.package_sha256 for one in registry.policies()}
    return version is None or known.get(version) == copy_package(package).sha256


def find_doubts(config: CycleConfig, estimate: dict[str, Any], trial: dict[str, Any]) -> list[str]:
    """Why a person should look, whatever the audit says; a line each."""
    found = []
    if estimate["used"] == FALLBACK and config.estimator != FALLBACK:
        why = "; ".join(estimate["failed"].values())
        found.append(f"complaints stand for incidents, nobody corrected for who reports: {why}")
    elif estimate["used"] == FALLBACK:
        found.append("complaints stand for incidents, as was asked for")
    if estimate["is_wide"]:
        found.append(
            "the estimate of incidents is wide: its ends differ by a factor of two or more"
        )
    if config.term.equity_mode != SERVED_MODE:
        found.append(
            f"it sees the equity term of mode {config.term.equity_mode!r}; serving knows the "
            f"coverage prices of {SERVED_MODE!r} alone, so it can be studied and not served"
        )
    interval = trial["lead_interval"]
    if interval is not None and interval[1] < 0:
        found.append(
            f"in the estimated process it serves {-100 * trial['lead']:.1f} points fewer of the "
            "actionable incidents than today's rule"
        )
    return found


def what_it_needs(
    rows: Sequence[dict[str, Any]], spec: AuditSpec, simulated: float | None = None
) -> str:
    """What would settle an audit that could not tell.

    ``simulated`` is the share of the band that is the trial's own, not the records'.
    """
    open_rows = [row for row in rows if row["verdict"] == INSUFFICIENT]
    judged = [row for row in open_rows if np.isfinite(_width(row))]
    if not judged:
        return "some strata have too few events to be judged: it needs more months of records"
    widest = max(judged, key=_width)
    width = _width(widest)
    wide = f"{100 * width:.0f} points wide" if width < 1.0 else "as wide as a gap can be"
    words = (
        f"the band that decides is up to {wide}"
        f"{_enough(widest, spec)}: it narrows with more months of records, with more reports of "
        "the same incidents, and with random visits"
    )
    if simulated is not None and simulated > MOSTLY:
        words += (
            f"; {simulated:.0%} of what is open between two strata is the trial's own chance, "
            "which more of its --episodes settle"
        )
    return words


def _width(row: dict[str, Any]) -> float:
    """Width of the band that a verdict rests on: of the gap, or where rates are low the ratio."""
    _, low, high = _band(row)
    return high - low


def _band(row: dict[str, Any]) -> tuple[float, float, float]:
    """Estimate and ends of the band that a verdict rests on; NaN where there is none."""
    measure = row.get("measure", "gap")
    found = (row.get(name) for name in (measure, f"{measure}_lower", f"{measure}_upper"))
    value, low, high = (np.nan if one is None else float(one) for one in found)
    return value, low, high


def _enough(row: dict[str, Any], spec: AuditSpec) -> str:
    """How narrow a band about the same estimate would settle it, and which way."""
    value, low, high = _band(row)
    is_gap = row.get("measure", "gap") == "gap"
    limit = spec.tau if is_gap else spec.smallest_ratio
    passes = value <= limit if is_gap else value >= limit
    # The end that reaches over the limit has to come within it.
    reach = high - value if value <= limit else value - low
    if not np.isfinite(value) or reach <= 0 or value == limit:
        return ""
    factor = abs(limit - value) / reach
    if factor >= 1.0:
        return ""
    return (
        f" (about the same estimate of {100 * value:.0f} {'points' if is_gap else '%'}, one "
        f"{_share(factor)} as wide would {'pass' if passes else 'fail'})"
    )


def _share(factor: float) -> str:
    return f"{factor:.0%}" if factor >= 0.005 else "far less than 1 %"


def _promised_in_words(promises: dict[str, Any] | None) -> list[str]:
    if promises is None:
        return []
    return [
        f"Service levels: of {promises['cells']} promised cells it keeps {promises['keeps']}, "
        f"breaks {promises['breaks']}, and {promises['insufficient']} are too small to say."
    ]


def _in_words(config: CycleConfig, found: dict[str, Any]) -> str:
    trial, version = found["trial"], found["version"]
    where = f" as {version}" if version else ""
    lines = [
        f"# {config.domain}: {found['outcome']}{where}",
        "",
        f"Paid for: {found['reward']}.",
        f"Coverage {trial['coverage']:.1%}, today's rule {trial['coverage_of_today']:.1%}, in the "
        "process that the records give.",
        f"Denominators: {found['denominators']}.",
        f"Actions: {found['action_set']}.",
        *_promised_in_words(found["promises"]),
        "",
        "Why:",
        *(f"- {one}" for one in found["reasons"]),
        "",
        f"Settings: {asdict(replace(config, levels=None))}",
    ]
    return "\n".join(lines) + "\n"
