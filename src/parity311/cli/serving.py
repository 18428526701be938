"""Commands that serve a policy: recommend, and look into packages."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parity311.cli.options import (
    DEFAULT_DATABASE,
    KEPT_JOBS,
    ActionSet,
    Address,
    DatabaseOption,
    EngineName,
    Json,
    ObservationSet,
    ReportingEstimator,
    Runs,
    ShardOption,
    Until,
    Workers,
    check_packages,
    print_json,
    within,
)
from parity311.errors import InputError

if TYPE_CHECKING:
    from parity311.records.journal import Journal
    from parity311.serving.prices import PriceUpdate
    from parity311.serving.recommend import Recommendations

policies_app = typer.Typer(
    help="Make policies, look into them, and keep the registry of who decides.",
    no_args_is_help=True,
)

PolicyFolder = Annotated[Path, typer.Argument(help="Folder of a saved policy.", metavar="POLICY")]
PolicyOrDomain = Annotated[
    Path,
    typer.Argument(
        help="Folder of a saved policy, or a domain: the registry says who decides.",
        metavar="POLICY",
    ),
]
N_PRINTED = 10


def recommend_command(
    policy: PolicyOrDomain,
    records: Annotated[
        Path, typer.Option(help="Records folder, or a city: whose open cases to route.")
    ],
    as_of: Annotated[
        str, typer.Option(help="Moment, as 2025-07-01T08:00; the end of the records if not given.")
    ] = "",
    capacity: Annotated[
        int | None,
        typer.Option(help="Visits there are; those of a working day of the last four weeks."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv, .xlsx or .json.", dir_okay=False)
    ] = None,
    complaint: Annotated[
        str, typer.Option(help="One new complaint as a JSON file, or - for standard input.")
    ] = "",
    update_prices: Annotated[
        bool, typer.Option(help="Bring the coverage prices up to date with what was recorded.")
    ] = False,
    database: DatabaseOption = DEFAULT_DATABASE,
    left_to_today: Annotated[
        float,
        typer.Option(
            help="By the registry: chance that a visit is left to today's rule, for comparison.",
            callback=within(0.0, 0.5),
        ),
    ] = 0.1,
    as_json: Json = False,
) -> None:
    """Say what to do with every open case, in the order to work them, and why."""
    from parity311.records.journal_reader import read_journal
    from parity311.records.store import open_records
    from parity311.serving import prices as service_prices
    from parity311.serving.policy import load_policy
    from parity311.serving.writing import check_ending, write_recommendations

    if out is not None:
        check_ending(out)
    given = _read_complaint(complaint) if complaint else None
    by_registry = is_domain(policy)
    loaded = None if by_registry else load_policy(policy)
    slug = loaded.domain.slug if loaded else str(policy)
    opened = open_records(records)
    moment = _moment(as_of) or datetime.combine(opened.window[1], datetime.min.time())
    journal = read_journal(opened, slug, moment)
    update, office = None, {}
    if loaded is None:
        if update_prices:
            raise InputError(
                "--update-prices was given with a domain; what the registry has does not change. "
                "Recommend by a folder, or run a cycle."
            )
        found, office = _by_registry(database, slug, journal, capacity, left_to_today, given)
    else:
        if update_prices:
            loaded, update = service_prices.update_prices(loaded, journal)
        found = loaded.recommend(journal, capacity=capacity, complaint=given)
    if out is not None:
        write_recommendations(out, found)
    if as_json:
        content: dict[str, Any] = {"summary": found.summary(), "recommendations": found.rows()}
        print_json(content | ({"prices": update.rows()} if update else {}) | office)
        return
    if office:
        told = office["office"]
        typer.echo(
            f"{told['decides']} decides in {slug}; {told['left_to_today']} of the visits are left "
            f"to today's rule; in shadow: {', '.join(told['shadows']) or 'nobody'}; "
            f"{told['kept']} decisions kept"
        )
    if update is not None:
        _print_prices(update)
    print_recommendations(found.summary(), found.rows(N_PRINTED))
    if out is not None:
        typer.echo(f"{len(found):,} recommendations in {out}")


def is_domain(policy: Path) -> bool:
    """Whether what was given is a domain's name, and no folder."""
    from parity311.domains import all_domains

    return str(policy) in all_domains() and not policy.exists()


def _by_registry(
    database: str,
    domain: str,
    journal: Journal,
    capacity: int | None,
    left_share: float,
    complaint: Any,
) -> tuple[Recommendations, dict[str, Any]]:
    """What the version in office recommends, and what is to be told of the office."""
    check_packages()
    from parity311.lifecycle.office import TODAY_ARM, recommend_in_office
    from parity311.lifecycle.registry import Registry

    day = recommend_in_office(
        Registry(database), domain, journal,
        capacity=capacity, left_share=left_share, complaint=complaint,
    )  # fmt: skip
    told = {
        "decides": day.version or "today's rule",
        "left_to_today": int((day.arm == TODAY_ARM).sum()) if day.version else 0,
        "shadows": list(day.shadows),
        "kept": day.n_kept,
    }
    return day.found, {"office": told}


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"The moment {text!r} was given; write it as 2025-07-01 or 2025-07-01T08:00."
        ) from None


def _read_complaint(name: str) -> Any:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"{name} holds no complaint ({error}); give a file with one JSON object."
        ) from error


def evaluate_command(
    policies: Annotated[
        list[Path], typer.Argument(help="Folders of saved policies.", metavar="POLICY...")
    ],
    city: Annotated[Path, typer.Option(help="Synthetic city whose test year they play.")],
    years: Annotated[
        int,
        typer.Option(
            help="Years to play: the city's own, then others drawn anew.", callback=within(1, 200)
        ),
    ] = 5,
    exploration: Annotated[
        float,
        typer.Option(
            help="Share of the visits drawn at random, for all alike.", callback=within(0.0, 1.0)
        ),
    ] = 0.1,
    shared: Annotated[
        bool, typer.Option("--shared-inspectors", help="One staff for all domains of the city.")
    ] = False,
    runs: Runs = Path("runs"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Let policies play a city's test year in the place of today's rule, and compare."""
    from parity311.jobs.choose import choose_engine
    from parity311.pipelines.evaluate import evaluate_policies
    from parity311.pipelines.progress import progress_bars

    where = choose_engine(engine, address, workers, shard)
    with progress_bars() as progress:
        found = evaluate_policies(
            policies,
            city,
            n_replicates=years,
            exploration=exploration,
            is_shared=shared,
            where=where,
            kept=runs / KEPT_JOBS,
            progress=progress,
        )
    if as_json:
        print_json(found)
    else:
        _print_evaluation(found)


@policies_app.command("make")
def make_command(
    domain: Annotated[str, typer.Argument(help="Domain, as `parity311 domains` lists them.")],
    rule: Annotated[
        str, typer.Argument(help="Rule of thumb of the domain, or plan: its computed optimum.")
    ],
    records: Annotated[Path, typer.Option(help="Records folder, or a city, to estimate from.")],
    out: Annotated[Path, typer.Option(help="Folder to write the policy to.", file_okay=False)],
    until: Until = None,
    estimator: ReportingEstimator = "exposure_rate",
    equity: Annotated[
        float, typer.Option(help="Weight on equitable coverage.", callback=within(0.0, 1.0))
    ] = 0.0,
    draws: Annotated[
        int,
        typer.Option(
            help="Further estimates, with tracts drawn anew, that vote on every recommendation.",
            callback=within(0, 200),
        ),
    ] = 20,
    observation_set: ObservationSet = "",
    action_set: ActionSet = "published",
) -> None:
    """Make a rule of thumb or a plan from records, and save it as a policy to serve."""
    from parity311.pipelines.packages import make_package
    from parity311.pipelines.progress import progress_bars

    with progress_bars() as progress:
        folder = make_package(
            domain,
            rule,
            records=records,
            out=out,
            until=until.date() if until else None,
            estimator=estimator,
            equity=equity,
            n_draws=draws,
            observation_set=observation_set,
            action_set=action_set,
            progress=progress,
        )
    typer.echo(f"Next: parity311 recommend {folder} --records {records}")


@policies_app.command("show")
def show_command(policy: PolicyFolder, as_json: Json = False) -> None:
    """Say what a saved policy is, what it sees, what it was made for and from what."""
    from parity311.serving.policy import load_policy

    manifest = load_policy(policy).manifest
    if as_json:
        print_json(manifest)
    else:
        _print_manifest(manifest)


def print_recommendations(summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Print a summary and the first recommendations."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{summary['domain']}, {summary['as_of']}: {summary['open_cases']:,} open cases, "
        f"{summary['visits_asked_for']:,} visits asked for, {summary['visits_there_are']:,} there "
        f"are; {summary['same_as_todays_rule']:,} of {summary['visits_made']:,} are those of "
        "today's rule.",
        highlight=False,
    )
    strata = Table(box=SIMPLE_HEAD)
    for heading in ("stratum", "open", "asked for", "made", "today's rule"):
        strata.add_column(heading, justify="left" if heading == "stratum" else "right")
    for row in summary["by_stratum"]:
        cells = [row["open_cases"], *(row.get(k) for k in ("asked_for", "made", "todays_rule"))]
        shown = [f"{cell:,}" if cell is not None else "<10" for cell in cells]
        strata.add_row(row["stratum"], *shown)
    console.print(strata)
    for row in rows:
        goes = "" if row["today"] == "visit" else f" ({row['today']})"
        left = row["days_left"]
        due = f"due in {left:,.1f} days" if left >= 0 else f"{-left:,.1f} days overdue"
        console.print(
            f"{row['rank']:>3}  {row['complaint_id']}  [bold]{row['action']}[/]{goes}, code "
            f"{row['severity']}, {due}; today's rule: {row['todays_rule']}, number "
            f"{row['todays_rank']:,}",
            highlight=False,
            soft_wrap=True,
        )
        why = [x for x in (row["fallback"], row["price_effect"], row["reasons"]) if x]
        if why:
            console.print(f"       {'; '.join(why)}", highlight=False, soft_wrap=True, style="dim")
    for text, count in summary["fallbacks"].items():
        console.print(f"Today's rule decides {count:,} cases: {text}.", highlight=False)


def _print_prices(update: PriceUpdate) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Coverage prices since {update.since}", box=SIMPLE_HEAD)
    for heading in ("stratum", "before", "after", "why"):
        table.add_column(heading)
    for row in update.rows():
        prices = (f"{row['price_before']:+.3f}", f"{row['price_after']:+.3f}")
        table.add_row(row["stratum"], *prices, row["why"])
    Console().print(table)


def _print_manifest(manifest: dict[str, Any]) -> None:
    for name, value in manifest.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items() if one)
        elif isinstance(value, list):
            value = ", ".join(f"{one:.4g}" if isinstance(one, float) else str(one) for one in value)
        typer.echo(f"{name.replace('_', ' ')}: {value}")


def _print_evaluation(found: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for entry in found["domains"]:
        table = Table(
            title=f"{entry['domain']} in {found['city']}: {found['replicates']} test years played",
            box=SIMPLE_HEAD,
        )
        for heading in ("policy", "coverage", "gap", "recall", "visits", "over today", "expected",
                        "fell back"):  # fmt: skip
            table.add_column(heading, overflow="fold")
        for row in entry["policies"]:
            believed = row.get("expected_over_today", {}).get("coverage")
            table.add_row(
                row["policy"],
                *(f"{row[name]['value']:.3f}" for name in ("coverage", "gap", "recall")),
                f"{row['n_visits']['value']:,.0f}",
                _lead(row["coverage_over_today"]),
                "–" if believed is None else f"{believed:+.3f}",
                f"{row['fallback_share']:.0%}",
            )
        console.print(table)


def _lead(figure: dict[str, Any]) -> str:
    """A difference with its interval."""
    if figure["interval"] is None:
        return f"{figure['value']:+.3f}"
    low, high = figure["interval"]
    return f"{figure['value']:+.3f} [{low:+.3f}, {high:+.3f}]"
