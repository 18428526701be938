"""The first stage: records become params, and the facts of the records that the report needs.

What trains gets its own folder, `learn`, with estimated params only; true params and what the audit
of the records says go to `score`, which no training ever opens. Everything already there is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity311.audit.assess import assess_domain, trend_row
from parity311.audit.cells import read_inputs
from parity311.audit.spec import AuditSpec
from parity311.city.build import build_city
from parity311.city.ensure import open_or_build
from parity311.domains import all_domains, get_domain
from parity311.errors import EstimationError, InputError
from parity311.lifecycle.on_records import split_date
from parity311.lifecycle.progress import Report as Progress
from parity311.mdp.contract import STRATUM_NAMES
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import Calibration, calibrate
from parity311.reproduction.jobs import Budget, make_jobs, write_plan
from parity311.reproduction.protocols import (
    EQUITY_DOMAINS,
    RECORDS_TO,
    SCENARIOS,
    TEST_FROM,
    TRAIN_FROM,
    Part,
    parts_of,
)
from parity311.reproduction.side_by_side import Call, run_calls
from parity311.runs.strict_json import to_json, to_plain
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.training.bare import write_params

LEARN, SCORE = "learn", "score"
PARAMS, FACTS = "params", "facts"
ABOUT = "reproduction.json"
"""Says which city and seed a folder is for; written first."""
N_TABLE_ROWS = 65_536
"""Filings an agent learns from, drawn from the table where it is longer: rows are drawn at random
anyway, and what trains on another machine must fit into 64 MiB."""
N_AUDIT_DRAWS = 200
RARE = ("snad", "crane")
"""Domains with some dozen complaints a year in the whole city."""
RARE_WORDS = "learned from 2020 to 2024, scored in the true process of all years: too few cases"


@dataclass(frozen=True)
class Where:
    """The folders of one reproduction."""

    folder: Path

    @property
    def learn(self) -> Path:
        """What trains: a plan, estimated params, and later the trained agents."""
        return self.folder / LEARN

    def estimated(self, scenario: str, part: str) -> Path:
        """Params from what the agency could see."""
        return self.learn / PARAMS / f"{scenario}-{part}.safetensors"

    def true(self, scenario: str, part: str, variant: str = "") -> Path:
        """Params of what really happens."""
        return self.folder / SCORE / PARAMS / f"{scenario}-{part}{variant}.safetensors"

    def split(self, scenario: str, part: str) -> Path:
        """How a part was split in the end."""
        return self.folder / SCORE / FACTS / f"split-{scenario}-{part}.json"

    def facts(self, scenario: str, domain: str) -> Path:
        """What the records themselves say of a domain."""
        return self.folder / SCORE / FACTS / f"{scenario}-{domain}.json"


def prepare(
    folder: Path,
    domains: Sequence[str],
    *,
    preset: str,
    seed: int,
    cities: Path,
    progress: Progress,
    budget: Budget | None = None,
    n_workers: int = 1,
) -> dict[str, Any]:
    """Write everything the other two stages need; what it is about."""
    where = Where(folder)
    _claim(folder, {"preset": preset, "seed": seed})
    jobs = make_jobs(domains, preset, seed, budget)
    parts = [part for slug in domains for part in parts_of(slug)]
    scenarios = [name for name in SCENARIOS if any(name in part.scenarios for part in parts)]
    builds: list[Call] = [(ensure_city, (cities, preset, seed, name)) for name in scenarios]
    for name in run_calls(builds, n_workers):
        progress(f"city: {name}", 1, 1)
    sources = {}
    calls: list[Call] = []
    for scenario in scenarios:
        city = city_folder(cities, preset, seed, scenario)
        sources[scenario] = _describe(open_records(city))
        own = [part for part in parts if scenario in part.scenarios]
        calls += [(_prepare_apart, (folder, city, scenario, part)) for part in own]
        slugs = dict.fromkeys(part.domain for part in own)
        calls += [(_facts_apart, (folder, city, scenario, slug)) for slug in slugs]
    for number, told in enumerate(run_calls(calls, n_workers)):
        progress(told, number + 1, number + 1)
    write_plan(
        where.learn,
        jobs,
        preset=preset,
        seed=seed,
        domains=list(domains),
        sources=sources,
        parts=[to_plain(part) for slug in domains for part in parts_of(slug)],
    )
    return {"folder": str(folder), "jobs": len(jobs), "bytes": folder_bytes(where.learn)}


def _claim(folder: Path, about: dict[str, Any]) -> None:
    """Write what a folder is for; what was prepared for something else is left as it is."""
    path = folder / ABOUT
    if holds_own(folder, (LEARN, SCORE, ABOUT), "a reproduction", InputError):
        found = read_facts_file(path) if path.exists() else about
        if found != about:
            raise InputError(
                f"{folder} was prepared with {found}, not with {about}; choose another folder."
            )
    _write_once(path, lambda: about)


def folder_bytes(folder: Path) -> int:
    """Size of a folder's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def city_folder(cities: Path, preset: str, seed: int, scenario: str) -> Path:
    """Where the city of a scenario lies."""
    participation, capacity = SCENARIOS[scenario]
    return cities / f"{preset}-{seed}-{participation}-{capacity}-{TRAIN_FROM.year}"


def ensure_city(cities: Path, preset: str, seed: int, scenario: str) -> str:
    """Build the city of a scenario over the paper's years where it is not there; its name."""
    participation, capacity = SCENARIOS[scenario]
    folder = city_folder(cities, preset, seed, scenario)
    build = partial(
        build_city,
        tuple(domain.process for domain in all_domains().values()),
        preset=preset,
        seed=seed,
        participation=participation,
        capacity=capacity,
        date_from=TRAIN_FROM,
        date_to=RECORDS_TO,
        out=folder,
        overwrite=True,
    )
    check_years(open_or_build(folder, build))
    return folder.name


def _prepare_apart(folder: Path, city: Path, scenario: str, part: Part) -> str:
    prepare_part(Where(folder), open_records(city), scenario, part)
    return f"params ({scenario}): {part.name}"


def _facts_apart(folder: Path, city: Path, scenario: str, slug: str) -> str:
    path = Where(folder).facts(scenario, slug)
    _write_once(path, partial(read_facts, open_records(city), slug))
    return f"facts of the records ({scenario}): {slug}"


def check_years(records: Records) -> None:
    """Refuse records that do not reach over the paper's years."""
    first, last = records.window
    if first > TRAIN_FROM or last < RECORDS_TO:
        raise InputError(
            f"{records.folder} reaches from {first} to {last}; the paper's protocols need "
            f"{TRAIN_FROM} to {RECORDS_TO}. Build it with --from {TRAIN_FROM} --to {RECORDS_TO}."
        )


def _describe(records: Records) -> dict[str, Any]:
    manifest = records.manifest
    names = ("preset", "seed", "participation", "capacity")
    return {
        "name": records.folder.name,
        "fingerprint": records.fingerprint,
        "date_from": str(records.window[0]),
        "date_to": str(records.window[1]),
        **{name: manifest[name] for name in names if name in manifest},
    }


def prepare_part(where: Where, records: Records, scenario: str, part: Part) -> None:
    """Estimated and true params of one part, where they are not there yet, and how it was split.

    Where a rare domain has too few cases on one side of its split, it is scored in the true process
    of all years instead; the split that was used is written down last.
    """
    path = where.split(scenario, part.name)
    if path.exists():
        return
    last = records.window[1]
    own = split_date(records, part.domain) if part.split == "share" else None
    dates = (own or part.train_to or last, own or part.test_from)
    words = part.words
    try:
        _write_params(where, records, scenario, part, *dates)
    except EstimationError as error:
        if part.domain not in RARE:
            raise
        dates = (TEST_FROM, TRAIN_FROM)
        _write_params(where, records, scenario, part, *dates)
        words = f"{RARE_WORDS} ({' '.join(str(error).split())})"
    split = {"words": words, "train_to": str(dates[0]), "test_from": str(dates[1])}
    _write_once(path, lambda: split)


def _write_params(
    where: Where, records: Records, scenario: str, part: Part, train_to: date, test_from: date
) -> None:
    domain = get_domain(part.domain)
    path = where.estimated(scenario, part.name)
    train_from = part.train_from or max(records.window[0], TRAIN_FROM)
    calibration = calibrate(records, part.domain, date_from=train_from, date_to=train_to)
    found = domain.estimate(records, calibration, train_to, **_learn_options(part))
    write_params(path, _as_trained(found, part))
    for variant, options in _score_options(part).items():
        true = domain.truth(records.folder, test_from, **options)
        write_params(where.true(scenario, part.name, variant), true)


def _learn_options(part: Part) -> dict[str, Any]:
    options: dict[str, Any] = {"split": "random"} if part.split == "random" else {}
    if part.train_from is not None:
        options["date_from"] = part.train_from
    return options


def _score_options(part: Part) -> dict[str, dict[str, Any]]:
    """Options of the truth by variant; boilers also with the chances for who sees late fees."""
    options: dict[str, Any] = {"split": "random"} if part.split == "random" else {}
    if part.test_to is not None:
        options["date_to"] = part.test_to
    found = {"": options}
    if part.domain == "boiler":
        found["-fees"] = {**options, "knows_fees": True}
    return found


def _as_trained(params: Any, part: Part) -> Any:
    """Params as an agent learns in them: a table of bounded length, visits free where unlimited."""
    if part.domain != "boiler":
        return params
    if not part.has_capacity:
        params = params._replace(visit_price_dollars=params.visit_price_dollars * 0.0)
    n_rows = int(params.n_rows)
    if n_rows <= N_TABLE_ROWS:
        return params
    rows = np.sort(np.random.default_rng(0).choice(n_rows, N_TABLE_ROWS, replace=False))
    length = params.stratum.shape[0]
    return type(params)(
        *(
            np.asarray(values)[rows] if np.shape(values)[:1] == (length,) else values
            for values in params
        )
    )._replace(n_rows=np.int32(N_TABLE_ROWS))


def read_facts(records: Records, domain: str) -> dict[str, Any]:
    """What the report needs of the records themselves."""
    facts: dict[str, Any] = {"n_complaints": _count(records, domain)}
    facts["dispositions"] = _dispositions(records, domain)
    if domain in EQUITY_DOMAINS:
        facts["today"] = audit_today(records, domain)
        facts["reporting"] = compare_estimators(records, domain)
    return facts


def _count(records: Records, domain: str) -> int:
    query = "SELECT count(*) AS n FROM complaints WHERE domain = $domain"
    found = records.sql(query, domain=domain)
    return int(found["n"][0].as_py())


def _dispositions(records: Records, domain: str) -> dict[str, float]:
    """Share of closed complaints by class of disposition."""
    found = records.sql(
        "SELECT disposition_class AS class, count(*) AS n FROM outcomes JOIN complaints USING "
        "(complaint_id) WHERE domain = $domain AND closed_at IS NOT NULL GROUP BY 1 ORDER BY 1",
        domain=domain,
    )
    counts = dict(zip(found["class"].to_pylist(), found["n"].to_pylist(), strict=True))
    total = max(sum(counts.values()), 1)
    return {str(name): count / total for name, count in counts.items()}


def audit_today(records: Records, domain: str) -> dict[str, Any]:
    """Trends of today's rule across income and race, given severity, over all years on record."""
    inputs = read_inputs(
        records, domain, date_from=max(records.window[0], TRAIN_FROM), date_to=records.window[1]
    )
    spec = AuditSpec(strata=("income5", "race5"), denominators=("cases",), n_draws=N_AUDIT_DRAWS)
    audit = assess_domain(inputs, spec)
    return {
        "trends": [trend_row(trend) for trend in audit.trends],
        "rates": [asdict(row) for row in audit.rates],
    }


def compare_estimators(records: Records, domain: str) -> dict[str, Any]:
    """Complaints and estimated incidents per four weeks by stratum, published estimator first."""
    found: dict[str, Any] = {"strata": list(STRATUM_NAMES)}
    for name in ("as_published", "exposure_rate"):
        made = calibrate(
            records,
            domain,
            date_from=max(records.window[0], TRAIN_FROM),
            date_to=TEST_FROM,
            estimator=name,
        )
        found[name] = [float(x) for x in made.denominators]
        found["complaints"] = [float(x) for x in made.complaints]
        found[f"{name}_contrast"] = _low_against_high(made)
    return found


def _low_against_high(made: Calibration) -> list[float]:
    """Incidents per complaint in quintiles 1-2 less in 4-5: estimate, lower and upper 95 %."""

    def contrast(incidents: np.ndarray) -> np.ndarray:
        low, high = (
            incidents[..., group].sum(axis=-1) / made.complaints[group].sum()
            for group in (slice(0, 2), slice(3, 5))
        )
        return low - high

    lower, upper = np.quantile(contrast(made.draws), [0.025, 0.975])
    return [float(contrast(made.denominators)), float(lower), float(upper)]


def _write_once(path: Path, make: Callable[[], dict[str, Any]]) -> None:
    if not path.exists():
        content = to_json(make())
        with telling_disk_errors(path):
            write_text_aside(path, content)


def read_facts_file(path: Path) -> dict[str, Any]:
    """Facts that `prepare` wrote."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is missing or not whole ({error}); run `parity311 reproduce --stage prepare` "
            "again."
        ) from error
