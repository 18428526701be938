"""The paper's figures, exactly as printed (Aldridge et al., "Scaling the Queue")."""

from __future__ import annotations

SECTIONS = {
    "1": "Introduction",
    "1.1": "Motivation",
    "1.2": "Operational Context",
    "1.3": "Research Questions",
    "1.4": "Contributions",
    "2": "Related Work",
    "2.1": "Housing Equity, Access, and the State",
    "2.2": "Algorithmic Decision-Making in Public Services",
    "2.3": "Participatory Sensing, Civic Data, and the Participation Gap",
    "2.4": "Quantifying and Correcting Under-Reporting in Urban Crowdsourcing",
    "2.5": "Service Level Design for Equity and Efficiency in City Operations",
    "2.6": "Measurement Justice and Data Bias in Municipal Systems",
    "2.7": "Reinforcement Learning for Public Resource Allocation",
    "2.8": "Research Gap",
    "3": "Problem Domains and Datasets",
    "3.1": "NYC DOB Operational Context",
    "3.2": "Equity Stakes by Domain",
    "3.3": "Domain Descriptions and Data Sources",
    "3.4": "Equity-Relevant Dataset Characteristics",
    "3.5": "Data Limitations and Bias Sources",
    "4": "Formal Framework",
    "4.1": "General MDP Formulation",
    "4.2": "Equity as a First-Class Objective",
    "4.3": "Upstream Reporting-Rate Correction",
    "4.4": "Multi-Objective Reward Design",
    "4.5": "Reward Calibration Procedure",
    "5": "Methods",
    "5.1": "Algorithms",
    "5.2": "SHAP-Based Equity Auditing",
    "5.3": "Baselines",
    "5.4": "Evaluation Protocol",
    "6": "Results",
    "6.1": "Classification Throughput and Accuracy",
    "6.2": "Multi-Objective Trade-offs",
    "6.3": "Equity Analysis",
    "7": "Bias, Feedback Loops, and Limitations",
    "7.1": "Partial Observability and the Under-Reporting Problem",
    "7.2": "Feedback Loop Dynamics",
    "7.3": "Scope and Generalizability",
    "8": "Stakeholder Engagement and Deployment",
    "8.1": "Practitioner Input",
    "8.2": "Community Perspectives",
    "8.3": "Deployment Recommendations",
    "9": "Discussion",
    "9.1": "Key Takeaways",
    "9.2": "Implications for Policy",
    "9.3": "Generalizability",
    "10": "Conclusion",
    "A": "Hyperparameter Tables",
    "B": "Domain-Specific MDP Summaries",
}
"""Headings by number, which the sources of claims cite."""

BOILER_ROWS = 167_379
"""Test records in the caption and text of the boiler table."""
BOILER_RECORDS = 834_338
BOILER_TEST_SHARE = 0.2
BOILER_TABLE = {
    "REINFORCE": {
        "reward": 9_019_490.0,
        "reward_per_step": 54.15,
        "escalations": 53_848,
        "true_positives": 12_441,
        "false_positives": 41_407,
        "true_negatives": 112_002,
        "false_negatives": 729,
        "precision": 0.231,
        "recall": 0.945,
        "f1": 0.371,
    },
    "DQN": {
        "reward": 10_294_592.0,
        "reward_per_step": 61.80,
        "escalations": 59_439,
        "true_positives": 13_001,
        "false_positives": 46_438,
        "true_negatives": 106_971,
        "false_negatives": 169,
        "precision": 0.219,
        "recall": 0.987,
        "f1": 0.358,
    },
}
"""Table 1: test-set classification performance."""
MISS_TO_WASTE = 26.0
GRID_DETECTION = {5.0: 0.71, 50.0: 0.94}
"""Detection at the least and the greatest ratio of the 128 settings."""

ELEVATOR_TABLE: dict[str, tuple[float, float | None, float | None, float | None]] = {
    "NO_DISPATCH": (-835_120, 2371.8, 1305.0, 0.00),
    "UNIFORM": (-552_092, 1743.2, 781.0, 0.16),
    "RANDOM": (-490_276, 1642.3, 649.7, 0.15),
    "TD": (-463_449, 1578.4, 602.5, 0.13),
    "ACTIONABLE": (-462_878, 1422.6, 678.0, 0.22),
    "REINFORCE": (-463_117, None, None, None),
    "DQN": (-431_596, 1429.1, 582.4, 0.17),
    "EMERG": (-438_688, 1583.6, 525.7, 0.15),
    "TAIL": (-420_387, 1403.5, 562.1, 0.14),
    "BALANCED": (-413_777, 1423.2, 532.7, 0.15),
}
"""Table 2: reward, A30, S and Act.% over 168 steps."""
ELEVATOR_TEXT = {
    "BALANCED": (-446_000.0, 500.0),
    "DQN": (-459_119.0, 4_379.0),
    "REINFORCE": (-463_117.0, 10_482.0),
}
"""The same policies in the text above the table: mean, and its error as given or implied."""
ELEVATOR_STEPS = 168
ELEVATOR_RECORDS = 103_598
ELEVATOR_YEARS = 6
"""Complaints of 2020 to 2025 (3.3)."""
ELEVATOR_ENFORCED = 0.20
"""Share of the cases that lead to enforcement (3.3)."""

HEAT_REWARD = {"REINFORCE": 8_800.0, "HDQN": 2_100.0, "random": 2_100.0}
HEAT_CLOSED = {"REINFORCE": 101.0, "HDQN": 84.0, "random": 80.0}
HEAT_STATED_RATIO = 4.0
HEAT_STATED_GAIN = (0.20, 0.27)

SNAD_REWARD = {"DQN": 1.046, "REINFORCE": 1.011}
SNAD_COMPLAINTS = 87
SNAD_ACTIONABLE = 85
SNAD_ENFORCEMENTS = 7
SNAD_ACTIONS_IN_TEXT = frozenset({"Defer", "Inspect", "Prioritise"})
SNAD_ACTIONS_IN_APPENDIX = frozenset({"Dispatch", "Defer", "Prioritise"})

DOMAINS_IN_ABSTRACT = frozenset({"boiler", "crane", "heat", "housing", "scaffold", "snad"})
DOMAINS_IN_APPENDIX = DOMAINS_IN_ABSTRACT | {
    "elevator",
    "drone",
    "electrical_revisit",
    "drainage",
    "complaint_triage",
    "ert",
}

DQN_SETTINGS = {
    "learning_rate": 1e-3,
    "buffer_size": 50_000,
    "batch_size": 64,
    "target_every": 500,
    "discount": 0.99,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_steps": 10_000,
    "hidden": (128, 128),
    "anneal_steps": 0,
}
"""Table 3, "all domains"; a step size that falls is not in it."""
CQL_PENALTY = 0.1
HDQN_HIDDEN = (256, 256)
TD_SETTINGS = {
    "learning_rate": 0.1,
    "discount": 0.95,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
}
REINFORCE_DISCOUNTS = (0.95, 0.99)
REINFORCE_SETTINGS = {
    "elevator": {
        "learning_rate": 3e-4,
        "baseline_learning_rate": 1e-3,
        "discount": 0.99,
        "episode_length": 168,
        "hidden": (128, 128),
        "baseline_hidden": (64, 64),
        "entropy": 0,
    },
    "heat": {
        "learning_rate": 1e-4,
        "baseline_learning_rate": 1e-4,
        "discount": 0.99,
        "episode_length": 365,
        "hidden": (256, 256),
        "baseline_hidden": (256, 256),
        "entropy": 0,
    },
}
"""Table 4; Equation 12 has no bonus for spreading over actions."""

EQUITY_PRICE = (0.04, 0.07)
"""Throughput given up for near-parity: "approximately 4-7 %"."""
TAU = 0.05
"""Recommended threshold of the audit."""
