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
    keep_rates,
    kept_runs,
    left_block,
    prices_block,
    reproduction_block,
)
from docs.reproduction_again import (
    find_again,
    judge_again,
    later_of,
    read_kept,
    set_anew,
    told_of_today,
    within_range,
)

from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import Claim
from parity311.studies.reproduction.jobs import make_jobs, read_plan, write_plan
from parity311.studies.reproduction.reproduce import tells
from parity311.studies.reproduction.verdicts import (
    CONTRADICTS,
    FAILS,
    FOLLOWS,
    HOLDS,
    NOT_CLAIMED,
    UNTESTED,
    Decision,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "reproduction.md"
CLAIMS = {claim.key: claim for claim in all_claims()}


RUNS = sorted(folder.name for folder in kept_runs().values())


def kept_rows(run: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / run / "claims.json").read_text())


def is_sound(row: dict[str, Any]) -> bool:
    """The check: an interval contains its point, and ends where its figure does."""
    if row["interval"] is None:
        return True
    lower, upper = row["interval"]
    if row["key"].startswith(("parity_", "table_")) and not 0.0 <= lower <= upper <= 1.0:
        return False
    if (
        row["key"].startswith(("mistakes_", "narrows_"))
        and lower < -told_of_today(row) / 100 - 1e-3
    ):
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
    words = "84.0 against 98.6 per 100 complaints: -14.59 (-417.13 to +242.16)"
    fewer_than_none = {"key": "mistakes_crane", "value": -0.146, "interval": [-4.171, 2.422]}
    assert not is_sound({**fewer_than_none, "ours": words})


def test_an_interval_ends_where_its_figure_does() -> None:
    row = {"key": "mistakes_crane", "value": -0.146, "interval": [-4.171, 2.422],
           "ours": "84.0 against 98.6 per 100 complaints: -14.59 (-417.13 to +242.16)"}  # fmt: skip
    found = within_range(row)
    assert found["ours"].endswith(": -14.59 (-98.60 to +242.16)")
    assert (found["interval"], is_sound(found)) == ([-0.986, 2.422], True)
    words = "dqn: -80.0 % (-90.0 to -70.0), gap +0.9 points (-15.5 to +16.2)"
    dominated = {"key": "dominated_heat", "interval": [-0.9, -0.7], "ours": words}
    assert within_range(dominated, 3.6)["ours"] == (
        "dqn: -80.0 % (-90.0 to -70.0), gap +0.9 points (-3.6 to +16.2)"
    )
    assert within_range(dominated, 3.6)["interval"] == [-0.9, -0.7]
    untold = {"key": "narrows_heat", "interval": None, "ours": "–"}
    assert within_range(untold) == untold


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
        "key": claim.key, "definition": claim.definition, "ours": "shown", "value": 0.0,
        "interval": None, "verdict": HOLDS, "reason": "once", "domains": list(claim.domains),
        **other,
    }  # fmt: skip


def decision_of(key: str, **other: Any) -> Decision:
    return find_again(CLAIMS[key], row_of(CLAIMS[key], **other)).decision


@pytest.mark.parametrize("run", RUNS)
def test_judging_again_changes_nothing_that_was_judged_by_todays_rules(run: str) -> None:
    """Rows of domains that a run left out stay open, whatever is judged again."""
    kept = read_kept(RESULTS / run)
    again = {row["key"]: row for row in judge_again(kept)}
    for key, row in kept.items():
        assert again[key]["verdict"] == row["verdict"], key


def test_what_was_not_measured_is_withdrawn() -> None:
    assert find_again(CLAIMS["snad_alike"], None).decision.verdict == UNTESTED
    assert decision_of("steady_ert", definition="something else").verdict == UNTESTED
    unsound = decision_of("snad_alike", value=-0.507, interval=[-0.549, -0.531])
    assert (unsound.verdict, "contain" in unsound.reason) == (UNTESTED, True)


def test_another_city_meets_a_level_and_does_not_refute_it() -> None:
    given = {"value": 1.0, "interval": [1.0, 1.0]}
    assert decision_of("snad_actionable_dqn", **given).verdict == HOLDS
    assert decision_of("snad_actionable_dqn", **given, verdict=FAILS).verdict == UNTESTED
    behind = {"value": -0.1, "interval": [-0.2, -0.05], "verdict": UNTESTED}
    assert decision_of("boiler_recall_lead", **behind).verdict == FAILS


def test_a_question_of_the_paper_is_no_claim() -> None:
    more = {"value": 0.1, "interval": [0.05, 0.15]}
    assert decision_of("throughput_ert", **more).reason.endswith("yes here")
    assert decision_of("mistakes_ert", **more).reason.endswith("not here")
    found = decision_of("parity_dqn_elevator", **more)
    assert (found.verdict, "here it holds" in found.reason) == (NOT_CLAIMED, True)
    assert decision_of("parity_dqn_heat", **more).verdict == HOLDS


def test_an_order_played_in_one_office_can_hold_and_not_fail() -> None:
    once = decision_of("elevator_tail")
    assert (once.verdict, "not played in the kept run" in once.reason) == (HOLDS, True)
    assert decision_of("elevator_tail", reason=once.reason) == once
    open_ = decision_of("elevator_tail", verdict=FAILS, reason="not ahead of EMERG")
    assert (open_.verdict, open_.reason.startswith("not ahead of EMERG")) == (UNTESTED, True)
    both = {"reason": "not ahead of EMERG; judged in both offices"}
    for verdict in (FAILS, FOLLOWS, HOLDS):
        assert decision_of("elevator_tail", verdict=verdict, **both).verdict == verdict


def test_what_is_told_in_words_is_read_from_them() -> None:
    words = "-7.0 % (-15.6 to -0.1) over today's rule on 2020; -6.3 % on 2025"
    given = {"value": -0.07, "interval": [-0.156, -0.001], "ours": words}
    assert decision_of("transfer_dqn", **given).verdict == UNTESTED
    given["ours"] = words.replace("-6.3 %", "+2.0 % (+1.0 to +3.0)")
    assert decision_of("transfer_dqn", **given).verdict == HOLDS
    with pytest.raises(ValueError, match="no figure of 2025"):
        later_of("-7.0 % on 2020")
    points = ", ".join(f"{x} at 5" for x in (0.668, 0.700, 0.695))
    given = {"value": 0.15, "interval": [0.14, 0.16], "ours": points}
    assert decision_of("grid_rises", **given, n_grid_seeds=1).verdict == UNTESTED
    assert decision_of("grid_rises", **given, n_grid_seeds=5).verdict == FAILS


def test_the_paper_against_itself_needs_no_kept_figure() -> None:
    verdicts = {row["key"]: row["verdict"] for row in judge_again({})
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
        "run.json": {"config": {"preset": "small", "programme": programme, "seed": 5,
                                "domains": ["heat"]}},
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
        assert bool(row["why_apart"]) == (tells(row) != tells(ours[key])), key
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


def with_city(run: Path, fingerprint: str, domains: dict[str, list[str]], of: str) -> Path:
    """A made-up run of a city, whose rows say which domains they are of."""
    manifest = json.loads((run / "run.json").read_text())
    slugs = sorted({slug for own in domains.values() for slug in own})
    config = {**manifest["config"], "domains": slugs}
    data = [{"name": "small-5", "fingerprint": fingerprint}]
    (run / "run.json").write_text(json.dumps({"config": config, "id": of, "data": data}))
    rows = [{**row, "domains": domains[row["key"]]} for row in kept_rows_in(run)]
    (run / "claims.json").write_text(json.dumps(rows))
    (run / "programme.json").write_text(json.dumps([{"part": s, "of": of} for s in slugs]))
    return run


VERDICTS = {"first": HOLDS, "second": HOLDS, "all": HOLDS}


def kept_and_later(
    tmp_path: Path, later: dict[str, list[str]], fingerprint: str, programme: str = "paper"
) -> tuple[Path, Path]:
    """A kept run of heat and ert, and a later one in which nothing holds."""
    own = {"first": ["heat"], "second": ["ert"], "all": []}
    kept = made_up_run(tmp_path / "kept", "paper", VERDICTS)
    late = made_up_run(tmp_path / "late", programme, dict.fromkeys(VERDICTS, FAILS))
    return with_city(kept, "f00", own, "old"), with_city(late, fingerprint, later, "new")


def test_a_domain_measured_anew_takes_the_place_of_the_kept_one(tmp_path: Path) -> None:
    later = {"first": ["heat"], "second": [], "all": []}
    kept, late = kept_and_later(tmp_path, later, "f00")
    found = set_anew(kept, late)
    assert found["config"]["anew"] == {"heat": "new"}
    assert [city["fingerprint"] for city in found["data"]] == ["f00"]
    # What is said of all domains is not told by a run of one.
    assert [row["verdict"] for row in kept_rows_in(kept)] == [FAILS, HOLDS, HOLDS]
    jobs = json.loads((kept / "programme.json").read_text())
    assert {job["part"]: job["of"] for job in jobs} == {"ert": "old", "heat": "new"}


def test_domains_that_were_left_out_may_come_from_a_city_of_their_own(tmp_path: Path) -> None:
    later = {"first": ["drone"], "second": ["boiler", "crane"], "all": []}
    kept, late = kept_and_later(tmp_path, later, "f01")
    rows = [{**row, "domains": later[row["key"]]} for row in kept_rows_in(kept)]
    (kept / "claims.json").write_text(json.dumps(rows))
    found = set_anew(kept, late)
    assert found["config"]["domains"] == ["ert", "heat", "boiler", "crane", "drone"]
    assert [city["fingerprint"] for city in found["data"]] == ["f00", "f01"]
    assert [row["verdict"] for row in kept_rows_in(kept)] == [FAILS, FAILS, FAILS]


@pytest.mark.parametrize(("programme", "fingerprint"), [("paper", "other"), ("ours", "f00")])
def test_figures_of_another_city_or_programme_are_refused(
    tmp_path: Path, programme: str, fingerprint: str
) -> None:
    later = {"first": ["heat"], "second": [], "all": []}
    kept, late = kept_and_later(tmp_path, later, fingerprint, programme)
    before = kept_rows_in(kept)
    with pytest.raises(SystemExit, match="another programme, preset, seed or city"):
        set_anew(kept, late)
    assert kept_rows_in(kept) == before


def told(job: str, agents: int, steps: int, cpu_seconds: float) -> str:
    """A line of the log of a machine with other work: twice as long on the wall."""
    spent = {"seconds": 2 * cpu_seconds, "cpu_seconds": cpu_seconds}
    return json.dumps({"job": job, "agents": agents, "steps": steps, **spent})


def test_what_is_left_is_told_by_the_rates_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_pages, "RESULTS", tmp_path)
    kept = tmp_path / "reproduction-nyc-paper"
    kept.mkdir()
    domains = sorted(kept_pages.DOMAINS_IN_APPENDIX - {"crane"})
    config = {"config": {"domains": domains, "seed": 5}}
    (kept / "run.json").write_text(json.dumps(config))
    # Ours: DQN 2 preferences, 5 seeds, 20,000; theirs 5 × 50,000. REINFORCE: 5 × 400,000 in both.
    assert "crane are not run in either programme: 4 million agent-steps." in left_block()
    log = tmp_path / "train.log"
    log.write_text(
        "compiling\n"
        + told("measured/ert/dqn", 5, 45_000, 100.0) + "\n"
        + told("measured/ert/reinforce", 5, 400_000, 200.0) + "\n"
        + told("measured/drone/dqn", 5, 50, 14.0) + "\n"
        + told("measured/snad/dqn", 5, 0, 60.0) + "\n"
    )  # fmt: skip
    rates = json.loads(keep_rates([log]).read_text())["jobs"]
    assert [(row["kind"], row["agent_steps_per_s"]) for row in rates] == [
        ("DQN", 2250.0), ("REINFORCE", 10_000.0)
    ]  # fmt: skip
    # 450,000 / 2,250 + 4,000,000 / 10,000 = 600 s.
    assert "DQN 2,250 to 2,250, REINFORCE 10,000 to 10,000" in left_block()
    assert "0.2 to 0.2 hours" in left_block()
    (kept / "run.json").write_text(json.dumps({"config": {**config["config"], "domains": [
        *domains, "crane"]}}))  # fmt: skip
    assert left_block() == "At New York's size all twelve domains are kept."
