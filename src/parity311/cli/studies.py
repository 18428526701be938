"""`parity311 reproduce` and `parity311 parity`: parse, call, print; nothing heavy comes before."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parity311.cli.options import (
    KEPT_JOBS,
    Address,
    Cities,
    EngineName,
    Json,
    Runs,
    Seconds,
    ShardOption,
    Workers,
    print_json,
    seed_option,
    within,
)
from parity311.errors import InputError
from parity311.limits import MOST_STEPS


def parity_command(
    domain: Annotated[str, typer.Argument(help="heat, housing, elevator or boiler.")],
    city: Annotated[
        list[Path],
        typer.Option(help="Folder of a synthetic city, which has a truth; may be repeated."),
    ],
    prepare: Annotated[
        Path | None,
        typer.Option(
            help="Only write the arrays to this folder, to be studied elsewhere.", file_okay=False
        ),
    ] = None,
    years: Annotated[
        int, typer.Option(help="Scored years; 0: as many as needed.", callback=within(0, 100_000))
    ] = 0,
    settling: Annotated[
        int, typer.Option(help="Plays of a settling round.", callback=within(0, 100_000))
    ] = 0,
    agent_steps: Annotated[
        int, typer.Option(help="Updates of each agent; 0: none.", callback=within(0, MOST_STEPS))
    ] = 8000,
    factors: Annotated[
        str, typer.Option(help="Factors on the inspectors, beside 1; empty: none.")
    ] = "0.25,0.5,2,4",
    in_city: Annotated[
        int,
        typer.Option(
            help="Play instead so many test years of the city itself, beside the process.",
            callback=within(0, 1_000),
        ),
    ] = 0,
    runs: Runs = Path("runs"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Say what parity costs: chosen on validation, scored on test years, beside its floor."""
    if in_city:
        if prepare is not None:
            raise InputError("--prepare writes a world, --in-city plays one; give one of them.")
        _play_in_city(domain, city, in_city, years, settling, agent_steps, as_json)
        return
    from parity311.jobs.choose import choose_engine
    from parity311.studies.parity.study import StudyConfig, parse_factors, study_worlds
    from parity311.studies.parity.world import prepare_world

    where = choose_engine(engine, address, workers, shard)
    if prepare is not None:
        if len(city) > 1:
            raise InputError("Several cities were given with --prepare; prepare them one by one.")
        prepare_world(domain, city[0], prepare)
        _print({"world": str(prepare)}, as_json, f"Next: study {prepare} where there is time.")
        return
    config = StudyConfig(
        n_years=years,
        n_settling=settling,
        n_agent_steps=agent_steps,
        factors=parse_factors(factors),
    )
    if engine == "ray":
        runs.mkdir(parents=True, exist_ok=True)  # what a job reads lies where all machines see it
    with tempfile.TemporaryDirectory(dir=runs if engine == "ray" else None) as folder:
        worlds = [
            prepare_world(domain, one, Path(folder) / f"{domain}-{number}")
            for number, one in enumerate(city)
        ]
        found = study_worlds(worlds, config, where, runs / KEPT_JOBS)
    text = "\n".join(line for one in found for line in policy_lines(one))
    _print(found[0] if len(found) == 1 else {"studies": found}, as_json, text)


def _play_in_city(
    domain: str,
    cities: list[Path],
    n_years: int,
    n_process_years: int,
    n_settling: int,
    n_agent_steps: int,
    as_json: bool,
) -> None:
    """Both scores of the policies in each city: in its process under the truth, and in itself."""
    from parity311.studies.parity.in_city import PlayConfig, play_in_city

    if n_agent_steps == 0:
        raise InputError("--agent-steps 0 leaves no agent to play in the city; leave it out.")
    config = PlayConfig(n_years, n_process_years, n_settling, n_agent_steps)
    found = [play_in_city(domain, one, config) for one in cities]
    text = "\n".join(line for one in found for line in played_lines(one))
    _print(found[0] if len(found) == 1 else {"studies": found}, as_json, text)


def played_lines(result: dict[str, Any]) -> list[str]:
    """One line a policy and place: the city, then the stylised process under its truth."""
    lines = [f"{result['domain']}, {result['city']}, {result['config']['n_years']} years"]
    for place, words in (("in_city", "in the city"), ("process", "in the process")):
        for name, row in result[place].items():
            lines.append(
                f"{words:14} {name:16} coverage {row['overall']:.3f}  gap {row['gap']:.3f} "
                f"(noise alone {row['noise']:.3f})  least over most {row['ratio']:.2f}  "
                f"visits {row['visits_a_year']:,.0f}"
            )
    return lines


def policy_lines(result: dict[str, Any]) -> list[str]:
    """One line a policy at the city's own capacity."""
    lines = [f"{result['domain']}, {result['city']}, {result['config']['n_years']} years"]
    for row in result["policies"]:
        if row["capacity"] == 1.0:
            gap, price, floor = row["gap"], row["price"], row["floor"]
            lines.append(
                f"{row['policy']:18} {row['estimator']:14} gap {gap['value']:.3f} (up to "
                f"{gap['upper']:.3f})  price {100 * price['value']:+.1f} %  floor "
                f"{100 * floor['value']:+.1f} %"
            )
    return lines


def _print(value: Any, as_json: bool, text: str) -> None:
    if not as_json:
        typer.echo(text)
        return
    print_json(value)


def print_result(result: dict[str, Any]) -> None:
    """Print what a stage found: claims with verdicts, or how far the work is."""
    if "claims" not in result:
        for name, value in result.items():
            print(f"{name}: {value}")
        return
    own = "the paper's programme" if result["programme_name"] == "paper" else "our programme"
    table = Table("claim", "published", own, "verdict", title="The paper's claims, beside ours")
    has_other = any(claim["beside_verdict"] for claim in result["claims"])
    if has_other:
        table.add_column("the other programme")
    for claim in result["claims"]:
        cells = [claim["claim"], claim["published"], claim["ours"], claim["verdict"]]
        table.add_row(*cells, *([claim["beside_verdict"] or "–"] if has_other else []))
    Console().print(table)
    counted = Counter(claim["verdict"] for claim in result["claims"])
    print(", ".join(f"{count} {verdict}" for verdict, count in counted.most_common()))
    print(f"report: {result['report']}")


def reproduce_command(
    domains: Annotated[
        str, typer.Option(help="Domains, comma-separated; all twelve if empty.")
    ] = "",
    preset: Annotated[
        str, typer.Option(help="small (200 tracts) or nyc (2,325 tracts, the paper's volumes).")
    ] = "small",
    seed: Annotated[int, seed_option("Of the cities and the agents.")] = 841,
    programme: Annotated[
        str,
        typer.Option(
            help="Whose features, settings, equity term and protocols are run: paper or ours."
        ),
    ] = "ours",
    stage: Annotated[str, typer.Option(help="prepare, train or report; all three if empty.")] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder the stages share; runs/reproduction-PRESET-SEED if not given, with -paper "
            "for the paper's programme.",
            file_okay=False,
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the other programme, to set its figures beside; its usual one if not "
            "given.",
            file_okay=False,
        ),
    ] = None,
    cities: Cities = Path("cities"),
    runs: Runs = Path("runs"),
    slice_s: Seconds = float("inf"),
    engine: EngineName = "local",
    address: Address = "",
    workers: Workers = 0,
    shard: ShardOption = "",
    as_json: Json = False,
) -> None:
    """Test the paper's claims, domain by domain, and set every published figure beside ours."""
    from parity311.jobs.choose import choose_engine
    from parity311.pipelines.progress import progress_bars
    from parity311.studies.reproduction.programme import get_programme
    from parity311.studies.reproduction.reproduce import STAGES, ReproduceConfig, run_stages

    names = tuple(name.strip() for name in domains.split(",") if name.strip())
    config = ReproduceConfig(preset, seed, names, programme)
    get_programme(programme)
    where = choose_engine(engine, address, workers, shard)
    with progress_bars() as progress:
        result = run_stages(
            config,
            stages=(stage,) if stage else STAGES,
            folder=folder or config.folder(runs),
            beside=beside or config.other_folder(runs),
            cities=cities,
            runs=runs,
            slice_s=slice_s,
            where=where,
            progress=progress,
        )
    if as_json:
        print_json(result)
        return

    print_result(result)
