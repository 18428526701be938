"""An audit specification: hashed, strict, one clear line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity311.audit.spec import AuditSpec, read_spec, spec_from_plain, with_options, write_spec
from parity311.errors import InputError


def test_written_and_read_back_it_is_the_same(tmp_path: Path) -> None:
    spec = AuditSpec(strata=("income5", "language"), tau=0.03, date_from="2025-01-01")
    path = tmp_path / "audit.toml"
    path.write_text(write_spec(spec), encoding="utf-8")
    assert read_spec(path) == spec
    assert spec.sha256 in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [{"tau": 0.06}, {"polarity": "burden"}, {"denominators": ("cases",)}, {"seed": 1}],
)
def test_every_field_is_in_the_hash(change: dict) -> None:
    assert AuditSpec(**change).sha256 != AuditSpec().sha256


def test_gap_and_ratio_meet_where_they_change_over() -> None:
    spec = AuditSpec(tau=0.05, ratio_below=0.2)
    low, high = 0.2 - 0.025, 0.2 + 0.025
    assert spec.smallest_ratio == pytest.approx(low / high)
    assert AuditSpec(ratio_floor=0.8).smallest_ratio == 0.8


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({"tau": 1.5}, "between 0 and 1"),
        ({"tau": 0.0}, "between 0 and 1"),
        ({"taw": 0.05}, "taw"),
        ({"strata": ["income6"]}, "Did you mean 'income5'"),
        ({"polarity": "good"}, "allowed: benefit, burden"),
        ({"n_draws": 10}, "no tail"),
        ({"n_draws": 10**12}, "draws and seeds from 0"),
        ({"seed": -1}, "draws and seeds from 0"),
        ({"seed": 10**23}, "draws and seeds from 0"),
        ({"spec_version": 9}, "spec_version 9"),
        ({"strata": []}, "at least one way to group"),
        ({"tau": "wide"}, "tau"),
        ({"minimum_events": 0}, "at least 2"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(plain: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        spec_from_plain(plain)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read_spec(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("tau = = 1")
    with pytest.raises(InputError, match="is not TOML"):
        read_spec(tmp_path / "bad.toml")


def test_options_of_the_command_line() -> None:
    assert with_options(AuditSpec(), strata="race").strata == ("race5", "race_majority")
    assert with_options(AuditSpec(), tau=0.1).tau == 0.1
    with pytest.raises(InputError, match="Unknown strata 'races'"):
        with_options(AuditSpec(), strata="races")
    with pytest.raises(InputError, match="between 0 and 1"):
        with_options(AuditSpec(), tau=2.0)
