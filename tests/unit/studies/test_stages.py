"""The stages: a plan that survives a file, training that goes on, agents that come back whole."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from parity311.domains import all_domains, boiler
from parity311.errors import InputError, TrainingError
from parity311.estimation.params_file import write_params
from parity311.explain.estimators import EXPLAINERS
from parity311.studies.reproduction.boiler_table import (
    N_BLOCKS,
    Confusion,
    count_confusion,
    figures,
)
from parity311.studies.reproduction.claims import all_claims
from parity311.studies.reproduction.claims.claim import judge
from parity311.studies.reproduction.evidence import Evidence, Weights, load_weights, save_weights
from parity311.studies.reproduction.jobs import TrainingJob, make_jobs, read_plan, write_plan
from parity311.studies.reproduction.page import INTRODUCTION, PROGRAMME_WORDS
from parity311.studies.reproduction.prepare import (
    N_TABLE_ROWS,
    SPLIT_VERSION,
    Where,
    _as_trained,
    _low_against_high,
    has_split,
    read_untested,
    windows_of,
)
from parity311.studies.reproduction.protocols import EQUITY_DOMAINS, SCENARIOS, is_apart, parts_of
from parity311.studies.reproduction.published import DOMAINS_IN_APPENDIX, DQN_SETTINGS
from parity311.studies.reproduction.reproduce import ReproduceConfig, describe_job
from parity311.studies.reproduction.train_stage import PARAMS, TRAINED, is_trained, run_stage
from parity311.studies.reproduction.trained_files import read_trained
from parity311.studies.reproduction.verdicts import UNTESTED

PLAIN = [0.5, 0.5, 0.0, 0.0]


def tiny_job(**other: object) -> TrainingJob:
    given = {"steps": 8, "settings": {"n_rows": 64, "batch_size": 4}, **other}
    return TrainingJob(
        "measured/boiler/td", "measured", "boiler", "boiler", "td", "td", [PLAIN], [3],
        n_environments=2, **given,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one tiny job was trained on the domain's example, by the bare command."""
    folder = tmp_path_factory.mktemp("learn")
    job = tiny_job()
    write_params(folder / PARAMS / job.params_file, boiler.example())
    write_plan(folder, [job], preset="small", seed=3, domains=["boiler"])
    absent = ["duckdb", "pyarrow", "scipy", "typer", "rich", "pydantic", "numpyro", "gymnasium"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r})); "
        f"sys.argv = ['train_stage', {str(folder)!r}]; "
        "from parity311.studies.reproduction.train_stage import main; sys.exit(main())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {"jobs": 1, "trained": 1, "missing": []}
    return folder


@pytest.mark.slow
def test_training_needs_only_jax_numpy_and_safetensors(trained_folder: Path) -> None:
    job = tiny_job()
    trained = read_trained(trained_folder / TRAINED / job.file, job)
    assert trained.seeds.tolist() == [3]
    assert trained.agent.name == "td"
    assert np.isfinite(trained.curve[-1]["reward"]).all()


def test_what_is_trained_is_not_trained_again(trained_folder: Path) -> None:
    path = trained_folder / TRAINED / tiny_job().file
    before = path.stat().st_mtime_ns
    state = run_stage(trained_folder)
    assert state["missing"] == []
    assert path.stat().st_mtime_ns == before


def test_jobs_are_chosen_by_several_names(trained_folder: Path) -> None:
    assert run_stage(trained_folder, only="*/grid,measured/boiler/*")["jobs"] == 1
    assert run_stage(trained_folder, only="*/grid,strong/*")["jobs"] == 0
    assert run_stage(trained_folder, skip="*/grid,*/td")["jobs"] == 0


def test_what_was_explained_is_kept_for_the_same_agents(tmp_path: Path) -> None:
    weights = Weights(("a", "b"), np.ones((1, 2, 2)), np.zeros((1, 2)))
    save_weights(tmp_path / "w.npz", weights, "these agents, kernel")
    found = load_weights(tmp_path / "w.npz", "these agents, kernel")
    assert found is not None
    assert found.names == ("a", "b")
    assert np.array_equal(found.values, weights.values)
    assert load_weights(tmp_path / "w.npz", "these agents, tree") is None
    assert load_weights(tmp_path / "nothing.npz", "these agents, kernel") is None


def test_another_budget_or_process_is_another_training(trained_folder: Path) -> None:
    target = trained_folder / TRAINED
    assert is_trained(tiny_job(), trained_folder, target)
    assert not is_trained(tiny_job(steps=16), trained_folder, target)


def test_a_slice_that_is_too_short_leaves_the_rest(trained_folder: Path, tmp_path: Path) -> None:
    write_params(tmp_path / PARAMS / tiny_job().params_file, boiler.example())
    write_plan(tmp_path, [tiny_job()], preset="small", seed=3, domains=["boiler"])
    state = run_stage(tmp_path, slice_s=1.0)
    assert state["missing"] == ["measured/boiler/td"]
    assert not (tmp_path / TRAINED).exists()


def test_agents_of_another_network_are_refused(trained_folder: Path) -> None:
    path = trained_folder / TRAINED / tiny_job().file
    with pytest.raises(TrainingError, match="another network"):
        read_trained(path, tiny_job(settings={"n_rows": 128, "batch_size": 4}))


def test_a_folder_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no plan"):
        read_plan(tmp_path)


@pytest.mark.parametrize("preset", ["small", "nyc"])
def test_every_agent_the_paper_names_is_trained(preset: str, tmp_path: Path) -> None:
    jobs = make_jobs(tuple(all_domains()), preset, 5)
    write_plan(tmp_path, jobs, preset=preset)
    assert read_plan(tmp_path)[1] == jobs
    for slug in all_domains():
        named = {job.label for job in jobs if job.part == slug and job.scenario == "measured"}
        assert {"dqn", "reinforce"} <= named
    grid = next(job for job in jobs if job.label == "grid")
    assert len(grid.preferences) == 128
    assert {"cql", "td"} <= {job.label for job in jobs if job.domain == "elevator"}
    published = next(job for job in jobs if job.label == "reinforce_20_episodes")
    assert published.steps == 20 * all_domains()["heat"].max_steps


def test_parts_follow_the_papers_splits() -> None:
    parts = {part.name: part for slug in all_domains() for part in parts_of(slug)}
    assert parts["boiler_random"].split == "random"
    assert str(parts["scaffold"].train_to) == "2024-01-01"
    transfer = parts["complaint_triage_2020"]
    assert transfer.test_to is not None
    assert transfer.train_from is not None
    assert transfer.test_to <= transfer.train_from
    for part in parts.values():
        assert set(part.scenarios) <= set(SCENARIOS)
        assert ("strong" in part.scenarios) <= (part.domain in EQUITY_DOMAINS)


class FewDays:
    """Records that reach over the paper's years."""

    window = (date(2020, 1, 1), date(2026, 4, 1))

    def sql(self, query: str, **parameters: object) -> pa.Table:
        if "count(*)" in query:
            return pa.table({"n": [87]})
        assert "quantile_disc" in query
        return pa.table({"day": [date(2024, 12, 30)]})


def test_nobody_is_scored_on_days_that_were_learned_from() -> None:
    """The page says so, and names the two parts that are not scored on later days."""
    parts = [part for slug in sorted(DOMAINS_IN_APPENDIX) for part in parts_of(slug)]
    not_later = set()
    for part in parts:
        learned, scored = windows_of(cast(Any, FewDays()), part)
        assert part.split == "random" or is_apart(learned, scored)
        if scored[0] < learned[1]:
            not_later.add(part.name)
    assert not_later == {"boiler_random", "complaint_triage_2020"}
    said = " ".join(INTRODUCTION)
    assert "later ones, but for the boiler table" in said
    assert "2020 in complaint triage" in said
    assert "not the paper's" in PROGRAMME_WORDS["ours"]


def test_a_split_that_overlaps_is_refused() -> None:
    """The twin: how SNAD was scored before, in the process of all years."""
    part = replace(parts_of("snad")[0], test_from=date(2020, 1, 1))
    assert not is_apart(
        (date(2020, 1, 1), date(2024, 1, 1)), (date(2023, 12, 31), date(2026, 1, 1))
    )
    with pytest.raises(InputError, match="days do not overlap"):
        windows_of(cast(Any, FewDays()), part)


def test_a_part_with_too_few_cases_is_not_trained_and_its_claims_say_why(tmp_path: Path) -> None:
    where, part = Where(tmp_path), parts_of("snad")[0]
    path = where.split("measured", "snad")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"split_version": SPLIT_VERSION, "reason": "12 cases of 'snad'"}))
    assert has_split(path)
    untested = read_untested(where, [part])
    assert untested == {"snad": "12 cases of 'snad'"}
    write_plan(where.learn, [], preset="small", seed=3, domains=["snad"], untested=untested)
    evidence = Evidence(tmp_path, lambda *_: None)
    assert evidence.domains == ()
    claim = next(claim for claim in all_claims() if claim.key == "snad_rules_dqn")
    row = judge(claim, evidence)
    assert row["verdict"] == UNTESTED
    assert "12 cases of 'snad'" in row["reason"]


def test_a_split_of_the_first_format_is_made_again(tmp_path: Path) -> None:
    """It may say: scored in the true process of all years."""
    path = tmp_path / "split.json"
    assert not has_split(path)
    path.write_text('{"words": "all years", "train_to": "2025-01-01", "test_from": "2020-01-01"}')
    assert not has_split(path)


def test_draws_to_one_side_still_give_an_interval_around_the_estimate() -> None:
    """As 1 − D/C is inverted, draws of the incidents lie above the estimate of them."""
    incidents = np.array([30.0, 30.0, 20.0, 40.0, 40.0, 0.0])
    draws = incidents * np.random.default_rng(0).uniform(1.1, 1.2, (200, 1))
    made = SimpleNamespace(complaints=np.full(6, 20.0), denominators=incidents, draws=draws)
    value, lower, upper = _low_against_high(cast(Any, made))
    assert value == pytest.approx(-0.5)
    assert lower < value < upper


def test_every_job_says_how_it_differs_from_the_paper() -> None:
    jobs = {job.name: job for job in make_jobs(tuple(sorted(DOMAINS_IN_APPENDIX)), "small", 5)}
    crane = describe_job(jobs["measured/crane/dqn"], {"words": "80/20", "n_learned": 400})
    assert "γ 0.95 (published 0.99)" in crane["differs"]
    assert "11 features (published 5)" in crane["differs"]
    assert crane["rows learned from"] == 400
    td = describe_job(jobs["measured/elevator/td"])
    assert "γ 0.5 (published 0.95)" in td["differs"]
    boards = describe_job(jobs["measured/elevator/reinforce_boards"])
    assert "features" not in boards["differs"]
    for job in jobs.values():
        assert describe_job(job)["differs"] != "nothing the paper gives", job.name


def test_a_job_of_the_papers_own_settings_differs_in_nothing() -> None:
    """The twin: with Table 3 itself nothing is left to say."""
    settings = {**DQN_SETTINGS, "hidden": [128, 128]}
    job = TrainingJob("m/boiler/dqn", "m", "boiler", "boiler", "dqn", "dqn", [PLAIN], [3], 100,
              observation_set="published", settings=settings)  # fmt: skip
    assert describe_job(job)["differs"] == "nothing the paper gives"


def test_only_the_papers_domains_are_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thirteenth domain brings no claim and no job."""
    more = {**all_domains(), "potholes": replace(all_domains()["crane"], slug="potholes")}
    monkeypatch.setattr("parity311.studies.reproduction.reproduce.all_domains", lambda: more)
    assert set(ReproduceConfig().chosen) == DOMAINS_IN_APPENDIX
    with pytest.raises(InputError, match="potholes"):
        _ = ReproduceConfig(domains=("potholes",)).chosen


def test_domains_name_only_explainers_there_are() -> None:
    for slug, domain in all_domains().items():
        assert domain.explainer in {"", *EXPLAINERS}, slug


def test_a_long_table_is_drawn_from_and_visits_are_free_where_unlimited() -> None:
    part = next(part for part in parts_of("boiler") if not part.has_capacity)
    params = boiler.example()
    free = _as_trained(params, part)
    assert float(free.visit_price_dollars) == 0.0
    n = 2 * N_TABLE_ROWS
    table = {
        name: np.resize(np.asarray(values), (n, *np.shape(values)[1:]))
        for name, values in params._asdict().items()
        if np.shape(values)[:1] == params.stratum.shape
    }
    long = params._replace(**table, n_rows=np.int32(n))
    drawn = _as_trained(long, part)
    assert int(drawn.n_rows) == len(drawn.stratum) == N_TABLE_ROWS
    assert drawn.is_defective.mean() == pytest.approx(long.is_defective.mean(), abs=0.01)


def test_confusion_counts_every_filing_once(trained_folder: Path) -> None:
    job = tiny_job()
    trained = read_trained(trained_folder / TRAINED / job.file, job)
    params = boiler.example()
    found = count_confusion(trained, params)
    assert found.n_filings.sum() == pytest.approx(int(params.n_rows))
    defects = boiler.cases(params).is_actionable.sum()
    assert (found.caught + found.missed).sum() == pytest.approx(defects)


def test_the_table_of_who_inspects_everything() -> None:
    """Recall 1, precision the base rate; and its twin that inspects nothing."""
    rng = np.random.default_rng(0)
    defects = rng.binomial(100, 0.1, (1, N_BLOCKS)).astype(float)
    nothing = np.zeros_like(defects)
    every = figures(Confusion(defects, 100 - defects, nothing, nothing))
    assert every["recall"].value == 1.0
    assert every["precision"].lower < 0.1 < every["precision"].upper + 0.01
    none = figures(Confusion(nothing, nothing, 100 - defects, defects))
    assert none["recall"].value == 0.0
    assert none["reward_per_step"].value < 0.0


def test_jobs_are_told_apart_by_name() -> None:
    jobs = make_jobs(tuple(all_domains()), "small", 5)
    assert len({job.name for job in jobs}) == len({job.file for job in jobs}) == len(jobs)
    assert replace(jobs[0], label="x").file == jobs[0].file
