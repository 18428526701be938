"""`parity311 backtest` and `parity311 bench off-policy`: parse, call, print."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import Json, ObservationSet, print_json, seed_option, within


def backtest_command(
    domain: Annotated[str, typer.Argument(help="A domain's name.")],
    records: Annotated[
        Path,
        typer.Option(
            help="Folder of records (a city, or imported), or a log of decisions (.parquet)."
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A rule's name or a saved policy's folder; may be repeated; all rules."),
    ] = None,
    propensities: Annotated[
        str, typer.Option(help="logged, logistic or tabular; logged where they are, else logistic.")
    ] = "",
    support_min_count: Annotated[
        int,
        typer.Option(
            help="Decisions on record that an action needs in a kind of case.",
            callback=within(1, 1_000_000),
        ),
    ] = 20,
    rules_from: Annotated[
        Path | None,
        typer.Option(
            help="With a log: records that rules are made from; the domain's example if not given."
        ),
    ] = None,
    date_from: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="First day of decisions; the last year."),
    ] = None,
    date_to: Annotated[
        datetime | None,
        typer.Option("--to", formats=["%Y-%m-%d"], help="Day after the last decision."),
    ] = None,
    estimator: Annotated[
        str, typer.Option(help="Estimator that is printed; --json has all of them.")
    ] = "doubly_robust",
    reporting_estimator: Annotated[
        str,
        typer.Option(help="How complaints become incidents, as `reporting estimate --estimator`."),
    ] = "exposure_rate",
    observation_set: ObservationSet = "",
    as_json: Json = False,
) -> None:
    """Value policies on decisions that were already made; refuse where the log cannot say."""
    from parity311.errors import unknown_name
    from parity311.evaluation.off_policy.backtest import prepare_backtest, run_backtest
    from parity311.evaluation.off_policy.estimate import ESTIMATORS, Options
    from parity311.evaluation.off_policy.propensity import METHODS

    if estimator not in ESTIMATORS:
        _point_to_reporting(estimator)
        raise unknown_name("estimator", estimator, ESTIMATORS)
    if propensities and propensities not in ("logged", *METHODS):
        raise unknown_name("propensities", propensities, ("logged", *METHODS))
    test = prepare_backtest(
        domain,
        records,
        policy or (),
        date_from=date_from.date() if date_from else None,
        date_to=date_to.date() if date_to else None,
        estimator=reporting_estimator,
        rules_from=rules_from,
        observation_set=observation_set,
    )
    method = propensities or ("logged" if test.logs.has_propensities else "logistic")
    options = Options(propensities=method, support_min_count=support_min_count)
    result = run_backtest(test, options)
    if as_json:
        print_json(result)
    else:
        _print_backtest(result, estimator)


def _point_to_reporting(given: str) -> None:
    """Say where an estimator of incidents belongs: here --estimator values policies."""
    from parity311.errors import InputError
    from parity311.reporting.estimate import ALL_ESTIMATORS

    if given in ALL_ESTIMATORS:
        raise InputError(
            f"--estimator {given} was given, which says how complaints become incidents; in a "
            f"backtest write --reporting-estimator {given}."
        )


def _print_backtest(result: dict[str, Any], estimator: str) -> None:
    what = "cases" if result["n_steps"] == 1 else f"episodes of {result['n_steps']} decisions"
    if result["kind"] == "visits":
        what = "cases on mornings with a visit, told by the visit"
    typer.echo(
        f"{result['domain']}: {result['n_episodes']:,} {what}, propensities "
        f"{result['propensities']}; logged decisions earned {_tell(result['logged']['overall'])}"
    )
    if result["kind"] == "process":
        typer.echo(f"  rules are made from: {result['rules_from']}")
    for row in result["policies"]:
        found = next(one for one in row["estimators"] if one["estimator"] == estimator)
        line = f"  {row['policy']:<18}"
        if found["value"] is None:
            typer.echo(f"{line} refused: {found['value_reason']}")
            _print_held(row, estimator)
            continue
        line += f" {_tell(found)}, effective size {found['effective_size']:,.0f}"
        hidden = row.get("hidden_reason", {}).get("overturning_gamma")
        if hidden is not None:
            line += f", overturned at Γ {hidden:.2f}" if hidden > 1 else ", no clear difference"
        typer.echo(line)


def _print_held(row: dict[str, Any], estimator: str) -> None:
    """The policy held to what is on record, where that can be valued."""
    for one in row.get("held_to_support", ()):
        if one["estimator"] == estimator and one["value"] is not None:
            typer.echo(f"  {'':<18} held to actions on record: {_tell(one)}")


def _tell(figure: dict[str, Any]) -> str:
    return f"{figure['value']:+.4f} ({figure['lower']:+.4f} to {figure['upper']:+.4f})"


def bench_off_policy_command(
    logs: Annotated[
        int, typer.Option(help="Synthetic logs of each setting.", callback=within(20, 100_000))
    ] = 200,
    truth_episodes: Annotated[
        int,
        typer.Option(
            help="Episodes that a true value is played in.", callback=within(1000, 100_000_000)
        ),
    ] = 200_000,
    city: Annotated[
        Path | None,
        typer.Option(help="Synthetic city whose true processes write the logs; else examples."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="Only settings whose name begins so; may be repeated.")
    ] = None,
    seed: Annotated[int, seed_option("Same seed, same logs.")] = 0,
    as_json: Json = False,
) -> None:
    """How often off-policy intervals hold the truth, and whether refusals fire."""
    from parity311.evaluation.off_policy.validate import choose_settings, true_params_of, validate

    found = validate(
        choose_settings(setting or ()),
        n_logs=logs,
        n_truth=truth_episodes,
        seed=seed,
        params_of=None if city is None else true_params_of(city),
        progress=lambda name: typer.echo(f"{name} …", err=True),
    )
    if as_json:
        print_json({"seed": seed, "settings": found})
        return
    for record in found:
        _print_setting(record)


def _print_setting(record: dict[str, Any]) -> None:
    typer.echo(
        f"{record['setting']} ({record['kind']}): {record['n_logs']} logs of "
        f"{record['n_episodes']:,} × {record['n_steps']}, {record['verdict']}"
    )
    for row in record["estimators"]:
        covered = "–" if row["coverage"] is None else f"{row['coverage']:.1%}"
        bias = "–" if row["bias"] is None else f"{row['bias']:+.4f}"
        rmse = "–" if row["rmse"] is None else f"{row['rmse']:.4f}"
        typer.echo(
            f"  {row['estimator']:<30} covers {covered:>6}  bias {bias:>8}  rmse {rmse:>7}  "
            f"effective {row['effective_size']:>6,.0f}  refused {row['refused']:.0%}"
        )
    if "bounds" in record:
        bounds = record["bounds"]
        typer.echo(
            f"  bounds at Γ {bounds['gamma']:g} hold the truth in {bounds['at_true_gamma']:.0%} of "
            f"{bounds['n_logs']} logs, without it in {bounds['without']:.0%}"
        )
