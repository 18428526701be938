"""Commands of real data: fetch, import, check. Parse, call, print."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from parity311.cli.options import Cities, DayFirst, Json, folder_of_its_own, print_json, within
from parity311.errors import InputError

fetch_app = typer.Typer(
    help="Download public records, resumable and verified.", no_args_is_help=True
)
records_app = typer.Typer(
    help="Import exports into the canonical tables, and check them.", no_args_is_help=True
)

Overwrite = Annotated[bool, typer.Option(help="Replace the imported records there.")]
Domains = Annotated[str | None, typer.Option(help="Comma-separated domains; all if not given.")]


@fetch_app.callback()
def _fetch() -> None:
    """Download public records, resumable and verified."""


@fetch_app.command("nyc")
def fetch_command(
    domains: Annotated[str, typer.Option(help="Comma-separated domains, e.g. heat,boiler.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; the same one resumes.")],
    since: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="First day of complaints.")
    ] = datetime(2020, 1, 1),
    app_token: Annotated[
        str | None, typer.Option(envvar="SOCRATA_APP_TOKEN", help="NYC Open Data app token.")
    ] = None,
    census_key: Annotated[
        str | None, typer.Option(envvar="CENSUS_API_KEY", help="Key of the Census API.")
    ] = None,
    census: Annotated[bool, typer.Option(help="Fetch ACS figures as well.")] = True,
    acs_year: Annotated[
        int,
        typer.Option(help="Last year of the five-year ACS tables.", callback=within(2009, 2100)),
    ] = 2023,
    protocol: Annotated[
        str, typer.Option(help="soda2, soda3 (needs a token) or file (whole exports).")
    ] = "soda2",
    page_rows: Annotated[
        int, typer.Option(callback=within(1, 10_000_000), help="Rows a page.")
    ] = 50_000,
    as_json: Json = False,
) -> None:
    """Download what the domains need from NYC Open Data and the Census; run again to go on."""
    from parity311.feeds.census import CENSUS_ADDRESS
    from parity311.feeds.datasets import NYC_PORTAL
    from parity311.feeds.fetch import FetchOptions, fetch_nyc
    from parity311.pipelines.progress import progress_bars

    options = FetchOptions(
        domains=_split(domains) or (),
        since=since.date(),
        app_token=app_token,
        census_key=census_key,
        with_census=census,
        acs_year=acs_year,
        protocol=protocol,
        page_rows=page_rows,
        portal=os.environ.get("PARITY311_NYC_PORTAL", NYC_PORTAL),
        census_address=os.environ.get("PARITY311_CENSUS_ADDRESS", CENSUS_ADDRESS),
    )
    with progress_bars() as report:
        fetched = fetch_nyc(options, out, report)
    if as_json:
        print_json({"folder": str(out), **fetched})
        return
    for entry in fetched["datasets"]:
        typer.echo(f"{entry['name']:<18} {entry['server_rows']:>12,} rows  {entry['source']}")
    typer.echo(f"Next: parity311 records import {out} --out records/nyc")


@records_app.command("import")
def import_command(
    paths: Annotated[list[Path], typer.Argument(help="Exports, and folders that fetch wrote.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder to write the records to.", file_okay=False, callback=folder_of_its_own
        ),
    ],
    domains: Domains = None,
    city_map: Annotated[
        Path | None,
        typer.Option(
            "--map", help="TOML file of another city's columns, or chicago_311, nyc_311 …"
        ),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Leave out earlier complaints.")
    ] = None,
    keep_unlocated: Annotated[
        bool, typer.Option(help="Keep rows without a tract in a place of their own per borough.")
    ] = False,
    day_first: DayFirst = None,
    read_as: Annotated[
        list[str] | None,
        typer.Option(help="FILE=KIND, where a file is not what its header tells; repeatable."),
    ] = None,
    sheet: Annotated[
        str, typer.Option(help="Sheet of workbooks to read; the first with a table if empty.")
    ] = "",
    memory_limit: Annotated[str, typer.Option(help="Memory before spilling to disk.")] = "3GB",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Turn exports into the canonical tables; every row is kept, counted or set aside."""
    from parity311.feeds.citymap import named_city_map
    from parity311.feeds.desk_export import import_desk_export, is_desk_export
    from parity311.feeds.importing import ImportOptions, import_records
    from parity311.pipelines.progress import progress_bars

    if any(map(is_desk_export, paths)):
        if len(paths) != 2 or is_desk_export(paths[0]):
            raise InputError(
                "A desk's export is put onto the records that its desk was opened on; give these "
                "two, the records first."
            )
        manifest = import_desk_export(paths[0], paths[1], out, overwrite=overwrite)
        _tell_import(manifest, out, as_json)
        return
    options = ImportOptions(
        domains=_split(domains),
        since=since.date() if since else None,
        keep_unlocated=keep_unlocated,
        day_first=day_first,
        read_as=dict(_pair(text) for text in read_as or ()),
        sheet=sheet,
        memory_limit=memory_limit,
        overwrite=overwrite,
    )
    own = named_city_map(city_map)
    with progress_bars() as report:
        manifest = import_records(paths, out, options, report, city_map=own)
    _tell_import(manifest, out, as_json)


def _tell_import(manifest: dict[str, Any], out: Path, as_json: bool) -> None:
    """What an import made of what it was given."""
    from parity311.records.quality import describe_notes

    if as_json:
        print_json(
            {
                "records": str(out),
                "fingerprint": manifest["fingerprint"],
                "date_from": manifest["date_from"],
                "date_to": manifest["date_to"],
                "sources": manifest["sources"],
                "domains": manifest["domains"],
                "notes": manifest["notes"],
            }
        )
        return
    for source in manifest["sources"]:
        typer.echo(f"{source['name']}: read as {source['read_as']}.")
    typer.echo("")
    _print_sources(manifest["sources"])
    aside = sum(sum(one.get("quarantined", {}).values()) for one in manifest["sources"])
    if aside:
        typer.echo(f"{aside:,} rows set aside: {out / 'quarantine'}")
    for sentence in describe_notes(manifest["notes"]):
        typer.echo(f"! {sentence}")
    typer.echo(f"Next: parity311 records check {out}")


@records_app.command("map")
def map_command(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Export of complaints; after it a table and a GeoJSON of tracts."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write the map to; shown if not given.")
    ] = None,
    sheet: Annotated[
        str, typer.Option(help="Sheet of workbooks to read; the first with a table if empty.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Propose a map file for a city nobody described, with how sure it is of each column."""
    from tempfile import TemporaryDirectory

    from parity311.feeds.propose import propose_map
    from parity311.storage.aside import write_text_aside

    if out is not None and out.exists():
        raise InputError(f"{out} is there already; name another file, or move it away.")
    with TemporaryDirectory() as scratch:
        found = propose_map(paths, Path(scratch), sheet=sheet)
    if out is not None:
        write_text_aside(out, found.text)
    if as_json:
        print_json(found.describe())
        return
    if out is None:
        typer.echo(found.text)
        return
    for one in found.guesses:
        typer.echo(f"{one.sureness:<7} {one.field:<14} {one.column:<32} {one.reason}")
    for name in found.missing:
        typer.echo(f"MISSING {name:<14} needed, and no column was found: name it in {out}")
    if found.unused:
        typer.echo(f"not used: {', '.join(found.unused)}")
    for note in found.notes:
        typer.echo(f"! {note}.")
    if found.known_as:
        typer.echo(f"! {found.known_as}.")
    typer.echo(f"Next: read {out}, then parity311 records import … --map {out} --out records/city")


@records_app.command("stage")
def stage_command(
    address: Annotated[str, typer.Argument(help="s3://BUCKET/FOLDER, gs://… or file:///FOLDER.")],
    out: Annotated[Path, typer.Option(help="Folder to write them to.", file_okay=False)],
    as_json: Json = False,
) -> None:
    """Bring a records folder from object storage to a local disk, checked file by file."""
    from parity311.records.stage import stage_records

    staged = stage_records(address, out)
    found = {
        "out": str(out),
        "domains": list(staged.domains),
        "files": len(staged.manifest["files"]),
        "fingerprint": staged.fingerprint,
    }
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found['files']} files, as they were written; domains: "
                   f"{', '.join(staged.domains)}")  # fmt: skip
        typer.echo(f"Next: parity311 records check {out}")


@records_app.command("check")
def check_command(
    records: Annotated[Path, typer.Argument(help="Folder of records.")],
    full: Annotated[
        bool, typer.Option(help="Show small counts as well; not for publishing.")
    ] = False,
    what_for: Annotated[
        bool,
        typer.Option(
            "--what-for", help="Try what the records can be used for: a table by domain (minutes)."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Report on the quality of records: counts, gaps, outliers, what is usable, what is not."""
    from parity311.records.quality import check_records
    from parity311.records.store import open_records

    opened = open_records(records)
    opened.validate()
    report = check_records(opened, suppress=not full)
    if what_for:
        from parity311.pipelines.abilities import abilities_to_plain, find_abilities

        found = find_abilities(opened, lambda line: typer.echo(f"  {line}", err=True))
        report["possible"] = abilities_to_plain(found)
    if as_json:
        print_json(report)
        return
    _print_sources(report["sources"])
    typer.echo("")
    for name, domain in report["domains"].items():
        typer.echo(
            f"{name:<20} {domain['complaints']:>10,} complaints  {domain['first'][:10]} to "
            f"{domain['last'][:10]}  closed {_closed(domain)}  with outcome "
            f"{domain['share_with_outcome']:.0%}  usable {domain['share_usable']:.0%}"
        )
    typer.echo("")
    for row in report["coverage"]:
        if row["domain"] in report["domains"] and not row["suppressed"]:
            typer.echo(
                f"located {row['share']:>6.1%} of {row['rows']:>9,}  {row['domain']}, {row['by']} "
                f"{row['stratum']}"
            )
    for warning in report["warnings"]:
        typer.echo(f"! {warning}")
    for row in report.get("possible", []):
        typer.echo(f"{row['domain']:<20} {row['work']:<22} {row['state']:<9} {row['reason']}")
        if row["needed"]:
            typer.echo(f"{'':<53} it would take {row['needed']}")
        if row["command"]:
            typer.echo(f"{'':<53} {row['command']}")
    if not what_for:
        typer.echo(f"Next: parity311 records check {records} --what-for")


@records_app.command("locate")
def locate_command(
    records: Annotated[Path, typer.Argument(help="Folder of imported records.")],
    by: Annotated[
        str, typer.Option(help="zip or community_board: a table by these, where tracts fail.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="With --by: the table to write, for `parity311 audit TABLE.csv`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain what could be placed, by what; count by ZIP or board where tracts cannot be had."""
    from parity311.feeds.area_table import explain_places, write_area_table
    from parity311.records.store import open_records

    if bool(by) != (out is not None):
        raise InputError("--by and --out go together; give both, or neither to explain only.")
    opened = open_records(records)
    found: dict[str, Any] = {"records": str(records), "places": explain_places(opened)}
    if by and out is not None:
        found["table"] = write_area_table(opened, by, out)
    if as_json:
        print_json(found)
        return
    for entry in found["places"]:
        _print_places(entry)
    if "table" in found:
        table = found["table"]
        typer.echo(
            f"{table['rows']:,} rows in {table['areas']} areas ({by}); {table['without_tract']:,} "
            f"of them have no tract, {table['without_area']:,} have no area either"
        )
        typer.echo(f"Next: parity311 audit {out}")


@records_app.command("link")
def link_command(
    records: Annotated[Path, typer.Argument(help="Folder of imported records.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder to write the linked records to.",
            file_okay=False,
            callback=folder_of_its_own,
        ),
    ],
    domains: Domains = None,
    days: Annotated[
        float | None,
        typer.Option(
            help="Days from a first report during which another may join it; what does best in the "
            "city if not given.",
            callback=within(0.01, 3660),
        ),
    ] = None,
    city: Annotated[
        Path | None,
        typer.Option(
            help="Synthetic city that links are measured in; the small one if not given.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    cities: Cities = Path("cities"),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Mark duplicates where the source does not, and say how well that works in a city."""
    from parity311.pipelines.progress import progress_bars
    from parity311.pipelines.run import RunConfig, ensure_city
    from parity311.reporting.link_records import link_records

    with progress_bars() as progress:

        def measured_in() -> Path:
            if city is not None:
                return city
            return ensure_city(RunConfig(), "measured", "calibrated", cities, progress).folder

        found = link_records(
            records,
            out,
            measured_in,
            domains=_split(domains),
            max_days=days,
            tell=lambda line: typer.echo(f"  {line}", err=True),
            overwrite=overwrite,
        )
    if as_json:
        print_json({"records": str(out), "linked": [one.describe() for one in found]})
        return
    for one in found:
        _print_links(one.describe())
    typer.echo(f"Next: parity311 records check {out} --what-for")


@records_app.command("compare")
def compare_command(
    records: Annotated[Path, typer.Argument(help="Folder of records, e.g. imported ones.")],
    other: Annotated[Path, typer.Argument(help="Another folder, e.g. a synthetic city.")],
    domains: Domains = None,
    as_json: Json = False,
) -> None:
    """Set the figures of two records folders side by side, with intervals of the first."""
    from parity311.records.compare import compare_records
    from parity311.records.store import open_records

    rows = compare_records(open_records(records), open_records(other), _split(domains))
    if as_json:
        print_json({"records": str(records), "other": str(other), "compared": rows})
        return
    for row in rows:
        said = {True: "agrees", False: "differs", None: "too few rows"}[row["agrees"]]
        typer.echo(
            f"{row['domain']:<18} {row['figure']:<28} {row['value']:>8.3f} "
            f"[{row['lower']:.3f}, {row['upper']:.3f}] n={row['n']:<8,} "
            f"{row['other']:>8.3f}  {said}"
        )


def _print_places(entry: dict[str, Any]) -> None:
    """One domain: how many rows have a tract, by what; which do not, and what would help."""
    share = entry["n_placed"] / entry["rows"] if entry["rows"] else 0.0
    ways = ", ".join(f"{name} {n:,}" for name, n in entry["placed_by"].items()) or "nothing"
    typer.echo(
        f"{entry['domain']:<20} {entry['n_placed']:>9,} of {entry['rows']:>9,} have a tract "
        f"({share:.0%}), by: {ways}"
    )
    for reason, n in entry["lost"].items():
        typer.echo(f"{'':<20} {n:>9,} lost: {reason}")
    if entry["lost"]:
        carry = ", ".join(f"{name} {n:,}" for name, n in entry["lost_carry"].items() if n)
        typer.echo(f"{'':<20} of those carry: {carry or 'nothing'}")
    if entry["advice"]:
        typer.echo(f"{'':<20} ! {entry['advice']}")


def _print_links(links: dict[str, Any]) -> None:
    """What was linked, beside how well the same rule does where it is known."""
    typer.echo(
        f"{links['domain']:<20} {links['n_unmarked']:>9,} of {links['n_reports']:>9,} unmarked  "
        f"{links['n_linked']:>8,} linked  {links['n_without_building']:>8,} without a building"
    )
    if links["reason"]:
        typer.echo(f"{'':<20} nothing linked: {links['reason']}")
        return
    rule, quality = links["rule"], links["quality"]
    until = ", until it is closed" if rule["until_closed"] else ""
    typer.echo(
        f"{'':<20} same building and category within {rule['max_days']:g} days{until}; in "
        f"{quality['city']}: {quality['precision']:.0%} of its repeats are right, "
        f"{quality['recall']:.0%} of the marked ones are found"
    )
    if links["is_weak"]:
        typer.echo(f"{'':<20} ! too weak: estimators that need duplicates refuse; use raw")


def _closed(domain: dict[str, Any]) -> str:
    """Share closed, and apart from it the share closed as it came in, which is no closing time."""
    later, at_once = domain["share_closed"], domain["share_closed_at_once"]
    if at_once < 0.005:
        return f"{later:.0%}"
    return f"{later - at_once:.0%} (and {at_once:.0%} at once)"


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, kind = text.rpartition("=")
    if not (is_pair and name and kind):
        raise InputError(f"--read-as {text} was given; write FILE=KIND, as rows.csv=sr311.")
    return Path(name).name, kind


def _print_sources(sources: list[dict[str, Any]]) -> None:
    """One line a file that has rows: in, kept, out of scope, set aside and why."""
    for source in sources:
        if source.get("rows_in") is None:
            continue
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in source["quarantined"].items())
        typer.echo(
            f"{source['name']:<40} {source['rows_in']:>10,} in  {source['kept']:>10,} kept  "
            f"{source['out_of_scope']:>10,} out of scope  {reasons}"
        )


def _split(names: str | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return tuple(name.strip() for name in names.split(",") if name.strip())
