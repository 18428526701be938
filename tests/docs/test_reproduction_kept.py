"""Kept reproductions: judged by today's claims, and judged again without inventing anything."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import docs.reproduction as kept_pages
import pytest
from docs.reproduce_there import LATE, leave_out_untrained, pack
from docs.reproduction import (
    KEPT,
    RESULTS,
    apart_block,
    elevator_block,
    keep_archive,
    kept_runs,
    prices_block,
    reproduction_block,
)
from docs.reproduction_again import Kept, find_again, judge_again, number_after

from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import Claim
from parity311.studies.reproduction.claims.elevator import POLICIES
from parity311.studies.reproduction.jobs import make_jobs, read_plan, write_plan
from parity311.studies.reproduction.verdicts import CONTRADICTS, FAILS, FOLLOWS, HOLDS, UNTESTED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "reproduction.md"
CLAIMS = {claim.key: claim for claim in all_claims()}


RUNS = sorted(folder.name for folder in kept_runs().values())


def kept_rows(run: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / run / "claims.json").read_text())


def is_sound(row: dict[str, Any]) -> bool:
    """The check: an interval contains its point, and a gap lies between nothing and everything."""
    if row["interval"] is None:
        return True
    lower, upper = row["interval"]
    if row["key"].startswith("parity_") and not 0.0 <= lower <= upper <= 1.0:
        return False
    return lower - 1e-9 <= row["value"] <= upper + 1e-9


@pytest.mark.parametrize("run", RUNS)
def test_kept_runs_answer_todays_claims(run: str) -> None:
    rows = {row["key"]: row for row in kept_rows(run)}
    assert rows.keys() == CLAIMS.keys()
    for key, claim in CLAIMS.items():
        assert (rows[key]["source"], rows[key]["quote"]) == (claim.source, claim.quote), key


@pytest.mark.parametrize("run", RUNS)
def test_kept_intervals_are_sound(run: str) -> None:
    assert [row["key"] for row in kept_rows(run) if not is_sound(row)] == []
    odd = {"key": "estimator_heat", "value": -0.507, "interval": [-0.549, -0.531]}
    assert not is_sound(odd)
    assert not is_sound({"key": "parity_dqn_heat", "value": 0.3, "interval": [-0.128, 1.155]})


@pytest.mark.parametrize("run", RUNS)
def test_no_error_of_the_paper_counts_twice(run: str) -> None:
    rows = kept_rows(run)
    verdicts = {row["key"]: row["verdict"] for row in rows}
    for row in rows:
        if row["follows_from"] and verdicts[row["follows_from"]] == CONTRADICTS:
            assert row["verdict"] not in (CONTRADICTS, FAILS), row["key"]
    assert FOLLOWS in verdicts.values()


def row_of(claim: Claim, **other: Any) -> dict[str, Any]:
    return {
        "key": claim.key, "definition": claim.definition, "ours": "", "value": 0.0,
        "interval": None, "verdict": HOLDS, "reason": "once", **other,
    }  # fmt: skip


def verdict_of(key: str, kept: Kept, *, is_seen: bool = False) -> str:
    return find_again(CLAIMS[key], kept, is_seen).decision.verdict


def test_years_that_were_seen_are_withdrawn() -> None:
    kept = {"snad_alike": row_of(CLAIMS["snad_alike"], value=0.01, interval=[0.0, 0.02])}
    assert verdict_of("snad_alike", kept, is_seen=True) == UNTESTED
    assert verdict_of("snad_alike", kept) == HOLDS


def test_another_agents_figure_is_withdrawn_and_the_papers_kept() -> None:
    given = {"value": 0.1, "interval": [0.05, 0.15]}
    kept = {key: row_of(CLAIMS[key], **given) for key in ("throughput_heat", "throughput_ert")}
    assert verdict_of("throughput_heat", kept) == UNTESTED
    assert verdict_of("throughput_ert", kept) == HOLDS


def test_a_changed_definition_without_a_way_to_judge_it_is_withdrawn() -> None:
    kept = {"transfer_dqn": row_of(CLAIMS["transfer_dqn"], definition="something else")}
    assert verdict_of("transfer_dqn", kept) == UNTESTED
    assert verdict_of("transfer_dqn", {}) == UNTESTED


def test_equity_is_judged_by_todays_rules() -> None:
    parity, price = "parity_dqn_heat", "price_dqn_heat"
    for today, verdict in ((8.6, HOLDS), (1.0, UNTESTED)):
        words = f"gap 2.5 % (-0.2 to 4.9); today's rule {today} %"
        kept = {
            parity: row_of(CLAIMS[parity], value=0.025, interval=[-0.002, 0.049], ours=words),
            price: row_of(CLAIMS[price], value=0.055, interval=[0.045, 0.065],
                          ours="5.5 % (4.5 to 6.5) at a gap of 2.5 %"),
        }  # fmt: skip
        found = find_again(CLAIMS[parity], kept, False)
        assert found.ours.lower == 0.0
        assert found.decision.verdict == verdict_of(price, kept) == verdict
    null = {"income_gradient_heat": row_of(CLAIMS["income_gradient_heat"], value=0.0,
                                           interval=[-0.001, 0.001])}  # fmt: skip
    assert verdict_of("income_gradient_heat", null) == FAILS
    with pytest.raises(ValueError, match="no figure after"):
        number_after("today's rule", "gap 2.5 %")


def test_elevators_are_judged_by_order() -> None:
    """Ratios to BALANCED's reward as the table has them; then with DQN ahead, as it was found."""
    table = dict(
        zip(POLICIES, (2.0, 1.33, 1.19, 1.12, 1.12, 1.12, 1.04, 1.06, 1.02, 1.0), strict=True)
    )
    kept = {
        f"elevator_{name.lower()}": {"key": name, "value": x, "interval": [x - 1e-3, x + 1e-3],
                                     "ours": "reward", "definition": ""}
        for name, x in table.items()
    }  # fmt: skip
    assert verdict_of("elevator_balanced", kept) == HOLDS
    assert verdict_of("elevator_order_reward", kept) == HOLDS
    kept["elevator_dqn"] |= {"value": 0.967, "interval": [0.964, 0.969]}
    assert verdict_of("elevator_balanced", kept) == FAILS
    kept["elevator_dqn"] |= {"value": 0.99, "interval": [0.9, 1.1]}
    assert verdict_of("elevator_balanced", kept) == UNTESTED


def test_the_paper_against_itself_needs_no_kept_figure() -> None:
    verdicts = {row["key"]: row["verdict"] for row in judge_again({}, False)
                if CLAIMS[row["key"]].kind in ("arithmetic", "text")}  # fmt: skip
    assert verdicts["boiler_rows"] == CONTRADICTS
    assert verdicts["boiler_split"] == HOLDS
    assert verdicts["correction_applied"] == CONTRADICTS


def made_up_run(folder: Path, programme: str, verdicts: dict[str, str], **other: Any) -> Path:
    """A run with one claim in two domains and one price."""
    folder.mkdir(parents=True)
    rows = [
        {"key": key, "claim": f"claim {key}", "published": "more", "ours": f"{programme} found",
         "verdict": verdict, "reason": "so", "why_apart": f"ours differs in {key}", **other}
        for key, verdict in verdicts.items()
    ]  # fmt: skip
    price = {"domain": "heat", "agent": "reinforce", "weight": 0.5, "gap": 0.01, "gap_lower": 0.0,
             "gap_upper": 0.03, "gap_today": 0.08, "visits": 0.2, "price": 0.6, "price_lower": 0.5,
             "price_upper": 0.7, "note": ""}  # fmt: skip
    files = {
        "claims.json": rows, "prices.json": [{**price, "weight": 0.0}, price], "programme.json": [],
        "run.json": {"config": {"preset": "small", "programme": programme, "seed": 5}},
    }  # fmt: skip
    for name in KEPT:
        content = json.dumps(files[name]) if name in files else "-"
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def two_programmes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both programmes on three claims, brought back as archives of another machine."""
    monkeypatch.setattr(kept_pages, "RESULTS", tmp_path / "results")
    level = {"elevator_level": UNTESTED}
    theirs = made_up_run(tmp_path / "a", "paper", {"first": HOLDS, "second": FAILS, **level})
    ours = made_up_run(tmp_path / "b", "ours", {"first": FAILS, "second": UNTESTED, **level})
    for run in (theirs, ours):
        folder = keep_archive(pack(run, tmp_path / "out"))
        assert sorted(path.name for path in folder.iterdir()) == sorted(KEPT)
    return tmp_path


def test_both_programmes_stand_in_one_table(two_programmes: Path) -> None:
    text = reproduction_block()
    held, failed = text.index("### What holds"), text.index("### What does not hold")
    assert held < text.index("| claim first | more | paper found | holds | **not** |") < failed
    assert failed < text.index("| claim second | more | paper found | **not** | open |")
    apart = apart_block()
    assert "| small | claim first | paper found: holds | ours found: **not** |" in apart
    assert "ours differs in first" in apart
    assert "claim second" not in apart
    assert "On 1 more claims" in apart
    assert "| heat, REINFORCE | 8.0 |" in prices_block()
    assert "1.0 (0.0 to 3.0); 60.0 (50.0 to 70.0); 0.20" in prices_block()
    assert "No run" in elevator_block()


def test_a_claim_the_first_run_left_out_is_told_by_the_next(two_programmes: Path) -> None:
    results = two_programmes / "results"
    row = kept_rows_in(results / "reproduction-small-paper")
    row[0] |= {"verdict": UNTESTED, "reason": f"too few cases to test it: {LATE}"}
    (results / "reproduction-small-paper" / "claims.json").write_text(json.dumps(row))
    assert "| claim first | more | ours found | – | **not** |" in reproduction_block()


def kept_rows_in(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "claims.json").read_text())


def test_kept_runs_say_why_they_are_apart() -> None:
    """Both programmes in the same small cities: a reason wherever the verdicts differ."""
    theirs, ours = (
        {row["key"]: row for row in kept_rows(run)}
        for run in ("reproduction-small-paper", "reproduction-small")
    )
    for key, row in theirs.items():
        assert row["beside_verdict"] == ours[key]["verdict"], key
        assert bool(row["why_apart"]) == (row["verdict"] != ours[key]["verdict"]), key
    assert any(row["why_apart"] for row in theirs.values())


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../elsewhere"), io.BytesIO())
    with pytest.raises(SystemExit, match="no part of a kept run"):
        keep_archive(path)


def test_a_domain_that_was_not_trained_in_time_is_left_out(tmp_path: Path) -> None:
    jobs = make_jobs(("crane", "snad"), "small", 5)
    (tmp_path / "params").mkdir()
    for job in jobs:
        (tmp_path / "params" / job.params_file).write_bytes(b"params")
    write_plan(tmp_path, jobs, preset="small", seed=5, domains=["crane", "snad"])
    assert leave_out_untrained(tmp_path) == ["crane", "snad"]
    about, left = read_plan(tmp_path)
    assert left == []
    assert about["untested"] == {"crane": LATE, "snad": LATE}


def test_the_page_is_short_and_has_every_claim_once() -> None:
    lines = PAGE.read_text().splitlines()
    assert len(lines) <= 300
    start = "The paper's own figures agree in these places: "
    agreeing = [line.removeprefix(start)[:-1] for line in lines if line.startswith(start)]
    places = "; ".join(agreeing).split("; ")
    for claim in CLAIMS.values():
        found = [line for line in lines if line.startswith(f"| {claim.claim} |")]
        assert len(found) + places.count(claim.claim) == 1, claim.claim
