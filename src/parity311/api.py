"""What the public names of the package compose: several layers in one call, and no more.

A name that stands in one layer is taken from there (`parity311.__init__` says where); here is only
what a user would otherwise have to put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity311.domains import all_domains, get_domain
from parity311.records.store import Records, open_records

if TYPE_CHECKING:
    from parity311.pipelines.frontier import FrontierConfig
    from parity311.pipelines.run import RunConfig
    from parity311.training.loop import Trained

Progress = Callable[[str, float, float], None]
"""(stage, so far, total): called by what takes long."""


def _say_nothing(stage: str, so_far: float, total: float) -> None:
    pass


def build_city(
    out: str | Path = "city",
    *,
    domains: Sequence[str] | None = None,
    preset: str = "small",
    seed: int = 7,
    participation: str = "measured",
    capacity: str = "calibrated",
    world: str = "default",
    date_from: date | None = None,
    date_to: date | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Records:
    """Build a synthetic city into a folder and open its records; same arguments, same bytes.

    The truth of the city lies beside the records and cannot be reached through them.

    Parameters
    ----------
    out
        Folder to write; one that holds a synthetic city is replaced with ``overwrite``.
    domains
        Slugs of the domains whose incidents happen in it; all of them if not given.
    preset
        ``small`` (200 tracts, three years) or ``nyc`` (2,325 tracts, six years).
    participation, capacity
        Scenarios: ``measured`` or ``strong``, ``calibrated`` or ``scarce``.
    world
        In what it departs from what estimators assume, e.g. ``gamma``: few incidents end soon.
    date_from, date_to
        First day and the day after the last; the preset's own if not given.
    progress
        Called with (stage, so far, total).
    workers
        Processes; one or two by the size of the city if not given.

    Examples
    --------
    >>> records = parity311.build_city("cities/mine", domains=["crane"], workers=1)
    >>> records.domains, records.is_real
    (('crane',), False)
    """
    from parity311.city.build import build_city as build

    slugs = tuple(all_domains()) if domains is None else tuple(domains)
    folder = build(
        [get_domain(slug).process for slug in slugs],
        preset,
        seed,
        participation,
        capacity,
        date_from,
        date_to,
        out,
        world=world,
        overwrite=overwrite,
        progress=progress,
        workers=workers,
    )
    return open_records(folder)


def compare(
    trained: Trained | Sequence[Trained],
    estimated: Any,
    scored: Any = None,
    *,
    n_episodes: int = 64,
    seed: int = 0,
    preference: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Compare trained agents with every rule of their domain and the ceiling, one row a policy.

    All play the same episodes with the same capacity.

    Parameters
    ----------
    trained
        What `train` gave, once or several times in the same domain.
    estimated
        Params that rules and coverage prices are made from.
    scored
        Params that everybody plays in; the estimated ones if not given, and then what the estimate
        has wrong is not seen.
    n_episodes
        Episodes every policy plays, at least 2.
    preference
        Weights under which the reward is scored; the domain's own if not given.

    Returns
    -------
    Rows of plain numbers. ``policy`` names it (``balanced`` is today's rule); ``reward``,
    ``recall``, ``coverage_gap`` and others are {value, lower, upper}, a 95 % interval.

    Examples
    --------
    >>> rows = parity311.compare(trained, params, n_episodes=2)
    >>> [row["policy"] for row in rows]  # doctest: +NORMALIZE_WHITESPACE
    ['balanced', 'emerg', 'expert', 'always', 'never', 'random', 'score', 'dual_threshold', 'dqn',
     'static_thresholds', 'ceiling']
    >>> rows[4]["visits_per_complaint"]["value"]
    0.0
    """
    import jax

    from parity311.evaluation.compare import compare_policies
    from parity311.training.loop import Trained

    batches = [trained] if isinstance(trained, Trained) else list(trained)
    harness = batches[0].harness
    return compare_policies(
        harness,
        estimated,
        estimated if scored is None else scored,
        batches,
        n_episodes=n_episodes,
        key=jax.random.key(seed),
        preference=harness.domain.preference if preference is None else preference,
    )


def run(
    config: RunConfig | None = None,
    *,
    runs: str | Path = "runs",
    cities: str | Path = "cities",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Go the whole way: city or records, correction, training, comparison, audit, report.

    What `parity311 run` does. Cities that are not under ``cities`` yet are built there first.

    Examples
    --------
    >>> config = parity311.RunConfig(
    ...     domains=("boiler",), n_steps=8, n_agent_seeds=1, n_episodes=2, n_independent_episodes=2
    ... )
    >>> found = parity311.run(config)
    >>> parity311.open_run(found["run"]).page_path.is_file()
    True
    """
    from parity311.pipelines.run import RunConfig, run_pipeline

    return run_pipeline(
        config or RunConfig(),
        runs=Path(runs),
        cities=Path(cities),
        progress=progress or _say_nothing,
    )


def frontier(
    config: FrontierConfig, *, runs: str | Path = "runs", progress: Progress | None = None
) -> dict[str, Any]:
    """Learn a menu of preferences and find which points nothing beats: what equity costs.

    What `parity311 frontier` does; needs the extra ``frontier``.

    Examples
    --------
    >>> config = parity311.FrontierConfig(
    ...     "boiler",
    ...     "cities/small-7-measured-calibrated",
    ...     preferences=2,
    ...     seeds=1,
    ...     steps=8,
    ...     has_sensitivity=False,
    ... )
    >>> found = parity311.frontier(config)
    >>> len(found["points"])
    2
    """
    from parity311.pipelines.frontier import run_frontier

    return run_frontier(config, runs=Path(runs), progress=progress or _say_nothing)
