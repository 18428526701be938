"""Adapters to interfaces others already use: Gymnasium, MO-Gymnasium, logged datasets.

`import parity311` makes the environments' names known (`parity311.environments`):

    import gymnasium, parity311
    gymnasium.make("parity311/boiler-v2")
"""
