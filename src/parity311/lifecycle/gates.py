"""What stands between a proposal and people's complaints: refused in one line, or let through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from parity311.audit.gap import FAIL, INSUFFICIENT, PASS
from parity311.errors import InputError, Parity311Error, RegistryError
from parity311.lifecycle.evidence import PackageCopy, check_versions, copy_package

if TYPE_CHECKING:
    from parity311.lifecycle.tables import VersionRow

GOES_LIVE = ("release", "resume", "rollback")
"""Acts after which a policy decides."""
NOBODY = ("", "-", "?", "none", "nobody", "anonymous", "unknown", "n/a", "na", "tbd", "todo")
"""What stands in a field to leave it empty."""
LONGEST_WORDS = 2000


def check_words(by: str, reason: str) -> None:
    """Refuse an act without a name or a reason, or with letters that cannot be kept."""
    for option, given, example in (
        ("--by", by, "A. Okafor"),
        ("--reason", reason, "yearly review"),
    ):
        if given.strip().lower() in NOBODY:
            raise InputError(
                f"{option} is {given!r}; an act on a policy needs a named person and a reason. "
                f"Give it, such as {option} {example!r}."
            )
        check_text(option, given)


def check_text(option: str, given: str) -> None:
    """Refuse letters that cannot be kept, and too many of them."""
    is_whole = given.encode("utf-8", "replace").decode() == given
    if len(given) > LONGEST_WORDS or "\0" in given or not is_whole:
        raise InputError(
            f"{option} has {len(given):,} characters or some that are no text; allowed are "
            f"{LONGEST_WORDS:,} characters of text. Shorten it."
        )


def check_gates(
    action: str, row: VersionRow, copy: PackageCopy, insufficient_because: str = ""
) -> None:
    """Refuse what must not decide about complaints.

    A failed audit never does. One that could not tell does where a named person says why, at its
    release; a policy that was released before has that reason in the log.
    """
    check_versions(copy.manifest, f"version {row.version}")
    if row.verdict == FAIL:
        raise RegistryError(
            f"The audit of {row.version} says FAIL ({_reason(row)}); such a policy never goes "
            "live. Train one with more weight on equity, audit it and propose it."
        )
    if row.verdict not in (PASS, INSUFFICIENT):
        raise RegistryError(
            f"The audit of {row.version} says {row.verdict!r}; allowed is {PASS} or "
            f"{INSUFFICIENT}. Audit it and propose it again."
        )
    if action != "release":
        return
    if row.verdict == INSUFFICIENT:
        check_text("--insufficient-because", insufficient_because)
        if insufficient_because.strip().lower() in NOBODY:
            raise RegistryError(
                f"The audit of {row.version} says INSUFFICIENT ({_reason(row)}): nobody can say "
                "yet that it serves all alike. Gather what it lacks, or answer for it with "
                "--insufficient-because TEXT."
            )
    changed = folder_problem(row)
    if changed:
        raise RegistryError(f"{changed}; propose what lies there, or put back what was proposed.")


def folder_problem(row: VersionRow) -> str:
    """In what the folder that was proposed differs from the copy kept; empty where it is gone."""
    folder = Path(row.folder)
    if not folder.is_dir():
        return ""
    try:
        is_same = copy_package(folder).sha256 == row.package_sha256
    except (Parity311Error, OSError) as error:
        return f"the package of {row.version} in {folder} is no longer whole ({error})"
    return "" if is_same else f"the package in {folder} is not the one proposed as {row.version}"


def _reason(row: VersionRow) -> str:
    return str(json.loads(row.audit)["reason"])
