"""Commands on the registry of policies: who decides, since when, by whose word and why.

`policies diff` and `policies statement` take a folder or a version of the registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parity311.cli.options import DEFAULT_DATABASE, DatabaseOption, Json, check_packages, print_json
from parity311.cli.serving import policies_app
from parity311.errors import RegistryError

if TYPE_CHECKING:
    from parity311.lifecycle.registry import Registry
    from parity311.lifecycle.statement import StatedLine
    from parity311.serving.policy import LoadedPolicy

TODAY = "today's rule"
LONGEST_REASON = 60
"""Letters of a reason in a list; the log has all."""

By = Annotated[str, typer.Option("--by", help="Who decides this: a person's name.")]
Why = Annotated[str, typer.Option("--reason", help="Why, for the log.")]
ClockBecause = Annotated[
    str,
    typer.Option(
        help="Why the log is ahead of this clock, where it is: the act then gets its last time."
    ),
]
Seen = Annotated[
    int | None,
    typer.Option(
        help="Last entry of the log when this was decided, as `policies list` tells it: refused "
        "where somebody acted on the domain since.",
        metavar="ENTRY",
    ),
]
VersionName = Annotated[
    str, typer.Argument(help="Version, as `policies list` has it.", metavar="VERSION")
]
DomainName = Annotated[str, typer.Argument(help="Domain whose policy in office this is about.")]
PolicyName = Annotated[
    str, typer.Argument(help="Folder of a saved policy, or a version.", metavar="POLICY")
]


def _open(database: str, *, makes: bool = False) -> Registry:
    check_packages()
    from parity311.lifecycle.registry import Registry

    return Registry(database, makes=makes)


@policies_app.command("list")
def list_command(database: DatabaseOption = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """List the registry: every version, where it stands, its audit, and who decided last."""
    registry = _open(database)
    # Read first: what is acted on after it is refused, whatever the rest shows.
    last = len(registry.log())
    found = registry.policies()
    domains = dict.fromkeys(one.domain for one in found)
    deciding = {domain: registry.deciding(domain) for domain in domains}
    if as_json:
        print_json(
            {"policies": found, "deciding": deciding, "database": registry.database.where,
             "last_entry": last}
        )  # fmt: skip
        return
    _print_table(
        "",
        ("version", "state", "audit", "last act", "by", "at", "reason"),
        [
            (one.version, one.state, one.verdict, one.last_act, one.by, _minute(one.at),
             shorten(one.reason, LONGEST_REASON, placeholder=" …"))
            for one in found
        ],
        n_whole=3,
    )  # fmt: skip
    for domain, version in deciding.items():
        typer.echo(f"{domain}: {version or TODAY} decides")
    if found:
        typer.echo(f"Entry {last} is the last of the log; `policies log` has whole reasons")


@policies_app.command("propose")
def propose_command(
    package: Annotated[Path, typer.Argument(help="Folder of a saved policy.", metavar="PACKAGE")],
    audit: Annotated[
        Path, typer.Option(help="audit.json that judges it, or the folder of the audit's run.")
    ],
    by: By,
    reason: Why,
    clock_because: ClockBecause = "",
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Take a policy and its audit up in the registry as a new version."""
    check_packages()
    from parity311.audit.gap import FAIL, PASS
    from parity311.lifecycle.registry import check_proposal

    check_proposal(package, audit, by=by, reason=reason)
    registry = _open(database, makes=True)
    version = registry.propose(package, audit, by=by, reason=reason, clock_because=clock_because)
    row = registry.stored(version)
    if as_json:
        print_json({"version": version, "verdict": row.verdict, "database": database})
        return
    typer.echo(f"{version} is PROPOSED, its audit says {row.verdict} ({registry.database.where})")
    if row.verdict == FAIL:
        typer.echo("Such a policy never goes live: train one with more weight on equity")
        return
    answered = "" if row.verdict == PASS else " --insufficient-because TEXT"
    typer.echo(f"Next: parity311 policies release {version} --by NAME --reason TEXT{answered}")


@policies_app.command("compare")
def compare_command(
    version: VersionName,
    records: Annotated[Path, typer.Option(help="Records in which outcomes have arrived.")],
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Set what a version in shadow would have chosen beside today's rule, by what was found."""
    registry = _open(database)
    from parity311.lifecycle.outcomes import compare_shadow
    from parity311.records.store import open_records

    found = compare_shadow(registry, open_records(records), version)
    if as_json:
        print_json(found)
        return
    typer.echo(
        f"{version} was asked at {found['moments']} moments; {found['same']:.0%} of the visits it "
        "would have made are those of today's rule."
    )
    rows = [
        (one["chosen_by"], one["decisions"], one["visited"], one["found"], _share(one))
        for one in found["rows"]
    ]
    _print_table("", ("chosen by", "cases", "visited since", "found", "share"), rows)


def _share(row: dict[str, Any]) -> str:
    if row["found_share"] is None:
        return "–"
    return f"{row['found_share']:.0%} [{row['lower']:.0%}, {row['upper']:.0%}]"


@policies_app.command("release")
def release_command(
    version: VersionName,
    by: By,
    reason: Why,
    insufficient_because: Annotated[
        str, typer.Option(help="Why it goes live though its audit says INSUFFICIENT.")
    ] = "",
    seen: Seen = None,
    clock_because: ClockBecause = "",
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Let a version decide in its domain; whoever was in office is retired."""
    _act(
        "release", version, by, reason, seen, clock_because, database, as_json, insufficient_because
    )


ACTS_ON_A_VERSION = {
    "shadow": "Let a version recommend beside today's rule without being followed.",
    "retire": "Retire a version for good.",
}
ACTS_IN_A_DOMAIN = {
    "watch": "Say that the policy that decides is looked at closely; it goes on deciding.",
    "suspend": "Stop the policy of a domain: today's rule decides until it is resumed.",
    "resume": "Let the policy of a domain that was suspended or watched decide again.",
    "rollback": "Retire the policy of a domain; the one before it decides again, or today's rule.",
}


def _act_on_a_version(action: str) -> Callable[..., None]:
    def command(
        version: VersionName,
        by: By,
        reason: Why,
        seen: Seen = None,
        clock_because: ClockBecause = "",
        database: DatabaseOption = DEFAULT_DATABASE,
        as_json: Json = False,
    ) -> None:
        _act(action, version, by, reason, seen, clock_because, database, as_json)

    return command


def _act_in_a_domain(action: str) -> Callable[..., None]:
    def command(
        domain: DomainName,
        by: By,
        reason: Why,
        seen: Seen = None,
        clock_because: ClockBecause = "",
        database: DatabaseOption = DEFAULT_DATABASE,
        as_json: Json = False,
    ) -> None:
        _act(action, domain, by, reason, seen, clock_because, database, as_json)

    return command


def _act(
    action: str,
    subject: str,
    by: str,
    reason: str,
    seen: int | None,
    clock_because: str,
    database: str,
    as_json: bool,
    insufficient_because: str = "",
) -> None:
    registry = _open(database)
    entry = registry.act(
        action, subject, by=by, reason=reason, insufficient_because=insufficient_because,
        clock_because=clock_because, seen=None if seen is None else registry.seen(subject, seen),
    )  # fmt: skip
    decides = entry.details["decides"]
    if as_json:
        print_json({"entry": entry, "decides": decides})
        return
    changes = ", ".join(f"{one} is {state}" for one, state in entry.details["changes"].items())
    typer.echo(f"{changes}; {decides or TODAY} decides in {entry.domain}")
    typer.echo(f"Entry {entry.seq} of the log, {entry.hash}")


for _action, _words in ACTS_ON_A_VERSION.items():
    policies_app.command(_action, help=_words)(_act_on_a_version(_action))
for _action, _words in ACTS_IN_A_DOMAIN.items():
    policies_app.command(_action, help=_words)(_act_in_a_domain(_action))


@policies_app.command("log")
def log_command(database: DatabaseOption = DEFAULT_DATABASE, as_json: Json = False) -> None:
    """Print every act, oldest first: when, who, what and why."""
    entries = _open(database).log()
    if as_json:
        print_json({"entries": entries})
        return
    rows = [(one.seq, _minute(one.at), one.actor, one.action, one.version, one.reason)
            for one in entries]  # fmt: skip
    _print_table("", ("", "at", "by", "act", "version", "reason"), rows)


@policies_app.command("verify")
def verify_command(
    head: Annotated[
        str, typer.Option(help="Hash that was kept elsewhere: the log must still hold it.")
    ] = "",
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Check the chain of the log, every version, every package's hash and every state."""
    registry = _open(database)
    found = registry.verify(head)
    if found.problems:
        raise RegistryError(
            f"The registry at {registry.database.where} does not verify: "
            f"{'; '.join(found.problems)}. Take it back from a copy, and ask who could write to it."
        )
    if as_json:
        print_json(found)
        return
    typer.echo(
        f"{found.n_entries} entries and {found.n_versions} versions verify. Keep the last hash "
        f"outside of the database, for `verify --head`: {found.head}"
    )


@policies_app.command("export")
def export_command(
    name: Annotated[
        str, typer.Argument(help="Version, or a domain: the one that decides.", metavar="NAME")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the policy to.", file_okay=False)],
    database: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write a version's package to a folder, to recommend with."""
    registry = _open(database)
    version = name if _is_version(name) else registry.deciding(name)
    if version is None:
        raise RegistryError(
            f"In {name!r} {TODAY} decides, and no policy; `parity311 policies list` has what there "
            "is."
        )
    registry.export(version, out)
    typer.echo(f"{version} in {out}")
    typer.echo(f"Next: parity311 recommend {out} --records DIR")


@policies_app.command("statement")
def statement_command(
    policy: PolicyName, database: DatabaseOption = DEFAULT_DATABASE, as_json: Json = False
) -> None:
    """Say in plain words what a policy was paid for: its reward statement."""
    from parity311.lifecycle.statement import STATEMENT_VERSION

    loaded, lines = _read(policy, database)
    if as_json:
        reward = loaded.manifest["reward"]
        print_json({"statement_version": STATEMENT_VERSION, "reward": reward, "lines": lines})
        return
    typer.echo(f"{policy} in {loaded.manifest['domain']} was made for: {loaded.manifest['reward']}")
    _print_table("", ("", "set to"), [(line.words, line.value) for line in lines])
    typer.echo(f"Reward statement, version {STATEMENT_VERSION}")


@policies_app.command("diff")
def diff_command(
    first: PolicyName,
    second: Annotated[str, typer.Argument(help="Another one, likewise.", metavar="OTHER")],
    database: DatabaseOption = DEFAULT_DATABASE,
    as_json: Json = False,
) -> None:
    """Say in what two policies differ: what they are paid for, in plain words, and the rest."""
    from parity311.lifecycle.statement import changed_lines
    from parity311.serving.policy import differences

    (one, stated), (other, restated) = _read(first, database), _read(second, database)
    changed = changed_lines(stated, restated)
    found = {**differences(one, other), "statement": changed}
    if as_json:
        print_json(found)
        return
    if changed:
        rows = [(row["what"], row["first"], row["second"]) for row in changed]
        _print_table("What they are paid for", ("", first, second), rows)
        typer.echo(f"The other {len(stated) - len(changed)} lines of the statement are the same.")
    else:
        typer.echo("They are paid for the same.")
    _print_differences(found)


def _print_differences(found: dict[str, Any]) -> None:
    for name, pair in found["fields"].items():
        typer.echo(f"{name.replace('_', ' ')}: {pair['first']} | {pair['second']}")
    if not found["fields"]:
        typer.echo("They say the same of themselves.")
    if found["same_decisions"] is not None:
        share = found["same_decisions"]
        typer.echo(f"Same decision on {share:.1%} of observations within what training saw.")


def _is_version(name: str) -> bool:
    return re.fullmatch(r"\w+-\d+", name) is not None and not Path(name).exists()


def _read(name: str, database: str) -> tuple[LoadedPolicy, tuple[StatedLine, ...]]:
    """A policy with its statement, from a folder or from the registry."""
    from parity311.lifecycle.statement import state_policy
    from parity311.serving.policy import load_policy

    if not _is_version(name):
        loaded = load_policy(name)
        return loaded, state_policy(loaded.manifest)
    registry = _open(database)
    return registry.load(name), registry.statement(name)


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _print_table(
    title: str, headings: tuple[str, ...], rows: list[tuple[Any, ...]], n_whole: int = 0
) -> None:
    """Print rows as wide as the terminal; the first columns are not broken."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title or None, box=SIMPLE_HEAD)
    for place, heading in enumerate(headings):
        table.add_column(escape(heading), overflow="fold", no_wrap=place < n_whole)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)
