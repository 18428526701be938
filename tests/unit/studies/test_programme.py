"""The programme of the paper is the paper's own, and both programmes stand beside each other."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.studies.made_up import MadeUpEvidence
from typer.testing import CliRunner

from parity311.cli import app
from parity311.domains import get_domain
from parity311.errors import EstimationError, InputError
from parity311.mdp.contract import BASELINES, EQUITY, Domain
from parity311.mdp.equity import PUBLISHED_TERM
from parity311.mdp.harness import Harness
from parity311.report.store import start_run
from parity311.studies.reproduction import prepare
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import judge_all
from parity311.studies.reproduction.jobs import TrainingJob, make_jobs
from parity311.studies.reproduction.page import write_page
from parity311.studies.reproduction.programme import (
    OURS,
    PAPER,
    baseline_rules,
    differences,
    get_programme,
    paid_as_published,
)
from parity311.studies.reproduction.protocols import parts_of
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX
from parity311.studies.reproduction.reproduce import (
    ReproduceConfig,
    describe_job,
    describe_jobs,
    keep_for_other,
    read_other,
    set_beside,
    tells,
    used_settings,
)
from parity311.studies.reproduction.train_stage import PARAMS, _digest
from parity311.studies.reproduction.trained_files import harness_of
from parity311.studies.reproduction.verdicts import VERDICTS
from parity311.training import agent_for

SLUGS = tuple(sorted(DOMAINS_IN_APPENDIX))


@pytest.fixture(scope="module")
def jobs() -> dict[str, TrainingJob]:
    return {job.name: job for job in make_jobs(SLUGS, "small", 5, programme=PAPER)}


def test_every_job_of_the_paper_is_as_published(jobs: dict[str, TrainingJob]) -> None:
    """All that is left is what its text gives in days and a domain has in decisions."""
    for job in jobs.values():
        harness = harness_of(job)
        published = harness.domain.observation_sets["published"]
        assert harness.observation_names[: len(published)] == tuple(published), job.name
        assert harness.term == PUBLISHED_TERM
        assert harness.n_actions == len(get_domain(job.domain).actions)
        differs = describe_job(job)["differs"]
        if job.domain == "heat" and job.agent == "reinforce":
            assert differs == "steps of an episode 1,460 (published 365)"
        else:
            assert differs == "nothing the paper gives", (job.name, differs)


def test_the_twin_ours_differs_everywhere() -> None:
    for job in make_jobs(SLUGS, "small", 5):
        assert describe_job(job)["differs"] != "nothing the paper gives", job.name


def test_tables_3_and_4_by_hand(jobs: dict[str, TrainingJob]) -> None:
    """Numbers as the paper prints them."""
    dqn = used_settings(jobs["measured/crane/dqn"])
    assert (dqn.learning_rate, dqn.buffer_size, dqn.batch_size) == (1e-3, 50_000, 64)
    assert (dqn.target_every, dqn.discount, dqn.epsilon_steps) == (500, 0.99, 10_000)
    assert (dqn.epsilon_start, dqn.epsilon_end) == (1.0, 0.05)
    assert (dqn.hidden, dqn.anneal_steps, dqn.conservatism) == ((128, 128), 0, 0.0)
    assert used_settings(jobs["measured/elevator/cql"]).conservatism == 0.1
    assert used_settings(jobs["measured/heat/hdqn"]).hidden == (256, 256)
    td = used_settings(jobs["measured/elevator/td"])
    assert (td.learning_rate, td.discount, td.epsilon_start, td.epsilon_end) == (0.1, 0.95, 1, 0.05)
    elevator = used_settings(jobs["measured/elevator/reinforce"])
    assert (elevator.learning_rate, elevator.baseline_learning_rate) == (3e-4, 1e-3)
    assert (elevator.episode_length, elevator.discount, elevator.entropy) == (168, 0.99, 0)
    assert (elevator.hidden, elevator.baseline_hidden) == ((128, 128), (64, 64))
    assert not elevator.scales_advantages
    heat = used_settings(jobs["measured/heat/reinforce"])
    assert (heat.learning_rate, heat.baseline_learning_rate) == (1e-4, 1e-4)
    assert (heat.hidden, heat.baseline_hidden) == ((256, 256), (256, 256))
    # Twenty episodes of 365 days with four complaints each, one update after each.
    assert jobs["measured/heat/reinforce"].steps == 20 * 365 * 4
    assert heat.episode_length == 365 * 4


def test_epsilon_reaches_its_end_and_seeds_are_five(jobs: dict[str, TrainingJob]) -> None:
    for job in jobs.values():
        if job.agent in ("dqn", "cql", "hdqn", "td"):
            assert job.steps > 10_000
            assert job.n_environments == 1
        assert job.label == "grid" or len(job.seeds) == 5


def test_splits_that_the_paper_has_not_are_left_out(jobs: dict[str, TrainingJob]) -> None:
    assert {part.name for part in parts_of("boiler", PAPER)} == {"boiler", "boiler_random"}
    assert "boiler_later" in {part.name for part in parts_of("boiler")}
    assert not any("leak_free" in name for name in jobs)


def test_a_plan_of_before_keeps_what_it_trained(tmp_path: Path) -> None:
    """A job that is asked nothing new is the job it was; the paper's is another one."""
    job = make_jobs(("crane",), "small", 5)[0]
    (tmp_path / PARAMS).mkdir()
    (tmp_path / PARAMS / job.params_file).write_bytes(b"params")
    before = _digest(tmp_path, job)
    assert before == _digest(
        tmp_path, TrainingJob(**{**job.__dict__, "term": {}, "pays_all": False})
    )
    assert before != _digest(tmp_path, TrainingJob(**{**job.__dict__, "pays_all": True}))


def test_the_paper_pays_the_whole_reward() -> None:
    """What no action changes is paid too: a backlog costs whoever decides."""
    slug = "ert"
    play = get_domain(slug).play
    harnesses = [Harness(paid_as_published(slug)), Harness(get_domain(slug))]
    params = play.example()
    found = []
    for harness in harnesses:
        equity = harness.equity_params(params)
        running, _ = harness.reset(jax.random.key(0), params, equity)
        moved = harness.step(jax.random.key(1), params, equity, running, jnp.int32(0))
        plain = np.arange(4) != EQUITY
        found.append((np.asarray(moved.reward)[plain],
                      np.asarray(moved.tally.published_reward)[plain]))  # fmt: skip
    assert np.allclose(*found[0])
    assert not np.allclose(*found[1])


def test_only_the_papers_rules_play() -> None:
    for slug in SLUGS:
        domain = get_domain(slug)
        played = PAPER.rules_of(slug)
        assert set(played) == {one.rule for one in domain.baselines.values()} - {""}
        assert not {"index", "dual_threshold", "canvass"} & set(played)
        assert OURS.rules_of(slug) == ()
    # The table's RANDOM sends crews to boards by lot; `random` draws among the modes.
    assert "random_boards" in PAPER.rules_of("elevator")
    assert "random" not in PAPER.rules_of("elevator")


@pytest.mark.parametrize("slug", SLUGS)
def test_every_domain_of_the_paper_tells_its_ten_baselines(slug: str) -> None:
    domain = get_domain(slug)
    assert tuple(domain.baselines) == BASELINES
    assert "balanced" in baseline_rules(domain)
    assert len({one.words for one in domain.baselines.values()}) >= 8


class Counted:
    """Records with so many complaints in any window."""

    def __init__(self, n: int) -> None:
        self.n = n

    def sql(self, query: str, **parameters: object) -> dict[str, list[Any]]:
        assert "count(*)" in query
        return {"n": [type("One", (), {"as_py": lambda own: self.n})()]}


def test_fewer_complaints_than_the_paper_scored_are_refused() -> None:
    part = parts_of("snad")[0]
    window = (part.test_from, prepare.RECORDS_TO)
    with pytest.raises(EstimationError, match="86 complaints from 2024-01-01.*scores 87"):
        prepare.check_protocol(cast(Any, Counted(86)), part, window, PAPER)
    prepare.check_protocol(cast(Any, Counted(87)), part, window, PAPER)
    prepare.check_protocol(cast(Any, Counted(86)), part, window, OURS)


def test_a_preset_too_small_for_a_domain_that_was_asked_for_is_refused() -> None:
    untested = {"snad": "it has 86 complaints, the paper scores 87."}
    with pytest.raises(InputError, match="'small' is too small .* 'snad': it has 86"):
        prepare._check_required("small", untested, ("crane", "snad"))
    prepare._check_required("small", untested, ())


def test_an_unknown_programme_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'papre'.*paper"):
        get_programme("papre")
    runs = ["--runs", str(tmp_path / "runs"), "--cities", str(tmp_path / "cities")]
    found = CliRunner().invoke(app, ["reproduce", "--programme", "papre", *runs])
    assert isinstance(found.exception, InputError)
    assert not list(tmp_path.iterdir())


def test_programmes_have_folders_of_their_own(tmp_path: Path) -> None:
    config = ReproduceConfig("small", 7, programme="paper")
    assert config.folder(tmp_path).name == "reproduction-small-7-paper"
    assert config.other_folder(tmp_path).name == "reproduction-small-7"
    prepare._claim(tmp_path / "a", {"preset": "small", "seed": 7, "programme": "paper"})
    with pytest.raises(InputError, match="was prepared with"):
        prepare._claim(tmp_path / "a", {"preset": "small", "seed": 7, "programme": "ours"})


def test_a_folder_of_before_is_ours(tmp_path: Path) -> None:
    (tmp_path / prepare.ABOUT).write_text(json.dumps({"preset": "small", "seed": 7}))
    prepare._claim(tmp_path, {"preset": "small", "seed": 7, "programme": "ours"})


def judged(programme: Any, effect: float) -> tuple[MadeUpEvidence, list[dict[str, Any]]]:
    evidence = MadeUpEvidence(effect, programme=programme)
    return evidence, judge_all(all_claims(), cast(Any, evidence))


@pytest.fixture(scope="module")
def both() -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """Both programmes on made-up evidence: in the paper's, agents are better; in ours, worse."""
    evidence, rows = judged(PAPER, 0.3)
    return evidence, rows, judged(OURS, -0.3)[1]


def test_every_claim_can_be_judged_in_the_papers_programme(both: Any) -> None:
    _, rows, _ = both
    assert len(rows) == len(all_claims())
    assert {row["verdict"] for row in rows} <= set(VERDICTS)
    by_key = {row["key"]: row for row in rows}
    assert "per incident, as the paper divides" in by_key["parity_reinforce_heat"]["ours"]
    assert by_key["throughput_heat"]["verdict"] == "not claimed"


def test_both_programmes_stand_beside_each_other(both: Any, tmp_path: Path) -> None:
    evidence, paper_rows, our_rows = both
    ours = describe_jobs(cast(Any, MadeUpEvidence()))
    (tmp_path / prepare.SCORE).mkdir()
    keep_for_other(tmp_path, cast(Any, MadeUpEvidence()), our_rows, ours)
    other = read_other(tmp_path, evidence)
    rows = set_beside(paper_rows, other, describe_jobs(evidence))
    by_key = {row["key"]: row for row in rows}
    apart = by_key["throughput_crane"]
    assert (apart["verdict"], apart["beside_verdict"]) == ("not claimed", "not claimed")
    assert apart["reason"].endswith("yes here")
    assert apart["beside_reason"].endswith("not here")
    assert "11 features (published 5)" in apart["why_apart"]
    for row in rows:
        beside = {"verdict": row["beside_verdict"], "reason": row["beside_reason"]}
        assert bool(row["why_apart"]) == (tells(row) != tells(beside)), row["key"]
    with start_run(tmp_path / "runs", "reproduce", {"preset": "small"}) as run:
        run.add_data("made-up", "0" * 64, is_synthetic=True, statement="Drawn at random.")
        write_page(run, evidence, rows, describe_jobs(evidence))
    page = " ".join(html.unescape((run.final_path / "report.html").read_text()).split())
    assert "The programme that was run is the paper's" in page
    assert "why they are apart" in page
    assert "What the paper leaves open" in page


def test_the_same_programme_is_not_set_beside_itself(both: Any, tmp_path: Path) -> None:
    evidence, rows, _ = both
    (tmp_path / prepare.SCORE).mkdir()
    keep_for_other(tmp_path, evidence, rows, [])
    with pytest.raises(InputError, match="other programme's"):
        read_other(tmp_path, evidence)
    assert read_other(tmp_path / "nothing", evidence) is None


def test_other_cities_are_not_set_beside(both: Any, tmp_path: Path) -> None:
    evidence, rows, _ = both
    ours = MadeUpEvidence()
    ours.about = {"sources": {"measured": {"fingerprint": "another"}}}
    (tmp_path / prepare.SCORE).mkdir()
    keep_for_other(tmp_path, cast(Any, ours), rows, [])
    with pytest.raises(InputError, match="other cities"):
        read_other(tmp_path, evidence)


def _unexplained(domain: Domain) -> list[str]:
    """What differs without a reason, and reasons for what does not differ."""
    found = differences(domain)
    without = [row.what for row in found if not row.why]
    return without + [what for what in domain.differs if what not in {row.what for row in found}]


class TestDifferences:
    @pytest.mark.parametrize("slug", sorted(DOMAINS_IN_APPENDIX))
    def test_each_has_a_reason_and_no_reason_is_left_over(self, slug: str) -> None:
        assert _unexplained(get_domain(slug)) == []

    def test_a_domain_without_reasons_is_found_out(self) -> None:
        domain = get_domain("crane")
        assert _unexplained(replace(domain, differs={})) == ["features", "discount"]
        assert _unexplained(replace(domain, differs={**domain.differs, "layer": "?"})) == ["layer"]


@pytest.mark.parametrize(("slug", "n_categories"), [("housing", 4), ("heat", 2)])
def test_the_hierarchy_has_a_choice_on_both_levels(slug: str, n_categories: int) -> None:
    harness = Harness(get_domain(slug), observation_set="published")
    categories = agent_for(harness, "hdqn", 1000).config.categories
    assert len(set(categories)) == n_categories < len(categories)
