"""`parity311 reporting spatial`: fit one event on the neighbour graph and write a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parity311.report import pictures
from parity311.report.pictures import Axis, Reference
from parity311.report.reporting_page import hash_file
from parity311.report.sections import Picture, Report, Section, TableView
from parity311.report.store import RunWriter, start_run
from parity311.reporting.spatial import (
    N_FOLDS,
    NOT_IDENTIFIED,
    FieldChoice,
    SpatialFit,
    Storm,
    choose_field,
    describe_graph,
    fit_spatial,
    rank_areas,
    read_storm,
    score_storm,
)


@dataclass(frozen=True)
class SpatialConfig:
    """What is fitted, and how long it is sampled."""

    tracts: Path
    edges: Path
    seed: int = 0
    n_chains: int = 4
    n_warm: int = 500
    n_draws: int = 500
    n_folds: int = N_FOLDS
    """Parts of the areas that choose the field; 0: the continuous one, unasked."""


def run_spatial(
    config: SpatialConfig, runs: Path, tell: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Fit the spatial model to early reports, score it on later ones where they are known."""
    storm = read_storm(config.tracts, config.edges)
    with start_run(runs, "reporting spatial", asdict(config)) as run:
        for path in (config.tracts, config.edges):
            run.add_data(path.name, hash_file(path), is_synthetic=False)
        run.set_seeds(sampler=config.seed)
        with run.stage("sample"):
            fit = fit_spatial(
                storm,
                seed=config.seed,
                n_chains=config.n_chains,
                n_warm=config.n_warm,
                n_draws=config.n_draws,
            )
        choice = None
        if config.n_folds:
            with run.stage("choose"):
                choice = choose_field(storm, seed=config.seed, n_folds=config.n_folds, tell=tell)
        result = describe_spatial(storm, fit, config.seed, choice)
        run.add_metrics(result)
        _write_pages(run, storm, fit, result, choice)
    said = {} if choice is None else {"choice": say_choice(choice)}
    return {"run": run.id, "report": str(run.final_path / "report.html"), **result, **said}


def describe_spatial(
    storm: Storm, fit: SpatialFit, seed: int, choice: FieldChoice | None = None
) -> dict[str, Any]:
    """The figures of a fit, and how the field that ranks areas was chosen."""
    mean, lower, upper = fit.prevalence
    return {
        "graph": describe_graph(storm),
        "n_early": int(storm.early.sum()),
        "n_later": None if storm.later is None else int(storm.later.sum()),
        "fields": [] if choice is None else describe_fields(choice),
        "scores": score_storm(storm, fit, choice, seed=seed),
        "slopes": [
            {"covariate": name, "mean": mean, "lower": low, "upper": high}
            for name, (mean, low, high) in fit.slopes.items()
        ],
        "prevalence": {"mean": mean, "lower": lower, "upper": upper},
        "convergence": {
            "r_hat": fit.convergence.r_hat,
            "effective_sample_size": fit.convergence.effective_sample_size,
            "has_converged": fit.convergence.has_converged,
            "verdict": fit.convergence.describe(),
        },
        "not_identified": NOT_IDENTIFIED,
        "seconds": round(fit.seconds, 1),
    }


def describe_fields(choice: FieldChoice) -> list[dict[str, Any]]:
    """Each field's likelihood of the early reports of areas that were held out."""
    rows = []
    for name, value in choice.log_likelihood.items():
        lower, upper = choice.above_continuous.get(name, (None, None))
        rows.append(
            {
                "field": name,
                "log_likelihood_per_area": value,
                "above_continuous_lower": lower,
                "above_continuous_upper": upper,
                "is_chosen": name == choice.chosen,
            }
        )
    return rows


def _write_pages(
    run: RunWriter,
    storm: Storm,
    fit: SpatialFit,
    result: dict[str, Any],
    choice: FieldChoice | None,
) -> None:
    scores = rank_areas(storm, fit, choice)
    run.add_table(
        "areas",
        {
            "area": list(storm.geoid),
            "borough": list(storm.borough),
            "early_report": storm.early,
            "incident_probability": fit.incident_probability,
            "report_probability": fit.report_probability,
            **scores,
        },
    )
    run.add_table("slopes", result["slopes"])
    summary = (result["convergence"]["verdict"], NOT_IDENTIFIED)
    if choice is not None:
        run.add_table("fields", result["fields"])
        summary = (*summary, say_choice(choice))
    shown = [
        Picture(
            "slopes",
            caption="What goes with more reporting, per standard deviation; 90 % intervals.",
            alt="One row per covariate with a dot at the mean and a line for the interval.",
            table=TableView("slopes"),
        )
    ]
    run.draw(
        "slopes",
        pictures.ranked_plot,
        [
            pictures.Estimate(row["covariate"], row["mean"], row["lower"], row["upper"])
            for row in result["slopes"]
        ],
        title="Slope of reporting per standard deviation",
        axis=Axis("slope on the logit"),
        reference=Reference(0.0, "no difference"),
    )
    if result["scores"]:
        run.add_table("scores", [_plain(row) for row in result["scores"]])
        run.draw(
            "auc",
            pictures.ranked_plot,
            [
                pictures.Estimate(row["score"], row["auc"], row["auc_lower"], row["auc_upper"])
                for row in result["scores"]
            ],
            title="Later reports foretold from early ones",
            axis=Axis("area under the curve", includes=(0.5,)),
            reference=Reference(0.5, "chance"),
        )
        shown.append(
            Picture(
                "auc",
                caption="Chance that an area with a later report ranks above one without.",
                alt="One row per score with a dot at its area under the curve and its interval.",
                table=TableView("scores"),
            )
        )
    run.set_report(
        Report(
            title="Early reports on the neighbour graph",
            summary=summary,
            sections=(Section("What the early reports say", pictures=tuple(shown)),),
        )
    )


def say_choice(choice: FieldChoice) -> str:
    """Which field ranks areas, and by what that was chosen, in a sentence."""
    kinds = {
        "continuous": "a continuous field",
        "binary": "a binary field, as published,",
        "average": "the mean of a continuous and a binary field",
    }
    scores = ", ".join(f"{name} {value:.4f}" for name, value in choice.log_likelihood.items())
    return (
        f"Areas are ranked by {kinds[choice.chosen]} since it foretells best the early reports of "
        f"areas that were held out (log likelihood an area, {choice.n_folds} folds: {scores})."
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    lower, upper = row["above_label_propagation"]
    rest = {key: value for key, value in row.items() if key != "above_label_propagation"}
    return {**rest, "above_label_lower": lower, "above_label_upper": upper}
