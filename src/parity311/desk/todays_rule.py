"""Today's rule of a domain as a package, for a registry that has no policy of it yet.

It is made from the domain's own description, not estimated from records: the graver code first,
then first come, takes no estimate.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from parity311.agents.package import MANIFEST, Package, flatten, nest, read_package, write_package
from parity311.domains import get_domain
from parity311.errors import InputError
from parity311.mdp.contract import N_STRATA, TODAYS_RULE


def open_todays_rule(folder: Path, slug: str) -> Package:
    """The package in a folder; made where there is none, or where it is of another version."""
    domain = get_domain(slug)
    if (folder / MANIFEST).is_file():
        kept = read_package(folder)
        if kept.manifest["domain_version"] == domain.version:
            return kept
    if domain.sight is None:
        raise InputError(
            f"Domain {slug!r} does not say how cases on record are seen, so no desk can serve it; "
            "choose another."
        )
    # JAX is needed once, to write the rule down.
    from parity311.engines.heuristics import rule_arrays
    from parity311.mdp.harness import Harness
    from parity311.training.saving import describe

    harness = Harness(domain)
    params = domain.play.example()
    rule = rule_arrays(domain.heuristics[TODAYS_RULE](params, harness), harness)
    keep = domain.sight.keep
    package = Package(
        weights=rule,
        manifest={
            **describe(harness, TODAYS_RULE, np.asarray(domain.preference), None),
            "prices": [0.0] * N_STRATA,
            "seed": 0,
        },
        rule=rule,
        params=nest(flatten(keep(params) if keep else params)),
        seen={"typical": np.zeros(harness.n_features, np.float32)},
    )
    write_package(folder, package)
    return read_package(folder)
