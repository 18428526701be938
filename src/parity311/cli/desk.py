"""The command that opens the desk."""

from __future__ import annotations

import ipaddress
import socket
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from parity311.cli.options import DEFAULT_DATABASE, DatabaseOption, Runs, check_packages, within
from parity311.errors import InputError

NEEDS = ("fastapi", "uvicorn", "argon2", "multipart", "structlog", "prometheus_client")
DEMO_CITY = Path("cities/desk-7-strong-scarce")
DEMO_SEED = 7


def _address(host: str) -> str:
    """Check of the address to listen on."""
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise typer.BadParameter(
                f"{host!r} was given; allowed is localhost or an address such as 127.0.0.1 or "
                "0.0.0.0."
            ) from None
    return host


def serve_command(
    replay: Annotated[
        Path | None,
        typer.Option(
            help="City whose day is replayed; a small one is built where none is named.",
            file_okay=False,
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Records folder of an office at work: nothing is replayed, complaints come in "
            "through the interfaces.",
            file_okay=False,
        ),
    ] = None,
    domains: Annotated[str, typer.Option(help="Domains to serve.")] = "heat,elevator",
    day: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day to replay.")
    ] = None,
    days: Annotated[int, typer.Option(help="Days to replay.", callback=within(1, 366))] = 1,
    speed: Annotated[
        float,
        typer.Option(
            help="City time by machine time: at 60 a day takes 24 minutes.",
            callback=within(0.01, 100_000.0),
        ),
    ] = 60.0,
    database: DatabaseOption = DEFAULT_DATABASE,
    folder: Annotated[
        Path, typer.Option(help="Folder of the desk's own files.", file_okay=False)
    ] = Path("desk"),
    service_levels: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of promised service levels (TOML) that a domain's clocks run by; "
            "repeatable.",
            dir_okay=False,
        ),
    ] = None,
    left_to_today: Annotated[
        float,
        typer.Option(
            help="Chance that a case is left to today's rule, for comparison.",
            callback=within(0.0, 0.5),
        ),
    ] = 0.1,
    host: Annotated[str, typer.Option(help="Address to listen on.", callback=_address)] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port.", callback=within(1, 65_535))] = 8311,
    blind: Annotated[
        float,
        typer.Option(
            help="Share of new cases that staff decide before they see the recommendation, to "
            "measure how far it anchors them.",
            callback=within(0.0, 0.5),
        ),
    ] = 0.05,
    runs: Runs = Path("runs"),
    provider: Annotated[
        Path | None,
        typer.Option(
            help="File of the identity provider that staff log in with (TOML, OpenID Connect).",
            dir_okay=False,
        ),
    ] = None,
    own_machine: Annotated[
        bool,
        typer.Option(help="Let administrators name systems on this machine, such as 127.0.0.1."),
    ] = False,
    behind_https: Annotated[
        bool, typer.Option(help="A proxy before the desk speaks HTTPS: cookies for it alone.")
    ] = False,
) -> None:
    """Open the desk: staff decide, auditors look, residents get an answer."""
    absent = [name for name in NEEDS if find_spec(name) is None]
    if absent:
        raise InputError(
            f"The desk needs the packages {', '.join(absent)}; install them with `pip install "
            "'parity311[desk]'`."
        )
    check_packages()
    if replay is not None and records is not None:
        raise InputError("--replay and --records were both given; a desk has one of them.")
    from parity311.desk.serve import ServeConfig, open_desk, read_levels_by_domain, serve

    chosen = tuple(dict.fromkeys(one.strip() for one in domains.split(",")))
    _check_domains(chosen)
    _check_port(host, port)
    levels = tuple(service_levels or ())
    # Before a city is built: who is refused finds nothing written.
    read_levels_by_domain(levels, chosen)
    config = ServeConfig(
        records=records or replay or demo_city(chosen),
        folder=folder,
        database=database,
        domains=chosen,
        replay=records is None,
        day=day,
        days=days,
        speed=speed,
        left_share=left_to_today,
        behind_https=behind_https,
        blind_share=blind,
        runs=runs,
        levels=levels,
        provider=provider,
        own_machine=own_machine,
    )
    desk, played, made = open_desk(config)
    for name, password in made:
        typer.echo(f"{name:<14} {password}")
    if made:
        typer.echo(f"These passwords were drawn now and are kept in {folder / 'accounts.txt'}.")
    serve(desk, played, host, port, typer.echo)


def backup_command(
    out: Annotated[Path, typer.Option(help="File to write; it must not be there.", dir_okay=False)],
    database: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Copy registry and desk, as they are at one moment, into a file; work may go on."""
    check_packages()
    from parity311.lifecycle.backup import back_up

    typer.echo(f"{back_up(database, out):,} rows in {out}")


def restore_command(
    backup: Annotated[Path, typer.Argument(help="File that `backup` wrote.")],
    database: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Put a backup into a database that is empty or not there yet."""
    check_packages()
    from parity311.lifecycle.backup import restore

    typer.echo(f"{restore(backup, database):,} rows in place")


def desk_export_command(
    out: Annotated[Path, typer.Option(help="File to write; it must not be there.", dir_okay=False)],
    database: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write what came to the desk and what was decided, for `records import`; work may go on."""
    check_packages()
    if out.exists():
        raise InputError(f"{out} is there already; name another file with --out.")
    from parity311.desk.exporting import export_desk
    from parity311.lifecycle.database import Database

    found = export_desk(Database(database), out)
    for name, entry in found["files"].items():
        typer.echo(f"{name:<16} {entry['rows']:>9,} rows")
    typer.echo(f"Next: parity311 records import RECORDS {out} --out records/after")


def _check_domains(chosen: tuple[str, ...]) -> None:
    from parity311.domains import get_domain

    for name in chosen:
        if get_domain(name).sight is None:
            raise InputError(f"Domain {name!r} cannot be served: it declares no `sight`.")


def _check_port(host: str, port: int) -> None:
    """Refuse a port that is taken, before anything is built."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, port))
        except OSError as error:
            raise InputError(
                f"Port {port} of {host} cannot be used ({error.strerror}); choose another with "
                "--port."
            ) from error


def demo_city(domains: tuple[str, ...]) -> Path:
    """A small city of these domains, built once."""
    from parity311.city.ensure import open_or_build
    from parity311.domains import get_domain
    from parity311.pipelines.progress import progress_bars

    folder = DEMO_CITY.with_name(f"{DEMO_CITY.name}-{'-'.join(domains)}")
    with progress_bars() as progress:
        open_or_build(
            folder,
            [get_domain(name).process for name in domains],
            preset="small",
            seed=DEMO_SEED,
            participation="strong",
            capacity="scarce",
            progress=progress,
        )
    return folder
