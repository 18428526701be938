"""What must not go live, and what an audit file must be to be believed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Server
from tests.unit.explain.stored_run import make_run
from tests.unit.lifecycle.offices import WHO, Office, audit_row, write_audit

from parity311.agents.package import MANIFEST, WEIGHTS
from parity311.audit.spec import AuditSpec
from parity311.errors import InputError, Parity311Error, RegistryError
from parity311.lifecycle import registry as registry_module
from parity311.lifecycle.evidence import SCHEMA_VERSION, read_audit
from parity311.pipelines.audit import audit_run


def test_a_failed_audit_never_goes_live(office: Office) -> None:
    live, failed = office.released(), office.propose("FAIL")
    for words in ({}, {"insufficient_because": "we want it"}):
        with pytest.raises(RegistryError, match="says FAIL .*never goes live"):
            office.registry.act("release", failed, **WHO, **words)
    assert office.states == {live: "LIVE", failed: "PROPOSED"}
    assert office.registry.verify().n_entries == 3


def test_an_audit_that_could_not_tell_needs_somebody_who_answers_for_it(office: Office) -> None:
    version = office.propose("INSUFFICIENT")
    for words in ("", "  ", "n/a"):
        with pytest.raises(RegistryError, match="--insufficient-because TEXT"):
            office.registry.act("release", version, **WHO, insufficient_because=words)
    entry = office.registry.act("release", version, **WHO, insufficient_because="Q1 is small")
    assert entry.details["insufficient_because"] == "Q1 is small"
    assert office.registry.deciding("heat") == version


@pytest.mark.parametrize("given", ["", " ", "-", "N/A", "nobody", "x" * 3000, "a\0b", "\ud800"])
def test_an_act_needs_a_name_and_a_reason(on_file: Office, given: str) -> None:
    version = on_file.propose()
    for words in ({"by": given, "reason": "why"}, {"by": "A. Okafor", "reason": given}):
        with pytest.raises(InputError, match=r"--(by|reason)"):
            on_file.registry.act("release", version, **words)
        with pytest.raises(InputError, match=r"--(by|reason)"):
            on_file.registry.propose(on_file.package(), on_file.audit(), **words)
    assert on_file.states == {version: "PROPOSED"}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("schema_version", SCHEMA_VERSION + 1, "the records' schema"),
        ("schema_version", None, "the records' schema"),
        ("domain_version", 99, "the domain 'heat'"),
    ],
)
def test_a_policy_of_another_version_is_refused(
    on_file: Office, name: str, given: Any, said: str
) -> None:
    package = on_file.package(**{name: given})
    with pytest.raises(Parity311Error, match=said):
        on_file.registry.propose(package, on_file.audit(), **WHO)
    assert on_file.states == {}


def test_a_policy_that_has_become_of_another_version_is_refused(
    on_file: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The software moved on between proposal and release, and between release and rollback."""
    first, second, third = on_file.released(), on_file.released(), on_file.propose()
    monkeypatch.setattr("parity311.lifecycle.evidence.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    for action, subject in (("release", third), ("rollback", "heat")):
        with pytest.raises(RegistryError, match="of the records' schema; this is version"):
            on_file.registry.act(action, subject, **WHO)
    # Who must not go on can be stopped all the same, and is told how.
    with pytest.raises(RegistryError, match="Until then `parity311 policies suspend heat`"):
        on_file.registry.act("rollback", "heat", **WHO)
    on_file.registry.act("suspend", "heat", **WHO)
    for action in ("resume", "rollback"):
        with pytest.raises(RegistryError, match=r"of the records' schema.*then propose it\.$"):
            on_file.registry.act(action, "heat", **WHO)
    assert on_file.states == {first: "RETIRED", second: "SUSPENDED", third: "PROPOSED"}


def change_weights(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def change_manifest(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"heat"', '"snad"', 1))


@pytest.mark.parametrize("change", [change_weights, change_manifest])
def test_a_package_changed_on_disk_is_refused(
    on_file: Office, change: Callable[[Path], None]
) -> None:
    live, version = on_file.released(), on_file.propose()
    change(on_file.folder / "policy2")
    with pytest.raises(RegistryError, match=f"{version}.*no longer whole"):
        on_file.registry.act("release", version, **WHO)
    assert any(version in one for one in on_file.registry.verify().problems)
    with pytest.raises(Parity311Error, match="changed since|no whole policy"):
        on_file.registry.propose(on_file.folder / "policy2", on_file.audit(), **WHO)
    assert on_file.states == {live: "LIVE", version: "PROPOSED"}
    on_file.registry.act("retire", version, **WHO)
    assert on_file.registry.verify().problems == ()


def test_the_copy_outlives_the_folder(on_file: Office) -> None:
    first, second = on_file.released(), on_file.released()
    for path in (on_file.folder / "policy1").iterdir():
        path.unlink()
    (on_file.folder / "policy1").rmdir()
    on_file.registry.act("rollback", "heat", **WHO)
    assert on_file.states == {first: "LIVE", second: "RETIRED"}
    on_file.registry.export(first, on_file.folder / "again")
    assert on_file.registry.load(first).manifest["domain"] == "heat"
    assert on_file.registry.propose(on_file.folder / "again", on_file.audit("INSUFFICIENT"), **WHO)


def test_the_same_is_not_proposed_twice(on_file: Office) -> None:
    folder, audit = on_file.package(), on_file.audit()
    version = on_file.registry.propose(folder, audit, **WHO)
    with pytest.raises(RegistryError, match=f"is {version} already, PROPOSED"):
        on_file.registry.propose(folder, audit, **WHO)
    on_file.registry.act("retire", version, **WHO)
    assert on_file.registry.propose(folder, audit, **WHO) == "heat-2"


# What an audit file must be


MANIFEST_OF = {"agent": "dqn", "domain": "heat", "preference": [0.4, 0.3, 0.3, 0.0]}
PAID = "dqn_equity_0.30"


def verdict_of(folder: Path, *rows: dict[str, Any], **more: Any) -> str:
    return read_audit(write_audit(folder / "audit.json", *rows, **more), MANIFEST_OF).verdict


def test_the_gravest_verdict_counts(tmp_path: Path) -> None:
    good, bad, unsure = (audit_row(one, PAID) for one in ("PASS", "FAIL", "INSUFFICIENT"))
    by_race = {"strata": "race5"}
    per_complaint, per_incident = {"denominator": "complaints"}, {"denominator": "incidents"}
    assert verdict_of(tmp_path, good, unsure | per_incident) == "PASS"
    assert verdict_of(tmp_path, good, bad | per_incident) == "FAIL"
    assert verdict_of(tmp_path, unsure | per_incident, good | per_complaint) == "INSUFFICIENT"
    assert verdict_of(tmp_path, good) == "PASS"
    assert verdict_of(tmp_path, good, unsure | by_race) == "INSUFFICIENT"
    assert verdict_of(tmp_path, good, unsure, bad | by_race) == "FAIL"
    assert verdict_of(tmp_path, good, bad | per_complaint) == "PASS"
    assert verdict_of(tmp_path, bad | per_complaint) == "FAIL"
    assert verdict_of(tmp_path, good, bad | {"domain": "boiler"}, bad | {"policy": "dqn"}) == "PASS"


def test_a_run_that_is_audited_is_believed_until_it_is_changed(tmp_path: Path) -> None:
    found = audit_run(make_run(tmp_path / "runs"), AuditSpec(n_draws=100), root=tmp_path / "runs")
    folder = tmp_path / "runs" / found["audit"]
    made_in = {"origin": {"run": found["run"]}}
    manifest = MANIFEST_OF | {"preference": [0.7, 0.3, 0.0, 0.0]} | made_in
    said = {
        row["policy"]: row["verdict"]
        for row in found["policies"]
        if row["denominator"] == "actionable"
    }
    assert read_audit(folder, manifest).verdict == said["dqn"]
    assert read_audit(folder / "audit.json", manifest | {"agent": "balanced"}).verdict == "FAIL"
    with pytest.raises(RegistryError, match="does not judge dqn in heat"):
        read_audit(folder, MANIFEST_OF | made_in)
    for run, words in (("elsewhere", "elsewhere"), ("", "no run")):
        with pytest.raises(RegistryError, match=f"the policy comes from {words}"):
            read_audit(folder, manifest | {"origin": {"run": run}})
    path = folder / "audit.json"
    path.write_text(path.read_text().replace("FAIL", "PASS"))
    with pytest.raises(Parity311Error, match="change|not as"):
        read_audit(folder, manifest)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in audit_row("PASS", PAID).items() if key != name}


BAD_AUDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda path: None, "holds no audit"),
    "no JSON": (lambda path: path.write_text("{"), "holds no audit"),
    "a list": (lambda path: path.write_text("[]"), "holds no audit"),
    "no rows": (lambda path: write_audit(path), "judges no policy"),
    "no verdict": (lambda path: write_audit(path, without("verdict")), "holds no audit"),
    "another policy": (lambda path: write_audit(path, audit_row("PASS", "cql")), "cql in heat"),
    "the one that is not paid": (
        lambda path: write_audit(path, audit_row("PASS", "dqn")), "does not judge",
    ),
    "another domain": (
        lambda path: write_audit(path, audit_row("PASS", PAID, "boiler")), "in boiler",
    ),
    "a verdict of nobody": (
        lambda path: write_audit(path, audit_row("PASS", PAID) | {"verdict": "FINE"}), "'FINE'",
    ),
    "a verdict against its figures": (
        lambda path: write_audit(path, audit_row("FAIL", PAID) | {"verdict": "PASS"}),
        "does not follow",
    ),
    "a failure softened": (
        lambda path: write_audit(path, audit_row("FAIL", PAID) | {"verdict": "INSUFFICIENT"}),
        "does not follow",
    ),
    "a verdict without figures": (
        lambda path: write_audit(path, without("gap_upper")), "does not follow",
    ),
    "another specification": (
        lambda path: write_audit(path, audit_row("PASS", PAID), spec_sha256="ab" * 32),
        "specification in .* was changed",
    ),
    "a specification of another version": (
        lambda path: write_audit(path, audit_row("PASS", PAID), spec={"spec_version": 99}),
        "spec_version 99",
    ),
    "another package": (
        lambda path: write_audit(
            path, audit_row("PASS", PAID), package={"weights_sha256": "ab" * 32}
        ),
        "audit of another package",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_AUDITS)
def test_what_is_no_audit_of_this_policy_is_refused(name: str, tmp_path: Path) -> None:
    write, expected = BAD_AUDITS[name]
    path = tmp_path / "audit.json"
    write(path)
    with pytest.raises(Parity311Error, match=expected) as told:
        read_audit(path, MANIFEST_OF)
    assert "\n" not in str(told.value)


def test_an_audit_that_names_its_package_is_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    write_audit(path, audit_row("PASS", "candidate"), package={"weights_sha256": "ab" * 32})
    assert read_audit(path, MANIFEST_OF | {"weights_sha256": "ab" * 32}).verdict == "PASS"


def test_rules_that_share_their_weights_do_not_share_an_audit(tmp_path: Path) -> None:
    """A rule's prices stand in its manifest: what it is paid for changes no weight."""
    unpaid = MANIFEST_OF | {"agent": "dual_threshold", "weights_sha256": "ab" * 32, "seal": "1"}
    paid = unpaid | {"preference": [0.2, 0.2, 0.6, 0.0], "seal": "2"}
    row = audit_row("PASS", "dual_threshold")
    named = {"weights_sha256": "ab" * 32, "seal": "2"}
    path = write_audit(tmp_path / "audit.json", row, package=named)
    assert read_audit(path, paid).is_named
    with pytest.raises(RegistryError, match="audit of another package"):
        read_audit(path, unpaid)
    by_weights = write_audit(tmp_path / "old.json", row, package={"weights_sha256": "ab" * 32})
    assert not read_audit(by_weights, unpaid).is_named


def test_figures_that_judged_one_package_judge_no_other(on_file: Office) -> None:
    audit = on_file.audit()
    version = on_file.registry.propose(on_file.package(), audit, **WHO)
    other = on_file.package()
    copied = on_file.folder / "copied.json"
    copied.write_text(audit.read_text() + "\n")
    for one in (audit, copied):
        with pytest.raises(RegistryError, match=f"given for {version}, which is another package"):
            on_file.registry.propose(other, one, **WHO)
    seal = json.loads((other / MANIFEST).read_text())["seal"]
    named = write_audit(copied, audit_row("PASS", "network"), package={"seal": seal})
    assert on_file.registry.propose(other, named, **WHO) == "heat-2"


def test_a_stricter_tau_is_kept_with_the_version(on_file: Office) -> None:
    spec = replace(AuditSpec(), tau=0.03)
    audit = write_audit(on_file.folder / "strict.json", audit_row("PASS", "network"), by=spec)
    version = on_file.registry.propose(on_file.package(), audit, **WHO)
    stored = on_file.registry.stored(version)
    assert json.loads(stored.audit)["spec"]["tau"] == 0.03
    lines = {line.name: line.value for line in on_file.registry.statement(version)}
    assert lines["tau"] == "3 points"


# Databases


def test_a_role_that_may_only_add_rows_is_enough(server: Server, on_server: Office) -> None:
    """What docs/how-to/release-a-policy.md says of the role that acts."""
    version = on_server.propose()
    name = on_server.address.split("/")[3].split("?")[0]
    clerk = f"clerk_{name}"
    for statement in (
        f"CREATE ROLE {clerk} LOGIN",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {clerk}",
        f"GRANT UPDATE ON states TO {clerk}",
    ):
        server.do(statement, name)
    on_server.address = on_server.address.replace("parity311@", f"{clerk}@")
    on_server.registry = on_server.open(makes=True)
    on_server.registry.act("release", version, **WHO)
    assert (
        on_server.registry.propose(on_server.package(), on_server.audit("FAIL"), **WHO) == "heat-2"
    )
    assert on_server.registry.verify().problems == ()


def test_a_server_that_goes_away_in_the_middle(
    server: Server, on_server: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, other = on_server.released(), on_server.propose()

    def stop(*given: Any) -> None:
        server.stop(signal.SIGQUIT)

    monkeypatch.setattr(registry_module, "check_gates", stop)
    try:
        with pytest.raises(RegistryError, match="undone whole: look with") as told:
            on_server.registry.act("release", other, **WHO)
        assert "\n" not in str(told.value)
        with pytest.raises(RegistryError, match="The database at postgresql://"):
            on_server.registry.policies()
    finally:
        server.start()
    assert on_server.states == {live: "LIVE", other: "PROPOSED"}
    assert on_server.registry.verify().problems == ()


def test_a_file_that_goes_away_is_not_made_anew(on_file: Office) -> None:
    version = on_file.propose()
    path = Path(on_file.address)
    path.unlink()
    with pytest.raises(RegistryError, match="does not do what was asked"):
        on_file.registry.act("release", version, **WHO)
    assert not path.exists()
