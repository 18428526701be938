"""`parity311 audit RUN`: parse, call, print. Nothing heavy is imported before it runs.

`parity311 explain RUN` and `parity311 documents RUN`: parse, call, print.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import DayFirst, Json, Runs, print_json, within
from parity311.errors import InputError
from parity311.evaluation.titles import policy_title

RunArgument = Annotated[str, typer.Argument(help="A run's id, the beginning of it, or latest.")]


def explain_command(
    run: RunArgument,
    complaint: Annotated[
        str | None,
        typer.Option(help="Explain the decision on this complaint; any: on one that was kept."),
    ] = None,
    language: Annotated[str, typer.Option(help="Language of the notice: en, es or zh.")] = "en",
    domains: Annotated[str | None, typer.Option(help="Comma-separated; all if not given.")] = None,
    policy: Annotated[str | None, typer.Option(help="One policy; all if not given.")] = None,
    contact: Annotated[str, typer.Option(help="Whom to speak to, for the notice.")] = "",
    appeal: Annotated[str, typer.Option(help="How to have it looked at again.")] = "",
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say which features drive the policies, which stand in for income, and why one decision."""
    from parity311.pipelines.explain import explain_run
    from parity311.report.audit_inputs import open_run_with

    result = explain_run(
        open_run_with("explain_policies", run, runs),
        root=runs,
        domains=domains.split(",") if domains else None,
        policy=policy,
        complaint=complaint,
        language=language,
        contact=contact,
        appeal=appeal,
        tell=_tell,
    )
    if as_json:
        print_json(result)
    elif complaint is not None:
        typer.echo(result["notice"])
    else:
        _print_policies(result)


def documents_command(
    run: RunArgument,
    agency: Annotated[
        Path | None, typer.Option(help="What only people know (TOML); missing: not provided.")
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write model card, datasheet, reward statement, LL 35, LL 144-style table and ATRS record."""
    from parity311.pipelines.documents import read_human_fields, write_documents
    from parity311.report.audit_inputs import open_run_with

    source = open_run_with("audit_cells", run, runs)
    human = read_human_fields(agency) if agency else {}
    result = write_documents(source, root=runs, human=human, tell=_tell)
    if as_json:
        print_json(result)
        return
    for name, path in result["files"].items():
        typer.echo(f"{name}: {path}")
    typer.echo(f"{result['n_not_provided']} fields read 'not provided'.")


def _tell(line: str) -> None:
    """Say how far the work is, to whoever watches."""
    typer.echo(f"  {line}", err=True)


def _print_policies(result: dict[str, Any]) -> None:
    for policy in result["policies"]:
        title = policy_title(policy["policy"])
        name = ", ".join(filter(None, (policy["domain"], policy["setting"], title)))
        typer.echo(f"{name}: explained for {policy['action']} on {policy['n_rows']:,} complaints")
        for row in policy["importance"][:3]:
            place = " (geographic)" if row["is_geographic"] else ""
            typer.echo(f"  {row['feature']}{place}: {row['importance']:.3g}")
        for flag in policy["flagged"]:
            typer.echo(
                f"  FLAGGED {flag['feature']}: proxy score {flag['proxy_score']:.2f} "
                f"({flag['lower']:.2f} to {flag['upper']:.2f}); {flag['reason']}"
            )
        if not policy["flagged"]:
            typer.echo("  no feature is flagged")
    for row in result["variants"]:
        if row["reward_change"] or row["recall_change"]:
            typer.echo(
                f"{row['domain']}, {row['setting']}, trained {row['variant']}: recall "
                f"{100 * row['recall_change']:+.1f} points ({100 * row['recall_change_lower']:+.1f}"
                f" to {100 * row['recall_change_upper']:+.1f}), coverage gap "
                f"{100 * row['coverage_gap_change']:+.1f} points"
            )
    typer.echo(f"Page: {result['page']}")


AuditedRun = Annotated[
    str,
    typer.Argument(help="A run's id or latest; a folder of records; or a table of complaints."),
]


def audit_command(
    run: AuditedRun,
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
    estimator: Annotated[
        str,
        typer.Option(
            help="With records: how complaints become incidents, as `reporting estimate`; the "
            "usual way if empty."
        ),
    ] = "",
    areas: Annotated[
        Path | None, typer.Option(help="With a table: its areas, one row each (CSV).")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="With a table: served is what was closed within so many days.",
            callback=within(0, 36_500),
        ),
    ] = None,
    day_first: DayFirst = None,
    template: Annotated[
        bool, typer.Option("--template", help="Write an example table under the given name.")
    ] = False,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say who is served, with uncertainty: audit.html, audit.json and CSV tables."""
    if template:
        _write_template(Path(run))
        return
    from parity311.audit.spec import AuditSpec, read_spec, with_options
    from parity311.pipelines.audit import audit_run
    from parity311.pipelines.audit_records import audit_records, is_records_folder
    from parity311.pipelines.audit_table import TableOptions, audit_table, is_table
    from parity311.pipelines.overrides import read_overrides
    from parity311.report.audit_inputs import open_run_with
    from parity311.reporting.estimate import check_estimator

    chosen = with_options(read_spec(spec) if spec else AuditSpec(), strata=strata, tau=tau)
    options: dict[str, Any] = {
        "root": runs,
        "domains": domains.split(",") if domains else None,
        "with_rules": as_published,
        "overrides": read_overrides(overrides) if overrides else (),
    }
    if estimator:
        check_estimator(estimator)
        if not is_records_folder(run):
            raise InputError(
                f"--estimator {estimator} belongs to a folder of records, and {run} is none; a run "
                "keeps its own estimate, a table has none. Leave it out."
            )
        options["estimator"] = estimator
    if is_table(run):
        if as_published or overrides:
            raise InputError(
                "--as-published and --overrides need records or a run; a table of complaints has "
                "neither windows nor recommendations. Leave them out."
            )
        result = audit_table(
            run,
            chosen,
            root=runs,
            domains=options["domains"],
            options=TableOptions(areas, within, day_first),
        )
    elif areas or within is not None:
        raise InputError(
            f"--areas and --within belong to a table of complaints, and {run} is no file; give a "
            "CSV (`parity311 audit table.csv --template` writes an example)."
        )
    elif is_records_folder(run):
        result = audit_records(run, chosen, **options)
    else:
        result = audit_run(open_run_with("audit_cells", run, runs), chosen, **options)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _write_template(path: Path) -> None:
    from parity311.pipelines.audit_table import template_text
    from parity311.storage.aside import write_text_aside

    if path.exists():
        raise InputError(f"{path} is there already; name another file for the template.")
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path} was given for the template; its name has to end in .csv.")
    write_text_aside(path, template_text())
    typer.echo(f"Wrote {path}: put your rows in its place, then parity311 audit {path}")


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
    for note in result.get("notes", ()):
        typer.echo(f"! {note}.")
    if "counted" in result:
        typer.echo(f"Counted: {result['counted']}.")
    for row in result["overrides"]:
        typer.echo(
            f"{row['domain']}, {row['counted']} by {row['strata']}: {row['verdict']}; "
            f"{row['reason']}"
        )
    typer.echo(f"Page: {result['page']}")
