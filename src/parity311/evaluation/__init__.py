"""Protocols, ceilings and comparison tables."""
