"""The version, apart from the public names, so that any layer may import it."""

__version__ = "0.1.0"
