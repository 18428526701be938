"""From a policy package and open cases to recommendations: one path, without JAX.

What a clerk is told, what plays in the city when a policy is judged, and what a backtest replays
are the same functions on the same features.
"""
