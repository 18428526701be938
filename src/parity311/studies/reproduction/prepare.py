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
import pyarrow as pa
import pyarrow.compute as pc

from parity311.audit.assess import assess_domain, trend_row
from parity311.audit.cells import read_inputs
from parity311.audit.spec import AuditSpec
from parity311.city.ensure import open_or_build
from parity311.domains import all_domains, get_domain
from parity311.errors import EstimationError, InputError
from parity311.estimation.params_file import read_params, write_params
from parity311.estimation.world import ESTIMATOR, make_world, split_date
from parity311.jobs.choose import HERE, Workplace
from parity311.mdp.contract import STRATUM_NAMES
from parity311.pipelines.progress import Report as Progress
from parity311.records.store import Records, open_records
from parity311.reporting.calibration import Calibration, calibrate
from parity311.resampling import interval_around
from parity311.storage.aside import write_text_aside
from parity311.storage.disk import telling_disk_errors
from parity311.storage.folders import holds_own
from parity311.storage.strict_json import to_json, to_plain
from parity311.studies.reproduction import selection
from parity311.studies.reproduction.jobs import Budget, make_jobs, write_plan
from parity311.studies.reproduction.programme import OURS, Programme, get_programme
from parity311.studies.reproduction.protocols import (
    EQUITY_DOMAINS,
    RECORDS_TO,
    SCENARIOS,
    TEST_FROM,
    TRAIN_FROM,
    Part,
    Window,
    is_apart,
    parts_of,
)
from parity311.studies.reproduction.side_by_side import Call, run_calls

LEARN, SCORE = "learn", "score"
PARAMS, FACTS = "params", "facts"
ABOUT = "reproduction.json"
"""Says which city and seed a folder is for; written first."""
N_TABLE_ROWS = 65_536
"""Filings an agent of ours learns from, drawn from the table where it is longer: rows are drawn at
random anyway. The paper's learn from all of them."""
N_AUDIT_DRAWS = 200
RARE = ("snad", "crane")
"""Domains with some dozen complaints a year in the whole city."""
SPLIT_VERSION = 3
"""Splits of the first format may have scored years that were learned from, those of the second
fewer complaints than the paper; they are made again."""


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

    def log(self, scenario: str, domain: str) -> Path:
        """Decisions on record in the test period."""
        return self.folder / SCORE / "logs" / f"{scenario}-{domain}.npz"

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
    workplace: Workplace = HERE,
    programme: Programme = OURS,
    required: Sequence[str] = (),
) -> dict[str, Any]:
    """Write everything the other two stages need; what it is about.

    Of the domains, those `required` must have as many cases as their protocol needs.
    """
    where = Where(folder)
    _claim(folder, {"preset": preset, "seed": seed, "programme": programme.name})
    jobs = make_jobs(domains, preset, seed, budget, programme)
    parts = [part for slug in domains for part in parts_of(slug, programme)]
    scenarios = [name for name in SCENARIOS if any(name in part.scenarios for part in parts)]
    builds: list[Call] = [(ensure_city, (cities, preset, seed, name)) for name in scenarios]
    run_calls(builds, workplace, lambda name: progress(f"city: {name}", 1, 1))
    sources = {}
    calls: list[Call] = []
    for scenario in scenarios:
        city = city_folder(cities, preset, seed, scenario)
        sources[scenario] = _describe(open_records(city))
        own = [part for part in parts if scenario in part.scenarios]
        calls += [
            (prepare_apart, (folder, city, scenario, part.domain, part.name, programme.name))
            for part in own
        ]
        slugs = dict.fromkeys(part.domain for part in own)
        calls += [(facts_apart, (folder, city, scenario, slug)) for slug in slugs]
    run_calls(calls, workplace, lambda told: progress(told, 1, 1))
    untested = read_untested(where, parts)
    _check_required(preset, untested, required)
    write_plan(
        where.learn,
        [job for job in jobs if job.part not in untested],
        preset=preset,
        programme=programme.name,
        untested=untested,
        seed=seed,
        domains=list(domains),
        sources=sources,
        parts=[to_plain(part) for part in parts],
    )
    return {"folder": str(folder), "jobs": len(jobs), "bytes": folder_bytes(where.learn)}


def read_untested(where: Where, parts: Sequence[Part]) -> dict[str, str]:
    """Parts that have too few cases on one side of their split, and why."""
    found = {}
    for part in parts:
        for scenario in part.scenarios:
            reason = read_facts_file(where.split(scenario, part.name)).get("reason")
            if reason:
                found[part.name] = reason
    return found


def _check_required(preset: str, untested: dict[str, str], required: Sequence[str]) -> None:
    """Refuse a preset that is too small for the protocol of a domain that was asked for."""
    for slug in untested.keys() & required:
        raise InputError(
            f"Preset {preset!r} is too small for the published protocol of {slug!r}: "
            f"{untested[slug]} Choose a larger preset, or leave {slug} out."
        )


def _claim(folder: Path, about: dict[str, Any]) -> None:
    """Write what a folder is for; what was prepared for something else is left as it is."""
    path = folder / ABOUT
    if holds_own(folder, (LEARN, SCORE, ABOUT), "a reproduction", InputError):
        # Folders from before there were two programmes hold ours.
        found = {"programme": OURS.name, **read_facts_file(path)} if path.exists() else about
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


def ensure_city(cities: str | Path, preset: str, seed: int, scenario: str) -> str:
    """Build the city of a scenario over the paper's years where it is not there; its name."""
    participation, capacity = SCENARIOS[scenario]
    folder = city_folder(Path(cities), preset, seed, scenario)
    open_or_build(
        folder,
        tuple(domain.process for domain in all_domains().values()),
        preset=preset,
        seed=seed,
        participation=participation,
        capacity=capacity,
        date_from=TRAIN_FROM,
        date_to=RECORDS_TO,
    )
    return folder.name


def prepare_apart(
    folder: str, city: str, scenario: str, slug: str, name: str, programme_name: str
) -> str:
    """Prepare one part, by its name, in whatever process."""
    programme = get_programme(programme_name)
    part = next(one for one in parts_of(slug, programme) if one.name == name)
    where, records = Where(Path(folder)), open_records(Path(city))
    prepare_part(where, records, scenario, part, programme)
    if scenario == "measured" and part.name in selection.DOMAINS:
        keep_decisions(where, records, scenario, part, programme)
    return f"params ({scenario}): {part.name}"


def keep_decisions(
    where: Where, records: Records, scenario: str, part: Part, programme: Programme
) -> None:
    """The agency's own decisions of the test period, for what selection could hide."""
    path = where.log(scenario, part.domain)
    if selection.load_decisions(path) is not None:
        return
    domain = get_domain(part.domain)
    params = read_params(where.estimated(scenario, part.name), domain.play.example())
    _, scored = windows_of(records, part)
    log = selection.read_decisions(domain, records, params, scored, programme.observation_set)
    selection.save_decisions(path, log)


def facts_apart(folder: str, city: str, scenario: str, slug: str) -> str:
    """Read what the records say of one domain, in whatever process."""
    path = Where(Path(folder)).facts(scenario, slug)
    _write_once(path, partial(read_facts, open_records(Path(city)), slug))
    return f"facts of the records ({scenario}): {slug}"


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


def prepare_part(
    where: Where, records: Records, scenario: str, part: Part, programme: Programme = OURS
) -> None:
    """Estimated and true params of one part, where they are not there yet, and how it was split.

    A rare domain with too few cases on one side of its split cannot be tested, and why is written
    down: nobody is scored on what was learned from. How a part was split is written last.
    """
    path = where.split(scenario, part.name)
    if has_split(path):
        return
    learned, scored = windows_of(records, part)
    split = {
        "split_version": SPLIT_VERSION,
        "words": part.words,
        "train_from": str(learned[0]),
        "train_to": str(learned[1]),
        "test_from": str(scored[0]),
        "test_to": str(scored[1]),
    }
    try:
        check_protocol(records, part, scored, programme)
        counts = _write_params(where, records, scenario, part, learned, scored, programme)
    except EstimationError as error:
        if part.domain not in RARE:
            raise
        split |= {"reason": " ".join(str(error).split())}
    else:
        split |= {"n_learned": counts[0], "n_scored": counts[1]}
    path.unlink(missing_ok=True)
    _write_once(path, lambda: split)


def check_protocol(records: Records, part: Part, scored: Window, programme: Programme) -> None:
    """Refuse fewer later complaints than the paper's protocol scores, in its own programme."""
    n = _count(records, part.domain, scored)
    if programme.is_published and n < part.least_scored:
        raise EstimationError(
            f"it has {n} complaints from {scored[0]} to {scored[1]}, the paper scores "
            f"{part.least_scored}."
        )


def has_split(path: Path) -> bool:
    """Whether a part was split, and in a way that scores nobody on what was learned from."""
    return path.exists() and read_facts_file(path).get("split_version") == SPLIT_VERSION


def windows_of(records: Records, part: Part) -> tuple[Window, Window]:
    """Days that a part learns from and is scored on; they may share none but in a random split."""
    is_share = part.split == "share"
    own = split_date(records, part.domain) if is_share else _day_of_enough(records, part)
    first, last = max(records.window[0], TRAIN_FROM), records.window[1]
    learned = (part.train_from or first, own or part.train_to or last)
    scored = (own or part.test_from, part.test_to or last)
    if part.split == "random":
        return learned, learned
    if not is_apart(learned, scored):
        raise InputError(
            f"{part.name} would learn from {learned[0]} to {learned[1]} and be scored on "
            f"{scored[0]} to {scored[1]}; give it a split whose days do not overlap."
        )
    return learned, scored


def _day_of_enough(records: Records, part: Part) -> date | None:
    """Day from which as many complaints come as the protocol scores; None: the part's own will do.

    A city that was built to have 87 complaints in the paper's years has as often fewer of them.
    """
    n = part.least_scored
    last = part.test_to or records.window[1]
    if not n or _count(records, part.domain, (part.test_from, last)) >= n:
        return None
    found = records.sql(
        "SELECT CAST(received_at AS DATE) AS day FROM complaints WHERE domain = $domain AND "
        "received_at < $last::TIMESTAMP ORDER BY received_at DESC LIMIT 1 OFFSET $before",
        domain=part.domain,
        last=last,
        before=n - 1,
    )
    return found["day"][0].as_py() if len(found["day"]) else None


def _write_params(
    where: Where,
    records: Records,
    scenario: str,
    part: Part,
    learned: Window,
    scored: Window,
    programme: Programme,
) -> tuple[int, int]:
    """Params before and after the split; how many cases either comes from."""
    world = make_world(
        get_domain(part.domain), records,
        date_from=learned[0], date_to=learned[1], test_from=scored[0],
        estimators=(programme.estimator or ESTIMATOR,),
    )  # fmt: skip
    found = world.estimate(**_learn_options(part))
    write_params(where.estimated(scenario, part.name), _as_trained(found, part, programme))
    n_filings = []
    for variant, options in _score_options(part).items():
        true = world.truth(**options)
        write_params(where.true(scenario, part.name, variant), true)
        n_filings.append(getattr(true, "n_rows", 0))
    if part.domain == "boiler":
        return int(found.n_rows), int(n_filings[0])
    return _count_cases(records, part.domain, learned), _count_cases(records, part.domain, scored)


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


def _as_trained(params: Any, part: Part, programme: Programme = OURS) -> Any:
    """Params as an agent learns in them: a table of bounded length, visits free where unlimited."""
    if part.domain != "boiler":
        return params
    if not part.has_capacity:
        params = params._replace(visit_price_dollars=params.visit_price_dollars * 0.0)
    n_rows = int(params.n_rows)
    if n_rows <= N_TABLE_ROWS or programme.is_published:
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


def _count_cases(records: Records, domain: str, window: Window) -> int:
    """Incidents first reported in a window, as the agency linked their reports."""
    columns = ["incident_id", "complaint_id", "received_at"]
    table = records.table("complaints", domain, columns)
    case = pc.call_function("coalesce", [table["incident_id"], table["complaint_id"]])
    cases = pa.table({"case": case, "began": table["received_at"]}).group_by("case")
    began = cases.aggregate([("began", "min")])["began_min"].to_numpy().astype("datetime64[D]")
    first, end = (np.datetime64(day) for day in window)
    return int(((began >= first) & (began < end)).sum())


def _count(records: Records, domain: str, window: Window = (date.min, date.max)) -> int:
    query = (
        "SELECT count(*) AS n FROM complaints WHERE domain = $domain AND received_at >= "
        "$first::TIMESTAMP AND received_at < $end::TIMESTAMP"
    )
    found = records.sql(query, domain=domain, first=window[0], end=window[1])
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

    # Draws of a rate in a denominator lie to one side of the estimate (Jensen's inequality).
    value = float(contrast(made.denominators))
    return [value, *interval_around(value, contrast(made.draws))]


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
