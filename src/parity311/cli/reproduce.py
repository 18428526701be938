"""The command `parity311 reproduce`; nothing heavy is imported before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parity311.cli.options import Cities, Json, Runs, Seconds, Workers, seed_option


def reproduce_command(
    domains: Annotated[
        str, typer.Option(help="Domains, comma-separated; all twelve if empty.")
    ] = "",
    preset: Annotated[
        str, typer.Option(help="small (200 tracts) or nyc (2,325 tracts, the paper's volumes).")
    ] = "small",
    seed: Annotated[int, seed_option("Of the cities and the agents.")] = 841,
    stage: Annotated[str, typer.Option(help="prepare, train or report; all three if empty.")] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder the stages share; runs/reproduction-PRESET-SEED if not given.",
            file_okay=False,
        ),
    ] = None,
    cities: Cities = Path("cities"),
    runs: Runs = Path("runs"),
    slice_s: Seconds = float("inf"),
    workers: Workers = 0,
    as_json: Json = False,
) -> None:
    """Test the paper's claims, domain by domain, and set every published figure beside ours."""
    from parity311.pipelines.progress import progress_bars
    from parity311.storage.strict_json import to_json
    from parity311.studies.reproduction.reproduce import STAGES, ReproduceConfig, run_stages

    names = tuple(name.strip() for name in domains.split(",") if name.strip())
    config = ReproduceConfig(preset, seed, names)
    with progress_bars() as progress:
        result = run_stages(
            config,
            stages=(stage,) if stage else STAGES,
            folder=folder or runs / f"reproduction-{preset}-{seed}",
            cities=cities,
            runs=runs,
            slice_s=slice_s,
            n_workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(to_json(result), nl=False)
        return
    from parity311.cli.reproduce_text import print_result

    print_result(result)
