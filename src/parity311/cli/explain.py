"""`parity311 explain RUN` and `parity311 documents RUN`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import Json, Runs
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
        _print_json(result)
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
        _print_json(result)
        return
    for name, path in result["files"].items():
        typer.echo(f"{name}: {path}")
    typer.echo(f"{result['n_not_provided']} fields read 'not provided'.")


def _tell(line: str) -> None:
    """Say how far the work is, to whoever watches."""
    typer.echo(f"  {line}", err=True)


def _print_json(value: Any) -> None:
    from parity311.storage.strict_json import to_json

    typer.echo(to_json(value), nl=False)


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
