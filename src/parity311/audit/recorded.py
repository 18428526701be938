"""Who was served, by income quintile, as the records tell it: the first slice's short form.

The whole audit (more strata, trends, monitoring, scan) is `assess.assess_domains`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from parity311.audit.assess import GIVEN_SEVERITY, assess_domain
from parity311.audit.cells import AuditInputs
from parity311.audit.gap import TAU
from parity311.audit.spec import AuditSpec


def audit_inputs(
    inputs: AuditInputs, *, tau: float = TAU, n_draws: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Audit what was read of one domain.

    Returns
    -------
    ``rates`` (rows of `StratumRate`) and ``gaps`` (one a denominator, over known quintiles).
    """
    audit = assess_domain(inputs, AuditSpec(tau=tau, n_draws=n_draws, seed=seed))
    gaps = [
        {
            "denominator": verdict.denominator,
            "tau": tau,
            **asdict(verdict.comparison.gap),
            "verdict": verdict.comparison.verdict,
            "reason": verdict.comparison.reason,
            "measure": verdict.comparison.measure,
            "ratio": verdict.comparison.ratio.estimate,
        }
        for verdict in audit.verdicts
        if _is_plain(verdict.denominator)
    ]
    rates = [asdict(row) for row in audit.rates if _is_plain(row.denominator)]
    return {"domain": inputs.domain, "rates": rates, "gaps": gaps}


def _is_plain(denominator: str) -> bool:
    return denominator != GIVEN_SEVERITY
