"""The reference of metrics: every figure of a policy, of an audit and of an episode, in words."""

from __future__ import annotations

import ast
import inspect
import textwrap

from parity311.audit.spec import DENOMINATORS, ESTIMANDS, POLARITIES, STRATA
from parity311.domains import all_domains
from parity311.evaluation.metrics import DIRECTIONS, FEWEST_REFERENCE
from parity311.mdp import contract

FIGURES = {
    "reward": "published reward an episode under the scoring preference, without equity",
    "reward_vector": "its four components: speed, −cost, equity, retention",
    "recall": "correct escalations per reported actionable incident",
    "precision": "correct escalations per visit",
    "visits_per_complaint": "visits over complaints: the capacity that was used",
    "visits": "visits an episode",
    "hours": "inspector hours an episode",
    "correct": "correct escalations an episode",
    "coverage": "correct escalations per actionable incident, reported or not, by stratum; with "
    "`n_actionable` and `reported_share`",
    "coverage_gap": "largest difference of coverage between two known strata; the interval covers "
    "the choice of the pair",
    "feasible_parity": "highest coverage that all strata could share: nobody visits what nobody "
    "reported",
    "noise_floor": "gap that counting alone would show at exact parity",
    "price_of_equity": "share of correct escalations given up against `reference`; not defined "
    f"where that made fewer than {FEWEST_REFERENCE}",
    "price_note": "why a price is not defined",
    "price_floor": "least price of the same gap at the same visits, under the truth",
    "lowest_raised": "by how much the lowest coverage rose against `reference`",
    "highest_lowered": "by how much the highest coverage fell against `reference`",
    "direction": f"which way a gap moved: {', '.join(DIRECTIONS)}",
    "against_today": "changes against today's rule: correct (relative), recall, visits per "
    "complaint, gap, direction",
    "share_of_way": "share of the way from today's rule to the ceiling or the best known, at equal "
    "capacity",
    "head_room": "reward of the ceiling less today's rule's",
    "has_head_room": "whether that is beyond two standard errors",
    "regret": "reward of the ceiling less this policy's",
    "ceiling": "who stands for the end of the way",
    "reference": "policy without equity that a price is measured against",
    "believed_reward": "the same reward in the estimated process: what was expected",
    "prices": "coverage prices by stratum that it starts from",
    "n_agents": "trainings that the figures are the mean of",
    "is_within_capacity": "whether it makes no more visits than there are",
}
"""Every figure of a policy in `metrics.json`, in words."""
IDENTITY = ("domain", "policy")
"""Keys of such a record that are no figures."""


def metrics_block() -> str:
    """Three tables: a policy's figures, an episode's sums, an audit's choices."""
    lines = [
        "## Of a policy",
        "",
        "In `metrics.json` of a run. Where a figure has an interval it is a record of `value`, "
        "`lower`, `upper` (95 %, paired bootstrap over episodes).",
        "",
        *_table("figure", FIGURES),
        "",
        "## Of an episode",
        "",
        "What a process adds up step by step (`Tally`); arrays are by stratum.",
        "",
        *_table("sum", attribute_words(contract.Tally)),
        "",
        "Figures of a domain's own, as means over the steps: "
        + "; ".join(
            f"{slug} {', '.join(one.measure_names)}"
            for slug, one in all_domains().items()
            if one.measure_names
        )
        + ".",
    ]
    for title, words in (
        ("what is counted", ESTIMANDS),
        ("divided by", DENOMINATORS),
        ("compared between", STRATA),
        ("polarity", POLARITIES),
    ):
        head = ["", "## Of an audit", ""] if title == "what is counted" else [""]
        lines += [*head, *_table(title, words)]
    return "\n".join(lines)


def _table(head: str, words: dict[str, str]) -> list[str]:
    rows = [f"| `{name}` | {says.replace('|', '/')} |" for name, says in words.items()]
    return [f"| {head} | meaning |", "| --- | --- |", *rows]


def attribute_words(owner: type) -> dict[str, str]:
    """Attributes of a class with the text that stands under each in its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    name = ""
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            found[name] = "–"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
            name = ""
    return found
