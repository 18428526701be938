"""The most that may be asked for, wherever it is asked."""

LARGEST_SEED = 1_000_000_000
"""Seeds of agents and episodes are made by counting up from the one given, and JAX takes what fits
into 31 bits."""
MOST_AGENTS = 10_000
"""Seeds of one training: at 0.2 MB an agent, what a machine can hold."""
MOST_STEPS = 1_000_000_000
"""Steps of one training: days at the fastest pace measured."""
MOST_WORKERS = 1024
"""Processes side by side."""
