"""Adapters to interfaces others already use: Gymnasium, MO-Gymnasium, logged datasets.

Importing this package registers every domain with Gymnasium, where that is installed:

    import gymnasium, parity311.adapters
    gymnasium.make("parity311/Boiler-v0")
"""

from importlib.util import find_spec

from parity311.adapters.registration import register_environments

if find_spec("gymnasium") is not None:
    register_environments()
