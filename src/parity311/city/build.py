"""Build a synthetic city: draw its places, let every domain happen, write records and truth."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from parity311.city import setting as setting_module
from parity311.city.agency import STAFFING_DAYS
from parity311.city.clock import draw_weather
from parity311.city.departures import DEFAULT, Departure, get_departure
from parity311.city.filing_office import work_filings
from parity311.city.incidents import nearest_year
from parity311.city.incumbent import EXPLORATION_SHARE, Rule, severity_then_first_in
from parity311.city.places import draw_buildings
from parity311.city.presets import Preset, check_dates, check_scenario, get_preset
from parity311.city.process import (
    ComplaintProcess,
    FilingProcess,
    Process,
    describe_parameters,
)
from parity311.city.randomness import named_seed
from parity311.city.setting import CitySetting
from parity311.city.simulate import SimulatedDomain, simulate_domain
from parity311.city.tables import reporting_truth, write_complaints, write_filings
from parity311.city.tracts import draw_tracts
from parity311.records.store import write_manifest, write_parquet, write_table, writing_records

Progress = Callable[[str, float, float], None]
"""(stage, so far, total)"""

_PARALLEL_FROM = 400_000.0
"""Expected complaints from which a second process pays for its start."""


@dataclass(frozen=True)
class _Task:
    """One domain to build."""

    process: Process
    rule: Rule
    enlargement: float
    filings_from: date
    folder: Path

    @property
    def weight(self) -> float:
        """Expected work, in complaints a year."""
        process = self.process
        table = process.filings if isinstance(process, FilingProcess) else process.volume.complaints
        return float(np.mean(list(table.values()))) * self.enlargement


def build_city(
    processes: Sequence[Process],
    preset: str = "small",
    seed: int = 7,
    participation: str = "measured",
    capacity: str = "calibrated",
    date_from: date | None = None,
    date_to: date | None = None,
    out: str | Path = "city",
    *,
    world: str = DEFAULT.name,
    incumbent: Rule = severity_then_first_in,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Path:
    """Build a city into the folder ``out`` and return its path; same arguments, same bytes.

    Parameters
    ----------
    processes
        What each domain declares of its incidents.
    preset, seed, participation, capacity
        Names of `presets`, and any integer.
    date_from, date_to
        First day and the day after the last; the preset's own when not given.
    out
        Folder to write; one that holds a synthetic city, and nothing else, is replaced with
        ``overwrite``.
    world
        Name of `departures`: in what the city departs from what estimators assume.
    incumbent
        The rule that chose whom to visit; it must be importable by name to use two workers.
    progress
        Called with (stage, so far, total).
    workers
        Processes; None chooses one or two by size.
    """
    chosen = get_preset(preset)
    check_scenario(participation, capacity)
    departure = get_departure(world)
    first, last = date_from or chosen.date_from, date_to or chosen.date_to
    check_dates(first, last)
    report = progress or (lambda stage, so_far, total: None)
    out = Path(out)
    with writing_records(out, "city", overwrite=overwrite) as folder:
        report("places", 0.0, 1.0)
        setting = draw_setting(chosen, seed, participation, capacity, first, last, departure)
        write_table(folder, "tracts", setting.tracts.to_table())
        write_table(folder, "buildings", setting.buildings.to_table(setting.tracts))
        report("places", 1.0, 1.0)
        tasks = [_make_task(process, chosen, setting, incumbent, folder) for process in processes]
        reporting = _build_domains(tasks, setting, report, workers)
        write_parquet(folder / "truth" / "reporting.parquet", pa.concat_tables(reporting))
        _write_parameters(folder, processes, departure)
        write_manifest(folder, "city", _details(chosen, setting, tasks))
    return out


def draw_setting(
    preset: Preset,
    seed: int,
    participation: str,
    capacity: str,
    first: date,
    last: date,
    departure: Departure = DEFAULT,
) -> CitySetting:
    """Draw places and weather; they do not depend on the domains, nor the places on the years."""
    tracts = draw_tracts(named_seed(seed, "tracts"), preset.n_tracts)
    buildings = draw_buildings(named_seed(seed, "buildings"), tracts)
    weather = draw_weather(seed, last)
    return CitySetting(
        seed, tracts, buildings, weather, participation, capacity, first, last, preset.scale,
        departure,
    )  # fmt: skip


def write_worked(out: Path, worked: SimulatedDomain, preset: Preset) -> Path:
    """Write the records of one domain of a city as far as it was worked, as `build_city` would."""
    setting = worked.setting
    with writing_records(out, "city", overwrite=True) as folder:
        write_table(folder, "tracts", setting.tracts.to_table())
        write_table(folder, "buildings", setting.buildings.to_table(setting.tracts))
        write_complaints(folder, worked)
        write_parquet(folder / "truth" / "reporting.parquet", reporting_truth(worked))
        _write_parameters(folder, [worked.process], setting.departure)
        write_manifest(folder, "city", _details(preset, setting, []))
    return out


def _make_task(
    process: Process, preset: Preset, setting: CitySetting, rule: Rule, folder: Path
) -> _Task:
    if isinstance(process, FilingProcess):
        return _Task(process, rule, 1.0, first_filing_day(process, preset, setting), folder)
    return _Task(process, rule, enlarge(process, preset, setting), setting.date_from, folder)


def first_filing_day(process: FilingProcess, preset: Preset, setting: CitySetting) -> date:
    """Day from which filings are on record: years before the first of the other records."""
    year = max(setting.date_from.year - preset.filing_years_before, process.first_year)
    return min(date(year, 1, 1), setting.date_from)


def enlarge(process: ComplaintProcess, preset: Preset, setting: CitySetting) -> float:
    """Factor on a domain's volume, so that a rare one shows anything in a small city."""
    table = process.volume.complaints
    years = range(setting.date_from.year, setting.date_to.year + 1)
    usual = float(np.mean([nearest_year(table, year) for year in years])) * setting.scale
    return max(1.0, preset.least_complaints_per_year / usual)


def _build_domains(
    tasks: list[_Task], setting: CitySetting, report: Progress, workers: int | None
) -> list[pa.Table]:
    """Build every domain, in one process or two; returns the truth about reporting by domain."""
    n_years = (setting.date_to - setting.date_from).days / 365.25
    total = sum(task.weight for task in tasks) * setting.scale * n_years
    if workers is None:
        large = total >= _PARALLEL_FROM and (os.cpu_count() or 1) > 1
        workers = 2 if large and _can_pickle(tasks) else 1
    work = sum(task.weight for task in tasks)
    if workers == 1:
        so_far, tables = 0.0, []
        for task in tasks:
            begin = so_far

            def tick(share: float, begin: float = begin, weight: float = task.weight) -> None:
                report("domains", begin + share * weight, work)

            tables.append(_build_domain(task, setting, tick))
            so_far += task.weight
            report("domains", so_far, work)
        return tables
    return _build_in_parallel(tasks, setting, report, workers, work)


def _build_in_parallel(
    tasks: list[_Task], setting: CitySetting, report: Progress, workers: int, work: float
) -> list[pa.Table]:
    """The same with worker processes, the largest domains first."""
    found: dict[int, pa.Table] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_keep_setting, initargs=(setting,)
    ) as pool:
        order = sorted(range(len(tasks)), key=lambda index: -tasks[index].weight)
        futures = {pool.submit(_build_with_kept, tasks[index]): index for index in order}
        so_far = 0.0
        try:
            for future in as_completed(futures):
                index = futures[future]
                found[index] = future.result()
                so_far += tasks[index].weight
                report("domains", so_far, work)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[index] for index in range(len(tasks))]


_kept: list[CitySetting] = []
"""The setting of a worker process, sent once."""


def _keep_setting(setting: CitySetting) -> None:
    _kept[:] = [setting]


def _build_with_kept(task: _Task) -> pa.Table:
    return _build_domain(task, _kept[0], lambda share: None)


def _can_pickle(tasks: list[_Task]) -> bool:
    try:
        pickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def _build_domain(task: _Task, setting: CitySetting, tick: Callable[[float], None]) -> pa.Table:
    process = task.process
    if isinstance(process, FilingProcess):
        office = work_filings(process, setting, task.filings_from, task.rule)
        return write_filings(task.folder, process, setting, office.filings, office.visits)
    simulated = simulate_domain(process, setting, task.rule, task.enlargement, tick)
    write_complaints(task.folder, simulated)
    return reporting_truth(simulated)


def _write_parameters(folder: Path, processes: Sequence[Process], departure: Departure) -> None:
    """Every constant of the generator as it is in this world, with value, unit and source."""
    liu = "Liu, Bhandaram and Garg, New York parks"
    city = {
        "income_slope": (setting_module.INCOME_SLOPE, "log reporting rate per sd of income", liu),
        "white_slope": (setting_module.WHITE_SLOPE, "log reporting rate per sd of share", liu),
        "tract_sd": (setting_module.TRACT_SD, "sd of log reporting rate between tracts", liu),
        "smooth_share": (setting_module.SMOOTH_SHARE, "share of that variance", "assumed"),
        "common_share": (setting_module.COMMON_SHARE, "share of that variance", "assumed"),
        "strong_ratio": (setting_module.STRONG_RATIO, "rate in quintile 5 over quintile 1", liu),
        "exploration_share": (EXPLORATION_SHARE, "share of visits drawn at random", "design"),
        "staffing_days": (STAFFING_DAYS, "days of complaints that visits follow", "assumed"),
    }
    parameters = {
        "city": {
            name: {"value": value, "unit": unit, "source": source}
            for name, (value, unit, source) in city.items()
        },
        **{
            one.slug: describe_parameters(
                one if isinstance(one, FilingProcess) else departure.apply(one)
            )
            for one in processes
        },
    }
    path = folder / "truth" / "parameters.json"
    path.write_text(json.dumps(parameters, indent=1, ensure_ascii=False) + "\n")


def _details(preset: Preset, setting: CitySetting, tasks: list[_Task]) -> dict[str, object]:
    filings = [task.filings_from for task in tasks if isinstance(task.process, FilingProcess)]
    return {
        "preset": preset.name,
        "seed": setting.seed,
        "participation": setting.participation,
        "capacity": setting.capacity,
        **({} if setting.departure == DEFAULT else {"world": setting.departure.name}),
        "date_from": setting.date_from.isoformat(),
        "date_to": setting.date_to.isoformat(),
        "filings_from": min(filings).isoformat() if filings else None,
        "scale": setting.scale,
        "enlarged": {
            task.process.slug: round(task.enlargement, 4) for task in tasks if task.enlargement > 1
        },
        "incumbent": getattr(tasks[0].rule, "__name__", "rule") if tasks else None,
        "exploration_share": EXPLORATION_SHARE,
    }
