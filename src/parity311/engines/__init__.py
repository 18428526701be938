"""Mechanics that several domains share; what serves one domain lives in that domain."""
