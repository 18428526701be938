"""`parity311 audit RUN`: parse, call, print. Nothing heavy is imported before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import Json, Runs

RunArgument = Annotated[
    str,
    typer.Argument(help="A run's id, the beginning of it, or latest; or a folder of records."),
]


def audit_command(
    run: RunArgument,
    strata: Annotated[
        str | None,
        typer.Option(help="income5, race5, race_majority, race (both), language, channel or all."),
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Largest gap that passes.")] = None,
    spec: Annotated[Path | None, typer.Option(help="Audit specification (TOML).")] = None,
    domains: Annotated[str | None, typer.Option(help="Comma-separated; all if not given.")] = None,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Add how often the published rule errs.")
    ] = False,
    overrides: Annotated[
        Path | None, typer.Option(help="Log of what staff did (CSV): audited as well.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say who is served, with uncertainty: audit.html, audit.json and CSV tables."""
    from parity311.audit.spec import AuditSpec, read_spec, with_options
    from parity311.pipelines.audit import audit_run
    from parity311.pipelines.audit_records import audit_records, is_records_folder
    from parity311.pipelines.overrides import read_overrides
    from parity311.report.audit_inputs import open_run_with

    chosen = with_options(read_spec(spec) if spec else AuditSpec(), strata=strata, tau=tau)
    options: dict[str, Any] = {
        "root": runs,
        "domains": domains.split(",") if domains else None,
        "with_rules": as_published,
        "overrides": read_overrides(overrides) if overrides else (),
    }
    if is_records_folder(run):
        result = audit_records(run, chosen, **options)
    else:
        result = audit_run(open_run_with("audit_cells", run, runs), chosen, **options)
    if as_json:
        from parity311.storage.strict_json import to_json

        typer.echo(to_json(result), nl=False)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    for domain in result["domains"]:
        name = ", ".join(filter(None, (domain["domain"], domain["setting"], domain["policy"])))
        typer.echo(f"{name}: {domain['n_cases']:,.0f} cases")
        for row in domain["verdicts"]:
            who = "at the far end" if row["denominator"] == "dwellings" else "worst off"
            worst = f"; {who}: {row['worst_off']}" if row["worst_off"] else ""
            typer.echo(
                f"  {row['verdict']:<12} {row['strata']} per {row['denominator']}: "
                f"{row['reason']}{worst}"
            )
        for name in domain["denominators_disagree"]:
            typer.echo(f"  The denominators disagree across {name}: the page says what each asks.")
    for row in result["overrides"]:
        typer.echo(
            f"{row['domain']}, {row['counted']} by {row['strata']}: {row['verdict']}; "
            f"{row['reason']}"
        )
    typer.echo(f"Page: {result['page']}")
