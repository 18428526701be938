"""Commands that make policies and look after them: cycle, watch, feedback and weigh."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.lifecycle import By
from parity311.cli.options import (
    DEFAULT_DATABASE,
    KEPT_JOBS,
    Address,
    DatabaseOption,
    Denominator,
    EngineName,
    EquityForm,
    EquityMode,
    Json,
    ReportingEstimator,
    RewardStrata,
    Runs,
    Seed,
    ShardOption,
    Steps,
    Until,
    Workers,
    check_packages,
    print_json,
    seed_option,
    within,
)
from parity311.errors import InputError
from parity311.mdp.equity import EquityTerm
from parity311.records.strata import INCOME

FAILED = 3
"""Exit code of a look that a scheduler should hear of."""
RecordsFolder = Annotated[
    Path, typer.Option(help="Records folder, imported or a city's.", file_okay=False)
]
ServiceLevelsFile = Annotated[
    Path | None,
    typer.Option(help="Service levels in force (TOML), as `sla design` writes them.",
                 dir_okay=False),
]  # fmt: skip


def cycle_command(
    domain: Annotated[
        str, typer.Argument(help="Domain whose policy is made anew; several with commas.")
    ],
    by: By,
    records: Annotated[
        Path | None,
        typer.Option(help="Records folder, imported or a city's.", file_okay=False),
    ] = None,
    cities: Annotated[
        Path | None,
        typer.Option(
            help="Many cities instead, each with records and a registry of its own (TOML: "
            r"\[cities.NAME] records = …).",
            dir_okay=False,
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Why, for the log; the records are named if not given.")
    ] = "",
    agent: Annotated[
        str, typer.Option(help="Agent that learns, or a rule of the domain (dual_threshold …).")
    ] = "dqn",
    equity: Annotated[
        float, typer.Option(help="Weight on equity.", callback=within(0.0, 1.0))
    ] = 0.5,
    weights: Annotated[
        Path | None, typer.Option(help="Weights that `parity311 weigh` wrote.", dir_okay=False)
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="Audit specification (TOML).", dir_okay=False)
    ] = None,
    steps: Steps = 8_000,
    seeds: Annotated[
        int, typer.Option(help="Agents to train; all but the first vote.", callback=within(1, 50))
    ] = 2,
    seed: Seed = 0,
    until: Until = None,
    estimator: ReportingEstimator = "exposure_rate",
    action_set: Annotated[
        str,
        typer.Option(
            help="published: the paper's actions; extended: those and ours. If not given, the "
            "published ones, or those that a rule needs."
        ),
    ] = "",
    episodes: Annotated[
        int,
        typer.Option(
            help="Episodes of the trial that is audited; 0: as many as usual.",
            callback=within(0, 100_000),
        ),
    ] = 0,
    equity_mode: EquityMode = "dual",
    equity_form: EquityForm = "max_gap",
    denominator: Denominator = "actionable",
    strata: RewardStrata = INCOME,
    service_levels: ServiceLevelsFile = None,
    out: Annotated[
        Path, typer.Option(help="Folder that steps are kept in.", file_okay=False)
    ] = Path("cycles"),
    database: DatabaseOption = DEFAULT_DATABASE,
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Run one retraining cycle; it ends in a policy proposed, held for review or refused."""
    check_packages()
    if (records is None) == (cities is None):
        raise InputError("Name the records with --records, or many cities with --cities; one.")
    from parity311.audit.spec import AuditSpec, read_spec
    from parity311.jobs.choose import choose_engine
    from parity311.lifecycle.cycle import run_cycle
    from parity311.lifecycle.cycle_config import CycleConfig
    from parity311.lifecycle.many_cycles import NO_DECISION, CityOffice, read_cities, run_cycles
    from parity311.lifecycle.weights_file import read_weights
    from parity311.pipelines.progress import progress_bars
    from parity311.service_levels.levels import read_levels
    from parity311.training.train_run import keep_to_one_thread

    keep_to_one_thread()
    where = choose_engine(engine, address, workers, shard)
    slugs = [one.strip() for one in domain.split(",") if one.strip()]
    if weights and (cities is not None or len(slugs) > 1):
        raise InputError("Weights are of one domain; leave out --weights, or name one domain.")
    config = CycleConfig(
        domain=slugs[0] if slugs else domain,
        agent=agent,
        n_steps=steps,
        n_seeds=seeds,
        seed=seed,
        equity=equity,
        weights=read_weights(weights, domain) if weights else None,
        action_set=action_set,
        n_episodes=episodes,
        estimator=estimator,
        until=until.date() if until else None,
        term=EquityTerm(equity_mode, equity_form, denominator, strata),
        spec=read_spec(spec) if spec else AuditSpec(),
        levels=read_levels(service_levels) if service_levels else None,
    )
    with progress_bars() as progress:
        if records is not None and len(slugs) < 2:
            found = run_cycle(
                config, records, database=database, out=out, by=by, reason=reason, progress=progress
            )
        else:
            levels = str(service_levels.resolve()) if service_levels else ""
            here = CityOffice(str(records), database=database, service_levels=levels)
            found = run_cycles(
                config, slugs, read_cities(cities) if cities else {".": here}, out=out,
                registry=Path(DEFAULT_DATABASE).parent, by=by, reason=reason, where=where,
                progress=progress,
            )  # fmt: skip
    if as_json:
        print_json(found)
    elif "cycles" not in found:
        _print_cycle(found)
    else:
        _print_cycles(found)
    if any(one["outcome"] == NO_DECISION for one in found.get("cycles", ())):
        raise typer.Exit(FAILED)


def _print_cycles(found: dict[str, Any]) -> None:
    for row in found["cycles"]:
        version = f" as {row['version']}" if row["version"] else ""
        where = "" if row["city"] == "." else f"{row['city']}, "
        typer.echo(f"{where}{row['domain']}: {row['outcome']}{version} ({row['reasons'][0]})")
    if "report" in found:
        typer.echo(f"Report: {found['report']}")


def _print_cycle(found: dict[str, Any]) -> None:
    version = found["version"]
    typer.echo(f"{found['domain']}: {found['outcome']}{f' as {version}' if version else ''}")
    for one in found["reasons"]:
        typer.echo(f"- {one}")
    fresh = [one["step"] for one in found["steps"] if one["is_new"]]
    typer.echo(f"Done now: {', '.join(fresh) or 'nothing, all of it was there'}")
    typer.echo(f"In writing: {found['folder']}/decision.md")
    if version:
        typer.echo(f"Next: parity311 policies shadow {version} --by NAME --reason TEXT")


def watch_command(
    domain: Annotated[str, typer.Argument(help="Domain whose policy in office is looked at.")],
    records: RecordsFolder,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="First day of the evidence; that of its release or resume if not given.",
        ),
    ] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(help="Log of what staff did (CSV with date), as `audit` takes it."),
    ] = None,
    survey: Annotated[
        Path | None, typer.Option(help="Survey of staff (CSV: date, score from 0 to 1).")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="Audit specification (TOML).", dir_okay=False)
    ] = None,
    service_levels: ServiceLevelsFile = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="Chance of a false alarm a year, all lights.", callback=within(1e-4, 0.5)
        ),
    ] = 0.05,
    gap_margin: Annotated[
        float,
        typer.Option(help="How far the gap may exceed its baseline.", callback=within(1e-6, 1.0)),
    ] = 0.05,
    detection_margin: Annotated[
        float,
        typer.Option(help="How far finds may lie below today's rule's.", callback=within(0.0, 1.0)),
    ] = 0.0,
    most_overrides: Annotated[
        float,
        typer.Option(help="Share that staff may set aside.", callback=within(1e-6, 1.0)),
    ] = 0.3,
    most_friction: Annotated[
        float, typer.Option(help="Mean answer of staff allowed.", callback=within(1e-6, 1.0))
    ] = 0.5,
    by: Annotated[
        str,
        typer.Option(
            help="Act in this person's name: amber is logged as watch, red as suspend. Without a "
            "name nothing is done."
        ),
    ] = "",
    estimator: ReportingEstimator = "exposure_rate",
    fail_on: Annotated[
        str, typer.Option(help="Exit with 3 where the lights say so: suspend, or watch.")
    ] = "",
    metrics: Annotated[
        Path | None, typer.Option(help="File for Prometheus (.prom).", dir_okay=False)
    ] = None,
    runs: Runs = Path("runs"),
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Judge the policy in office on what was recorded since: audit, three lights, drift, a page."""
    check_packages()
    from parity311.audit.spec import AuditSpec, read_spec
    from parity311.lifecycle.gates import check_words
    from parity311.lifecycle.lights import AMBER, RED, LightSpec
    from parity311.lifecycle.registry import Registry
    from parity311.lifecycle.watch import watch_and_write
    from parity311.pipelines.overrides import read_overrides
    from parity311.records.store import open_records
    from parity311.service_levels.levels import read_levels

    fails = {"": (), "suspend": (RED,), "watch": (RED, AMBER)}
    if fail_on not in fails:
        raise InputError(f"--fail-on {fail_on!r} was given; allowed: suspend, watch.")
    if by:
        check_words(by, "lights")
    found = watch_and_write(
        Registry(database),
        domain,
        open_records(records),
        runs=runs,
        metrics=metrics,
        by=by,
        since=since.date() if since else None,
        spec=LightSpec(alpha, gap_margin, detection_margin, most_overrides, most_friction),
        audit=read_spec(spec) if spec else AuditSpec(),
        overrides=read_overrides(overrides) if overrides else (),
        survey=survey,
        estimator=estimator,
        levels=read_levels(service_levels) if service_levels else None,
    )
    if as_json:
        print_json(found)
    else:
        _print_watch(found)
    if found["state"] in fails[fail_on]:
        raise typer.Exit(FAILED)


def _print_watch(found: dict[str, Any]) -> None:
    typer.echo(
        f"{found['domain']}: {found['version']} since {found['since']}, lights {found['state']}"
    )
    for one in found["lights"]:
        typer.echo(
            f"- {one['name']}: {one['state']}, evidence {one['evidence']:.3g} of {one['limit']:g}; "
            f"{one['words']}"
        )
    for one in found["drift"]:
        if one["is_moved"]:
            typer.echo(f"- moved: {one['what']}, {one['measure']} {one['value']:.2f}")
    if found["promises"]:
        _print_kept(found["promises"])
    if found["done"]:
        typer.echo(f"Logged: {found['done']}")
    typer.echo(f"Page: {found['page']}")


def _print_kept(promises: dict[str, Any]) -> None:
    whole = promises["whole"]
    share = "too few to say" if whole["kept_share"] is None else f"{whole['kept_share']:.0%} kept"
    typer.echo(f"- promises: {share} of {whole['n_due']:,} due, {promises['share']:.0%} promised")
    for one in promises["cells"]:
        if one["is_broken"]:
            typer.echo(f"- broken: {one['category']} in {one['district']}, {one['days']} days")


def feedback_command(
    domain: Annotated[str, typer.Argument(help="Domain with complaints, such as heat.")],
    rounds: Annotated[int, typer.Option(help="Rounds, each a year.", callback=within(2, 20))] = 12,
    cities: Annotated[
        int, typer.Option(help="Synthetic cities; bands need 2 or more.", callback=within(1, 200))
    ] = 10,
    learner: Annotated[
        str,
        typer.Option(
            help="counts: goes where it found most for each household; places: for each complaint; "
            "thresholds: what this project serves."
        ),
    ] = "counts",
    arms: Annotated[
        str,
        typer.Option(
            help="Comma-separated: today, none, bonus, random, checkpoints, weighted; all if empty."
        ),
    ] = "",
    world: Annotated[
        str, typer.Option(help="discouraged: people report less where nobody came; or default.")
    ] = "discouraged",
    participation: Annotated[str, typer.Option(help="measured or strong.")] = "strong",
    capacity: Annotated[str, typer.Option(help="calibrated or scarce.")] = "scarce",
    visits: Annotated[
        float,
        typer.Option(
            help="Visits from the first round on, times the capacity's.", callback=within(0.01, 10)
        ),
    ] = 1.0,
    withheld: Annotated[
        float | None,
        typer.Option(
            help="Share of reports not made where nobody ever comes; the world's own if not given.",
            callback=within(0.0, 1.0),
        ),
    ] = None,
    seed: Annotated[int, seed_option("Of the first city; the others follow.")] = 1901,
    runs: Runs = Path("runs"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Show what happens when a policy's own decisions become its training data."""
    check_packages()
    from parity311.jobs.choose import choose_engine
    from parity311.lifecycle.feedback import ARMS, FeedbackConfig, run_feedback
    from parity311.lifecycle.feedback_page import write_feedback
    from parity311.pipelines.progress import progress_bars

    where = choose_engine(engine, address, workers, shard)
    config = FeedbackConfig(
        domain=domain,
        rounds=rounds,
        n_cities=cities,
        seed=seed,
        learner=learner,
        arms=tuple(arms.split(",")) if arms else tuple(ARMS),
        participation=participation,
        capacity=capacity,
        world=world,
        visits=visits,
        withheld=withheld,
    )
    with progress_bars() as progress:
        found = run_feedback(config, progress, where=where, kept=runs / KEPT_JOBS)
    written = write_feedback(found, runs)
    if as_json:
        print_json({**found, **written})
        return
    for line in found["why"]:
        typer.echo(line)
    for row in found["drift"]:
        drift, finds = row["coverage_lowest_drift"], row.get("discovered_over_none")
        cost = "" if finds is None else f"; finds {finds['value']:+.1%} against none"
        typer.echo(f"- {row['arm']}: lowest quintile {_points(drift)}{cost}")
    typer.echo(f"Page: {written['page']}")


def _points(figure: dict[str, Any]) -> str:
    shown = f"{100 * figure['value']:+.1f} points"
    if figure["interval"] is None:
        return shown
    low, high = figure["interval"]
    return f"{shown} [{100 * low:+.1f}, {100 * high:+.1f}]"


def weigh_command(
    frontier: Annotated[
        str, typer.Argument(help="Run of `parity311 frontier`, or its frontier.json.")
    ],
    choices: Annotated[
        Path | None,
        typer.Option(help="What groups chose (CSV: group, alternative, reason, people)."),
    ] = None,
    ballot: Annotated[
        Path | None, typer.Option(help="Write a CSV for groups to fill in.", dir_okay=False)
    ] = None,
    alternatives: Annotated[
        int, typer.Option(help="Alternatives to choose from.", callback=within(2, 8))
    ] = 5,
    by_people: Annotated[
        bool, typer.Option(help="Count a group by the people it speaks for, not every group alike.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Weights to write, for `cycle --weights`.", dir_okay=False)
    ] = Path("weights.json"),
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Present policies as outcomes, record what groups choose and why, and write the weights."""
    check_packages()
    from parity311.lifecycle import weighing

    domain, points, origin = weighing.read_frontier(frontier, runs)
    listed = weighing.list_alternatives(points, alternatives)
    found: dict[str, Any] = {"domain": domain, "alternatives": listed}
    if choices is not None:
        given = weighing.read_choices(choices, listed)
        found |= weighing.weigh(listed, given, points, by_people=by_people)
        weighing.write_weighed(out, domain, origin, listed, found)
        found["out"] = str(out)
    if ballot is not None:
        weighing.write_ballot(ballot, listed)
    if as_json:
        print_json(found)
        return
    for one in listed:
        typer.echo(f"{one.letter}: {one.words}")
    if choices is None:
        typer.echo("Next: write what each group chooses and why, then give it with --choices")
        return
    _print_weighed(found)


def _print_weighed(found: dict[str, Any]) -> None:
    from parity311.mdp.contract import REWARD_NAMES

    shares = zip(REWARD_NAMES, found["weights"], strict=True)
    typer.echo("Weights: " + ", ".join(f"{name} {share:.0%}" for name, share in shares))
    for one in found["groups"]:
        alone = one["alone"]
        typer.echo(
            f"- {one['group']} chose {one['alternative']} ({one['reason']}); by its choice alone "
            f"the gap would change by {100 * alone['gap']:+.1f} points and finds by "
            f"{100 * alone['recall']:+.1f}"
        )
    typer.echo(
        f"Next: parity311 cycle {found['domain']} --weights {found['out']} --records DIR --by NAME"
    )
