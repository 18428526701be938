"""parity311: route municipal complaints with equitable coverage as an objective of its own."""

__version__ = "0.1.0"
