"""parity311: route municipal complaints with equitable coverage as an objective of its own."""

from parity311.environments import register_with_gymnasium

__version__ = "0.1.0"

register_with_gymnasium()
