"""The paper's figures, exactly as printed (Aldridge et al., "Scaling the Queue")."""

from __future__ import annotations

BOILER_ROWS = 167_379
"""Test records in the caption and text of the boiler table."""
BOILER_RECORDS = 834_338
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

EQUITY_PRICE = (0.04, 0.07)
"""Throughput given up for near-parity: "approximately 4-7 %"."""
TAU = 0.05
"""Recommended threshold of the audit."""
