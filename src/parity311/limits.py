"""The most that may be asked for, wherever it is asked, and what passes as equal."""

LARGEST_SEED = 1_000_000_000
"""Seeds of agents and episodes are made by counting up from the one given, and JAX takes what fits
into 31 bits."""
MOST_AGENTS = 10_000
"""Seeds of one training: at 0.2 MB an agent, what a machine can hold."""
MOST_STEPS = 1_000_000_000
"""Steps of one training: days at the fastest pace measured."""
MOST_WORKERS = 1024
"""Processes side by side."""
THREADS_VARIABLE = "PARITY311_THREADS"
"""Environment variable: threads that a query may take. One in a job, so that sums of floats do not
depend on how rows were shared out."""

LARGEST_GAP = 0.05
"""τ: the largest difference of rates between two strata that passes an audit (the paper's)."""
SMALL_RATE = 0.2
"""Mean rate below which strata are judged by their ratio instead."""


def ratio_of_gap(gap: float, mean: float) -> float:
    """The ratio of two rates that lie a gap apart around their mean."""
    return max(mean - gap / 2, 0.0) / (mean + gap / 2)
