"""A package is whole, of a format that can be read, and served without JAX; or refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.served import PRICES, make_package, random_network, save_package

from parity311.agents.forward import score_actions_numpy
from parity311.agents.package import FORMAT_VERSION, MANIFEST, WEIGHTS, read_package, write_package
from parity311.domains import get_domain
from parity311.errors import Parity311Error, RunError
from parity311.mdp.harness import Harness
from parity311.records.store import Records
from parity311.serving.policy import LoadedPolicy, load_policy
from parity311.storage.hashes import hash_file, seal
from parity311.storage.tensors import write_tensors

HARNESS = Harness(get_domain("snad"))


def reseal(folder: Path, **changed: Any) -> Path:
    """Write the manifest anew with these fields, as if it had been saved so."""
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["seal"]
    sealed = seal({**manifest, **changed, "weights_sha256": hash_file(folder / WEIGHTS)})
    (folder / MANIFEST).write_text(json.dumps(sealed))
    return folder


def write_format_1(folder: Path) -> Path:
    """A package as it was first written: the policy's arrays alone."""
    save_package(folder, "snad", random_network(HARNESS))
    write_tensors(folder / WEIGHTS, random_network(HARNESS))
    return reseal(folder, format_version=1)


@pytest.mark.parametrize("policy", ["balanced", "index", "network"])
def test_written_and_read_it_decides_the_same(
    policy: str, tmp_path: Path, served_records: Records
) -> None:
    weights = random_network(HARNESS) if policy == "network" else policy
    voters = tuple(random_network(HARNESS, seed) for seed in range(3))
    made = make_package(HARNESS, weights, prices=PRICES, voters=voters)
    read = read_package(write_package(tmp_path / "policy", made))
    seen = np.random.default_rng(0).random((500, HARNESS.n_features)).astype(np.float32)
    for before, after in zip(
        (made.weights, made.rule, *made.voters), (read.weights, read.rule, *read.voters),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(
            score_actions_numpy(before, seen), score_actions_numpy(after, seen)
        )
    np.testing.assert_array_equal(read.params.visits_per_step, made.params.visits_per_step)
    recommended = [LoadedPolicy(one).recommend(served_records).rows(50) for one in (made, read)]
    assert recommended[0] == recommended[1]
    assert any(row["agreement"] is not None for row in recommended[0])


def test_format_1_decides_and_is_not_served(tmp_path: Path, served_records: Records) -> None:
    policy = load_policy(write_format_1(tmp_path / "old"))
    assert policy.decide(np.zeros((3, HARNESS.n_features))).shape == (3,)
    with pytest.raises(RunError, match=r"saved without its estimated process.*train it again"):
        policy.recommend(served_records)


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_one_byte_changed_is_refused(name: str, tmp_path: Path) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    whole = (folder / name).read_bytes()
    for place in np.random.default_rng(1).integers(0, len(whole), 40):
        changed = bytearray(whole)
        changed[place] ^= 1
        (folder / name).write_bytes(changed)
        with pytest.raises(RunError) as said:
            load_policy(folder)
        assert "\n" not in str(said.value)
    (folder / name).write_bytes(whole)
    assert load_policy(folder).manifest["agent"] == "index"


def test_a_manifest_without_its_seal_is_refused(tmp_path: Path) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["seal"]
    manifest["agent"] = "another"
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="was changed since it was saved"):
        load_policy(folder)


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_a_missing_file_is_refused(name: str, tmp_path: Path) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    (folder / name).unlink()
    with pytest.raises(RunError, match=r"^There is no whole policy in .*; train and save it"):
        load_policy(folder)


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, "two", None])
def test_an_unknown_format_is_refused(version: Any, tmp_path: Path) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    with pytest.raises(RunError, match=r"has format .*; this version reads 1 to 2"):
        load_policy(reseal(folder, format_version=version))


def test_another_version_of_the_domain_is_refused(tmp_path: Path, served_records: Records) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    version = get_domain("snad").version + 1
    policy = load_policy(reseal(folder, domain_version=version))
    with pytest.raises(RunError, match=rf"made for version {version} of 'snad'"):
        policy.recommend(served_records)


def test_an_unknown_domain_is_refused(tmp_path: Path, served_records: Records) -> None:
    folder = save_package(tmp_path / "policy", "snad", "index")
    with pytest.raises(Parity311Error, match="snat"):
        load_policy(reseal(folder, domain="snat")).recommend(served_records)


def test_a_policy_that_sees_another_equity_term_is_refused(served_records: Records) -> None:
    """What serving shows of equity is a price; a deficit would be read as one."""
    other = Harness(get_domain("snad"), equity_mode="potential")
    policy = LoadedPolicy(make_package(other, random_network(other)))
    with pytest.raises(RunError, match=r"equity term of mode 'potential'.*Train it"):
        policy.recommend(served_records)


def test_records_without_a_field_it_sees_are_refused(served_records: Records) -> None:
    policy = LoadedPolicy(make_package(Harness(get_domain("heat")), "index"))
    journal = policy.recommend(served_records).journal
    bare = replace(journal, flags={})
    with pytest.raises(Parity311Error, match=r"lack .*is_building_wide"):
        policy.recommend(bare)


SERVES = """
import sys
from parity311.records.store import open_records
from parity311.serving.policy import load_policy
found = load_policy(sys.argv[1]).recommend(open_records(sys.argv[2]))
rows, summary = found.rows(), found.summary()
heavy = [name for name in ("jax", "scipy", "shap", "numpyro") if name in sys.modules]
print(len(rows), heavy)
"""


@pytest.mark.parametrize("slug", ["heat", "ert"])
def test_jax_is_not_imported_to_serve(slug: str, tmp_path: Path, served_city: Path) -> None:
    folder = save_package(tmp_path / "policy", slug, "index")
    words = [sys.executable, "-c", SERVES, str(folder), str(served_city)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    n, heavy = done.stdout.split(maxsplit=1)
    assert int(n) > 10
    assert heavy.strip() == "[]"
