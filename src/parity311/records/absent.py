"""What to say where a folder of records has nothing of a domain."""

from __future__ import annotations

from parity311.errors import InputError
from parity311.records.store import Records


def no_such_domain(records: Records, domain: str) -> InputError:
    """Error that names the domains there are, and for a synthetic city how to build it anew.

    A city built before a domain was added has no complaints of it.
    """
    have = ", ".join(records.domains) or "none"
    said = f"{records.folder} has no complaints of domain {domain!r}; it has {have}."
    manifest = records.manifest
    if manifest.get("kind") != "city":
        return InputError(f"{said} Import records of that domain.")
    scenario = (
        f"--preset {manifest['preset']} --seed {manifest['seed']} "
        f"--participation {manifest['participation']} --capacity {manifest['capacity']}"
        + (f" --world {manifest['world']}" if "world" in manifest else "")
    )
    return InputError(
        f"{said} If the domain is newer than the city, rebuild the city: `parity311 city build "
        f"{scenario} --out ANOTHER_FOLDER`."
    )
