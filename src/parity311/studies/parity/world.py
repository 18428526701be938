"""What a parity study needs to know of a city, as arrays: the process as estimated, and as it is.

Preparing a world reads records and truth; everything after it needs arrays alone, so that the
heavy part can run on another machine. A world is a folder: one file of params for each estimator
of what nobody reported, one for the truth, and `world.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parity311.errors import InputError
from parity311.estimation.params_file import read_params, write_params
from parity311.estimation.world import ESTIMATORS, make_world
from parity311.mdp.contract import N_KNOWN_STRATA, Domain
from parity311.storage.folders import Kind, describe_folder, writing_folder

OURS = ESTIMATORS[0]
DOMAINS = ("heat", "housing", "elevator", "boiler")
"""Domains that are studied; in all but boiler visits can go where nobody called, which is a way up
where routing has none."""
WORLD = "world.json"
TRUE = "true"


@dataclass(frozen=True)
class ParityWorld:
    """One domain in one city, with and without its canvass, estimated in several ways."""

    domain: Domain
    """without its canvass; `canvassing` has it"""
    canvassing: Domain | None
    """None where nobody can look where nothing was filed"""
    name: str
    """which city"""
    estimated: dict[str, Any]
    """params by estimator"""
    true: Any
    denominator_draws: np.ndarray
    """(n, 5) joint draws of each known stratum's incidents over their estimate, `OURS`"""
    usual_reports: np.ndarray | None = None
    """(6,) complaints a step in the estimated process, once it was played"""


@lru_cache
def split_canvass(slug: str) -> tuple[Domain, Domain | None]:
    """A domain whose extended actions end before the canvass, and one that ends with it, if any.

    Both keep their numbers: actions are numbered in order, and what comes later is cut off.
    """
    from dataclasses import replace

    from parity311.domains import get_domain

    domain = get_domain(slug)
    if slug not in DOMAINS:
        raise InputError(
            f"Domain {slug!r} is not among those whose price of parity is studied; choose among "
            f"{', '.join(DOMAINS)}."
        )
    names = [action.name.lower() for action in domain.extended_actions]
    if "canvass" not in names:
        return domain, None
    place = names.index("canvass")
    cut = domain.extended_actions[: place + 1]
    return replace(domain, extended_actions=cut[:-1]), replace(domain, extended_actions=cut)


def _stranger(folder: Path) -> str | None:
    """A prepared world is never replaced, so whatever lies in its place is named."""
    return describe_folder(folder)


PREPARED = Kind("a world to be prepared", _stranger, error=InputError)


def prepare_world(slug: str, city: Path, out: Path) -> Path:
    """Estimate a domain's params from a city's first years and read the truth of its last."""
    split_canvass(slug)
    with writing_folder(out, PREPARED) as folder:
        _write_world(slug, city, folder)
    return out


def _write_world(slug: str, city: Path, out: Path) -> None:
    from parity311.records.store import open_records

    domain, _ = split_canvass(slug)
    world = make_world(domain, open_records(city), estimators=ESTIMATORS)
    for name in ESTIMATORS:
        write_params(out / f"{name}.safetensors", world.estimate(name))
    write_params(out / f"{TRUE}.safetensors", world.true)
    ours = world.correction.calibrations[OURS]
    ratios = ours.draws[:, :N_KNOWN_STRATA] / ours.denominators[:N_KNOWN_STRATA]
    manifest = world.records.manifest
    about = {
        "domain": slug,
        "domain_version": domain.version,
        "city": f"{manifest['preset']}-{manifest['seed']}",
        "participation": manifest["participation"],
        "capacity": manifest["capacity"],
        "fingerprint": manifest["fingerprint"],
        "test_from": str(world.test_from),
        "denominator_draws": np.round(ratios, 5).tolist(),
    }
    (out / WORLD).write_text(json.dumps(about) + "\n")


def read_world(folder: Path) -> ParityWorld:
    """Read a prepared world; arrays only."""
    try:
        about = json.loads((folder / WORLD).read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} is no prepared world ({error}); write one with `parity311 parity DOMAIN "
            "--city CITY --prepare FOLDER`."
        ) from error
    domain, canvassing = split_canvass(about["domain"])
    if about["domain_version"] != domain.version:
        raise InputError(
            f"{folder} was prepared for version {about['domain_version']} of {domain.slug!r}, "
            f"which is now {domain.version}; prepare it again."
        )
    like = domain.play.example()
    read = lambda name: read_params(folder / f"{name}.safetensors", like)  # noqa: E731
    return ParityWorld(
        domain=domain,
        canvassing=canvassing,
        name=about["city"],
        estimated={name: read(name) for name in ESTIMATORS},
        true=read(TRUE),
        denominator_draws=np.asarray(about["denominator_draws"]),
    )
